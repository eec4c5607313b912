"""The explorer finds no violation in the core, visits what it says, and shows the way to what it finds."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tenure.protocol import outside, state
from tenure.testing.explore import __main__ as command_line
from tenure.testing.explore import keys
from tenure.testing.explore.mutants import MUTANTS, in_force
from tenure.testing.explore.parallel import run_mutant
from tenure.testing.explore.scope import Scope
from tenure.testing.explore.scopes import scopes
from tenure.testing.explore.search import explore, follow

SCOPES = {scope.name: scope for scope in scopes()}


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_the_nearest_states_of_every_scope_hold_all_invariants(scope: Scope) -> None:
    result = explore(replace(scope, most=250))
    assert result.found is None
    assert result.complete == (result.states < 250)
    assert result.transitions > result.states >= 250
    assert 0 < result.patience < 24


def test_a_small_scope_is_visited_as_a_whole() -> None:
    result = explore(SCOPES["one-transfer"])
    assert (result.complete, result.found) == (True, None)
    assert result.depth > 10


def test_two_runs_see_the_same() -> None:
    first, second = (explore(replace(SCOPES["chain-0-2"], most=300)) for _ in range(2))
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)


def test_the_wide_form_allows_more_of_the_same_scopes() -> None:
    wide = {scope.name: scope for scope in scopes(wide=True)}
    assert wide.keys() == SCOPES.keys()
    for name, scope in wide.items():
        small = SCOPES[name].budget
        assert all(scope.budget[kind] >= count for kind, count in small.items())
        assert scope.budget != small


@pytest.mark.parametrize("name", keys.DROPPED)
def test_a_state_has_every_field_but_those_that_are_dropped_with_a_reason(name: str) -> None:
    source = Path(keys.__file__).read_text().partition("Epochs = ")[2]
    fields = set(getattr(state, name).__struct_fields__)  # those of effects are there by import
    assert fields >= keys.DROPPED[name]
    missing = [field for field in sorted(fields - keys.DROPPED[name]) if not re.search(rf"\.{field}\b", source)]
    assert not missing


def test_every_type_of_a_state_is_covered_by_these_lists() -> None:
    whole = {"Tree", "Attempt", "Candidate", "Pickup", "Wait"}  # taken as they are, or told by the scope
    never = {"Books", "Locator", "Ending"}  # no part of a state, or dropped with the field that holds it
    types = {
        name
        for module in (state, outside)
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__
    }
    assert types == whole | never | keys.DROPPED.keys()


# What the explorer has found in the core, as it found it -----------------------------------------------------------


def test_an_absent_effect_is_not_sent_again_once_its_intent_was_taken_up_elsewhere() -> None:
    taken_up = [
        "a task is submitted",
        "a1 acknowledges [t]",
        "a1 intends i1 [t]",
        "a1 delegates [t]",
        "b1 acknowledges [t.1]",
        "a1 did not send request 1 of e1",
        "b1 intends i1 [t.1]",
    ]
    follow(SCOPES["shared-intent"], taken_up)
    with pytest.raises(ValueError, match="was refused"):
        follow(SCOPES["shared-intent"], [*taken_up, "a1 calls again for e1"])


def test_a_call_that_may_land_after_the_window_is_not_made() -> None:
    ends_soon = [
        "a task is submitted",
        "a1 acknowledges [t]",
        "a1 intends i1 [t]",
        "a1 sends request 1 of e1",
        "request 1 of e1 lands: confirmed",
        "request 1 of e1 times out",
        "10 ms pass",
    ]
    follow(SCOPES["idempotent"], ends_soon)
    with pytest.raises(ValueError, match="was refused"):
        follow(SCOPES["idempotent"], [*ends_soon, "a1 calls again for e1"])


def test_a_look_up_in_the_last_moment_of_the_limit_proves_no_absence() -> None:
    looked = [
        "a task is submitted",
        "a1 acknowledges [t]",
        "a1 intends i1 [t]",
        "a1 sends request 1 of e1",
        "a1 crashes",
        "a1 is reported dead [t]",
        "10 ms pass",
        "a look-up of e1 begins",
        "lookup 2 of e1 shows: nothing",
    ]
    follow(SCOPES["proof-of-death"], looked)
    with pytest.raises(ValueError, match="was refused"):
        follow(SCOPES["proof-of-death"], [*looked, "lookup 2 of e1: nothing found, claimed as absent"])


# A finding, and the command ------------------------------------------------------------------------------------------


def test_a_finding_shows_the_shortest_way_to_it() -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.invariant == "same-payload")
    with in_force(mutant):
        result = explore(SCOPES[mutant.scope])
    assert result.found is not None
    assert not result.complete
    assert result.found.timeline == (
        "   0 ms  a task is submitted  → task.submitted, offer.issued",
        "a1 acknowledges a wrong digest [t]  → VIOLATION",
    )


def test_what_is_not_open_is_not_followed() -> None:
    with pytest.raises(LookupError, match="not open"):
        follow(SCOPES["chain-0-2"], ["a1 acknowledges [t]"])


def test_the_command_answers_in_json() -> None:
    done = CliRunner().invoke(command_line.main, ["--scope", "one-transfer", "--processes", "1", "--json"])
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert (summary["violations"], summary["mutants"], summary["interrupted"]) == (0, 0, False)
    assert summary["states"] == summary["scopes"][0]["states"] > 1_000
    assert summary["scopes"][0]["bounds"].startswith("A×1 B×1 C×1; transfers 2, attempts 2, takeovers 1; clock 2")


def test_an_unknown_scope_is_named_with_those_that_exist() -> None:
    done = CliRunner().invoke(command_line.main, ["--scope", "nowhere"])
    assert done.exit_code == 2
    assert "No scope nowhere; there are late-acks, " in done.output


def test_violations_and_escapes_are_printed_and_end_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.invariant == "same-payload")
    with in_force(mutant):
        broken = explore(SCOPES[mutant.scope])
    caught = run_mutant(mutant, SCOPES[mutant.scope])
    escaped = run_mutant(replace(mutant, within=1), SCOPES[mutant.scope])
    assert (caught.escaped, escaped.escaped) == (False, True)
    for result in (broken, caught, escaped):
        command_line.say(result)
    assert command_line.conclude([broken], [caught], 1.0, interrupted=False, as_json=False) == 1
    assert command_line.conclude([], [escaped], 1.0, interrupted=False, as_json=False) == 1
    assert command_line.conclude([], [caught], 1.0, interrupted=False, as_json=False) == 0
    assert command_line.conclude([], [], 1.0, interrupted=True, as_json=True) == 130
    printed = capsys.readouterr().out
    assert "stopped by a violation, violations 1" in printed
    assert "bounds: A×1 B×1 C×1; transfers 2, attempts 2, takeovers 1; clock 1, crashes 1, works 2" in printed
    assert "acknowledges a wrong digest [t]  → VIOLATION" in printed
    assert "ESCAPED (seen: nothing" in printed
    assert "caught by same-payload" in printed


def test_ctrl_c_stops_the_search_between_two_states() -> None:
    argv = [sys.executable, "-m", "tenure.testing.explore", "--wide", "--scope", "child", "--json", "--processes", "1"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "0 of 1 scopes" in process.stderr.readline()
        time.sleep(1.0)
        for _ in range(2):  # whoever passes a signal on may send it twice
            process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    seen = json.loads(out)
    assert seen["interrupted"] is True
    assert [scope["complete"] for scope in seen["scopes"]] == [False]
    assert "Traceback" not in errors
