"""The benchmark of graphs measures what it says. No time is judged here."""

import json

import pytest

from bench import graph
from tenure.graph.checking import check, errors


def test_its_graph_is_the_same_for_the_same_seed_and_has_no_errors() -> None:
    one, again = graph.made(50, 200), graph.made(50, 200)
    assert one == again
    assert (len(one.agents), len(one.edges)) == (50, 200)
    assert errors(one) == ()
    assert graph.made(50, 200, seed=8) != one


def test_its_graph_leaves_no_dear_question_out() -> None:
    assert {"transfer_cycle", "delegation_cycle"} <= {one.code for one in check(graph.made(50, 200))}


def test_it_prints_both_sides_and_their_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    code = graph.main(["--json", "--quick"])
    found = json.loads(capsys.readouterr().out)
    assert found["agents"] == 200
    assert found["ratio"] == pytest.approx(found["check_ms"] / found["pass_ms"], rel=0.1)
    held = found["ratio"] <= found["limit"] and found["text_growth"] <= found["text_limit"]
    assert code == int(not held)
