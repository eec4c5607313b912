"""The crash matrix is green, it covers what it says, and it turns red when it should."""

import json
import threading

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tenure import Complete, Team, Tenure
from tenure.ledger import Verification, open_ledger
from tenure.protocol.outside import Attempt, Effect
from tenure.protocol.state import Question
from tenure.protocol.vocabulary import EffectState, Purpose, Reason
from tenure.testing.crashes import __main__ as command_line
from tenure.testing.crashes import matrix
from tenure.testing.crashes.cell import Verdict
from tenure.testing.crashes.judge import Evidence, gather, judge
from tenure.testing.crashes.matrix import cells, chosen, exists, run_all, run_apart, spread
from tenure.testing.crashes.mutants import MUTANTS, Mutant
from tenure.testing.crashes.outside import Truth
from tenure.testing.crashes.points import Fault, Point
from tenure.testing.crashes.program import BRIEF
from tenure.testing.crashes.strategies import STRATEGIES
from tenure.testing.crashes.table import reds, table

JOBS = 8

E = EffectState


def red_ones(verdicts: list[Verdict]) -> list[str]:
    return reds([verdict for verdict in verdicts if verdict.red])


# --- the matrix -----------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_a_spread_sample_of_the_matrix_is_green() -> None:
    verdicts = list(run_all(spread(), JOBS, threading.Event()))
    assert len(verdicts) == len(spread()) > 60
    assert red_ones(verdicts) == []


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_whole_matrix_is_green() -> None:
    verdicts = list(run_all(cells(), JOBS, threading.Event()))
    assert len(verdicts) == len(cells())
    assert red_ones(verdicts) == []
    words = {verdict.word for verdict in verdicts}
    assert words >= {"once", "none", "asked"}, "all kinds of ends are met, not one and the same"


def test_a_stalled_sender_never_leads_to_a_second_act() -> None:
    """Frozen with the request unsent; resumed when another agent has retried or given up. The request leaves then."""
    stalled = chosen([f"*/{Point.BEFORE_SEND}/{Fault.STALL}"])
    assert [cell.strategy for cell in stalled] == list(STRATEGIES)
    verdicts = {verdict.cell.strategy: verdict for verdict in run_all(stalled, JOBS, threading.Event())}
    assert red_ones(list(verdicts.values())) == []
    for name, verdict in verdicts.items():
        assert (name, verdict.acts) == (name, 1)
        assert verdict.requests >= 1, "the stalled request did leave"
    # Rule (i): the same key, inside the window. Rule (ii): another key, because the first was sealed.
    assert min(verdicts["idempotent"].requests, verdicts["transaction"].requests) >= 2
    # Otherwise nobody but the stalled sender ever asked, neither agent nor reconciler: a lost lease proves nothing.
    assert {verdicts[name].requests for name in ("forgetful", "look-up", "job", "compensation", "none")} == {1}


def test_the_cells_are_every_strategy_times_every_point_times_every_fault() -> None:
    names = {cell.name for cell in cells()}
    assert len(names) == len(cells())
    for name, strategy in STRATEGIES.items():
        for point in Point:
            for fault in Fault:
                assert (f"{name}/{point}/{fault}" in names) == exists(strategy, point)
        ordinary = [point for point in Point if not point.undoing]
        assert all(exists(strategy, point) for point in ordinary)


def test_the_sample_has_every_strategy_at_every_point_and_every_fault_with_each() -> None:
    sample = spread()
    assert [(cell.strategy, cell.point) for cell in sample] == [
        (name, point) for name, strategy in STRATEGIES.items() for point in Point if exists(strategy, point)
    ]
    for name in STRATEGIES:
        assert {cell.fault for cell in sample if cell.strategy == name} == set(Fault)


# --- it turns red ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_mistake_turns_its_cell_red(mutant: Mutant) -> None:
    (cell,) = chosen([mutant.cell])
    verdict = run_apart(cell, mutant.name)
    assert verdict.red
    assert any(mutant.why in problem for problem in verdict.problems), verdict.problems
    assert verdict.word == "RED"
    assert verdict.timeline, "a red cell says how it came to that"


def test_a_cell_that_does_not_end_is_red_and_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "CELL_SECONDS", 0.0)
    (cell,) = chosen(["none/after-act/stall"])
    assert run_apart(cell).problems == ("not over after 0 s",)


def test_after_an_interruption_no_further_cell_begins() -> None:
    interrupted = threading.Event()
    interrupted.set()
    assert len(list(run_all(chosen(["none//kill"]), 1, interrupted))) == 1


def effect_in(state: EffectState) -> Effect:
    return Effect(
        effect_id="e1",
        root_id="t",
        task_id="t",
        provider="p",
        tool="p",
        intent="i",
        request="",
        compared="",
        policy=BRIEF,
        state=state,
        version=2,
        attempt=Attempt(n=1, purpose=Purpose.APPLY, epoch=2, instance="w", at=0),
        applied_at=0,
        sends=1,
        senders=(),
        asked="person:a",
    )


@pytest.fixture
async def ended() -> Evidence:
    """The end of a task that was cancelled before anything was done."""
    team = Team("t", ledger=open_ledger("memory://"))

    @team.agent
    async def a(own: Tenure[None]) -> Complete[None]:
        return Complete()

    handle = await team.submit(goal="g")
    await handle.cancel(by="somebody")
    return await gather(team.ledger, handle.task_id, Truth(acts=0, undone=0), struck=True, driver=())


def test_nothing_done_and_nothing_recorded_is_green(ended: Evidence) -> None:
    assert judge(ended).problems == ()
    assert judge(ended).word == "none"


@pytest.mark.parametrize(
    ("state", "acts", "undone", "word"),
    [
        (E.CONFIRMED, 1, 0, "once"),
        (E.CANCELLED, 0, 0, "none"),
        (E.COMPENSATED, 1, 1, "undone"),
        (E.IN_DOUBT, 0, 0, "asked"),
        (E.IN_DOUBT, 1, 0, "asked"),
        (E.ACCEPTED, 1, 0, "asked"),
        (E.CONFIRMED, 0, 0, ""),
        (E.CONFIRMED, 2, 0, ""),
        (E.CONFIRMED, 1, 1, ""),
        (E.IN_DOUBT, 2, 0, ""),
        (E.IN_DOUBT, 0, 1, ""),
        (E.REFUSED, 1, 0, ""),
        (E.ABSENT, 1, 0, ""),
        (E.FAILED, 1, 0, ""),
        (E.CANCELLED, 1, 0, ""),
        (E.COMPENSATED, 1, 0, ""),
        (E.COMPENSATED, 1, 2, ""),
        (E.COMPENSATION_FAILED, 1, 1, ""),
        (E.ATTESTED, 1, 0, ""),
        (E.DISPUTED, 1, 0, ""),
    ],
)
def test_a_record_is_held_against_the_truth(
    ended: Evidence, state: EffectState, acts: int, undone: int, word: str
) -> None:
    judged = judge(replace(ended, effects=(effect_in(state),), truth=Truth(acts=acts, undone=undone)))
    assert judged.word == (word or "RED")
    assert bool(judged.problems) == (not word)


def test_a_doubt_that_nobody_answers_for_is_red(ended: Evidence) -> None:
    unasked = replace(effect_in(E.IN_DOUBT), asked="")
    assert judge(replace(ended, effects=(unasked,))).problems == ("the record says in_doubt and nobody is asked",)
    assert judge(replace(ended, effects=(replace(unasked, asked="person:a"),))).word == "asked"
    assert ended.task is not None
    question = Question(question_id="q", reason=Reason.ESCALATED, body="", who=("person:a",), allowed=(), due=1)
    asking = replace(ended.task, question=question)
    assert judge(replace(ended, effects=(unasked,), task=asking)).word == "asked"


@pytest.mark.parametrize(
    ("truth", "problem"),
    [
        (Truth(acts=1, undone=0), "no record of an intent"),
        (Truth(acts=0, undone=0, pending=1), "still under way"),
        (Truth(acts=0, undone=0, told=("Done",)), "was told that it is done"),
        (Truth(acts=1, undone=0, told=("Refused",)), "was told that it is not done"),
        (Truth(acts=1, undone=0, told=("nothing_to_compensate",)), "was told that it is not done"),
        (Truth(acts=1, undone=0, told=("compensated",)), "was told that it is undone"),
    ],
)
def test_the_truth_is_held_against_what_was_recorded_and_said(ended: Evidence, truth: Truth, problem: str) -> None:
    assert any(problem in found for found in judge(replace(ended, truth=truth)).problems)


def test_one_intent_with_two_records_is_red(ended: Evidence) -> None:
    twice = replace(ended, effects=(effect_in(E.REFUSED), effect_in(E.REFUSED)))
    assert judge(twice).problems == ("one intent has 2 records",)


@pytest.mark.parametrize(
    "wrong", [{"chain": "broken"}, {"replay": "different"}, {"file": "damaged"}, {"problems": ("e1",)}]
)
def test_a_ledger_that_does_not_verify_is_red(ended: Evidence, wrong: dict[str, object]) -> None:
    verified: Verification = replace(ended.verified, **wrong)
    assert judge(replace(ended, verified=verified)).problems[0].startswith("the ledger is")


def test_a_cell_in_which_nothing_struck_is_red(ended: Evidence) -> None:
    assert judge(replace(ended, struck=False)).problems == ("the fault did not strike",)
    assert judge(replace(ended, driver=("stuck",))).word == "RED"


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_command_prints_the_table_and_the_number_of_cells() -> None:
    result = CliRunner().invoke(command_line.main, ["--only", "none/after-act/kill", "--jobs", "1"])
    assert result.exit_code == 0
    assert "1 of 1 cells, all green (1 asked)" in result.stdout
    assert "in doubt, and a person is asked" in result.stdout
    assert "1 of 1 cells, 0 red: none/after-act/kill asked" in result.stderr


def test_a_red_cell_makes_the_exit_code_1_and_says_why() -> None:
    mutant = MUTANTS["a provider retries blindly"]
    result = CliRunner().invoke(command_line.main, ["--only", mutant.cell, "--mutant", mutant.name, "--json"])
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert (answer["cells"], answer["red"]) == (1, 1)
    (verdict,) = answer["verdicts"]
    assert (verdict["cell"], verdict["word"], verdict["acts"]) == (mutant.cell, "RED", 2)


def test_a_pattern_that_fits_no_cell_is_an_error() -> None:
    result = CliRunner().invoke(command_line.main, ["--only", "none/after-work/kill"])
    assert result.exit_code == 2
    assert "No cell is 'none/after-work/kill'" in result.stderr


def test_parts_of_a_pattern_may_be_left_out() -> None:
    assert {cell.strategy for cell in chosen(["job"])} == {"job"}
    assert {cell.fault for cell in chosen(["//kill"])} == {Fault.KILL}
    assert chosen([]) == cells()


def test_a_moment_that_does_not_exist_is_a_dash_in_the_table() -> None:
    (cell,) = chosen(["none/after-act/kill"])
    rows = [line.split() for line in table([Verdict(cell=cell, word="asked")]) if line.startswith("  ")]
    assert ["after-act", "asked", *("." * 5)] in rows
    for point in Point:
        if point.undoing:
            assert [point, *("-" * 6)] in rows
