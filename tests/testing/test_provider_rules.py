"""The suite of providers: it passes what tells the truth, and finds each liar by the rules that it breaks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tenure import Provider
from tenure.testing.providers import Bench, Fault, Found, NotOffered, NotProbed, ProviderRules, Report, Struck, probe
from tests.testing.liars import DEAF, LIARS, OVER, REFUSED, UNTRUE, Liar
from tests.testing.outside import (
    Cancelling,
    Everything,
    Keyed,
    Looking,
    LookingByReference,
    Plain,
    Sealing,
    SimBench,
    System,
    Undoing,
    UndoingByReference,
    UndoingKeyed,
)


class Suite(ProviderRules):
    """The rules for providers of one kind, on a simulated system of one kind."""

    def __init__(self, kind: Callable[[System], Provider], bench: type[SimBench] = SimBench, **system: Any) -> None:
        self.kind = kind
        self.bench_kind = bench
        self.system = system

    def open(self, folder: Path) -> Bench:
        return self.bench_kind(self.kind, System(**self.system))


class TestEverything(ProviderRules):
    """As users run it: the rules are collected, each with a bench of its own."""

    def open(self, folder: Path) -> Bench:
        return SimBench(Everything, System(dedupes=True, undo_dedupes=True, jobs=True))


def shown(report: Report) -> set[str]:
    return {name for name, word in report.capabilities.items() if word == "shown"}


# --- the truthful -----------------------------------------------------------------------------------------------------

TRUTHFUL: list[tuple[type[Provider], dict[str, Any], set[str]]] = [
    (Plain, {}, set()),
    (Plain, {"jobs": True}, set()),
    (Plain, {"dedupes": True}, set()),
    (Keyed, {"dedupes": True}, {"idempotent"}),
    (Keyed, {"dedupes": True, "jobs": True}, {"idempotent"}),
    (Looking, {}, {"queryable"}),
    (Looking, {"jobs": True}, {"queryable"}),
    (LookingByReference, {}, {"queryable"}),
    (LookingByReference, {"jobs": True}, {"queryable"}),
    (Sealing, {}, {"sealable"}),
    (Cancelling, {"jobs": True}, {"queryable", "cancellable"}),
    (Undoing, {}, {"reversible"}),
    (UndoingByReference, {}, {"reversible", "undo queryable"}),
    (UndoingKeyed, {"undo_dedupes": True}, {"reversible", "undo idempotent", "undo queryable"}),
]


@pytest.mark.parametrize(("kind", "system", "offers"), TRUTHFUL)
async def test_what_is_true_is_shown_and_nothing_else(
    kind: type[Provider], system: dict[str, Any], offers: set[str]
) -> None:
    report = await probe(Suite(kind, **system))
    assert report.broken == ()
    assert shown(report) == offers
    assert {word for name, word in report.capabilities.items() if name not in offers} <= {"not offered"}


# --- the liars --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("liar", LIARS, ids=lambda liar: liar.kind.__name__)
async def test_a_liar_breaks_exactly_the_rules_of_its_lie(liar: Liar) -> None:
    class Waiting(SimBench):
        patience = liar.patience

    report = await probe(Suite(liar.kind, Waiting, **liar.system))
    assert set(report.broken) == liar.breaks


async def test_every_rule_about_a_provider_is_broken_by_some_liar() -> None:
    rules = {name for name in dir(ProviderRules) if name.startswith("test_")}
    about_the_bench = {"test_the_bench_counts_nothing_before_anything_was_done"}
    assert set().union(*(liar.breaks for liar in LIARS)) == rules - about_the_bench


# --- what a bench must do ---------------------------------------------------------------------------------------------


class Faultless(SimBench):
    """One without faults, refusals and undoings, which says why for all but the refusals."""

    not_probed: ClassVar = {"faults": "the system runs in this process", "undone": "it keeps no record of undoings"}

    def fault(self, fault: Fault) -> Any:
        self.cannot(fault)

    def refused(self, n: int) -> Any:
        self.cannot("refused")

    async def undone(self, request: Any, key: str) -> int:
        self.cannot("undone")


async def test_what_a_bench_cannot_do_is_listed_with_its_reason_and_without_one_it_fails() -> None:
    report = await probe(Suite(Undoing, Faultless))
    assert report.broken == (REFUSED,)
    faults = [each for each in report.findings if each.rule == UNTRUE]
    assert {each.found for each in faults} == {Found.NOT_PROBED}
    assert faults[0].words == "not probed, lost answer: the system runs in this process"
    assert report.capabilities["reversible"] == "not probed"
    text = str(report)
    assert f"not probed: {UNTRUE} (lost answer): not probed, lost answer: the system runs in this process" in text
    assert f"broken: {REFUSED}: AssertionError: The bench cannot do 'refused' and gives no reason" in text


class WithoutEffect(SimBench):
    """Its faults meet nothing."""

    def fault(self, fault: Fault) -> Any:
        context = super().fault(fault)
        self.system.fault = None

        class Nothing:
            async def __aenter__(inner) -> Struck:  # noqa: N805 - the bench is self
                struck = await context.__aenter__()
                self.system.fault = None
                return struck

            async def __aexit__(inner, *raised: object) -> None:  # noqa: N805 - the bench is self
                await context.__aexit__(None, None, None)

        return Nothing()


async def test_a_fault_that_has_met_no_request_has_probed_nothing() -> None:
    report = await probe(Suite(Plain, WithoutEffect))
    assert UNTRUE in report.broken
    assert "nothing was probed" in str(report)


class CountsTooMuch(SimBench):
    async def acts(self, request: Any, key: str) -> int:
        return 1 + await super().acts(request, key)


async def test_a_bench_that_counts_what_was_not_done_is_found_out() -> None:
    report = await probe(Suite(Plain, CountsTooMuch))
    assert "test_the_bench_counts_nothing_before_anything_was_done" in report.broken


async def test_a_capability_of_which_a_part_was_not_probed_is_shown_in_part() -> None:
    report = await probe(Suite(Cancelling))
    assert report.broken == ()
    assert report.capabilities["cancellable"] == "shown in part"
    assert {each.rule for each in report.findings if each.found is Found.NOT_PROBED} == {OVER, DEAF}


class WithRulesOfItsOwn(Suite):
    async def test_of_my_own_that_holds(self, bench: Bench) -> None:
        assert bench.provider().name == "shop"

    async def test_of_my_own_that_breaks(self, bench: Bench) -> None:
        with pytest.raises(ValueError, match="never"):
            bench.provider()

    @pytest.mark.parametrize("n", [1, 2])
    async def test_of_my_own_that_is_skipped(self, bench: Bench, n: int) -> None:
        pytest.skip(f"reason {n}")


async def test_rules_of_the_authors_own_are_run_and_reported_with_the_others() -> None:
    report = await probe(WithRulesOfItsOwn(Plain))
    mine = [(each.rule[len("test_of_my_own_that_") :], each.case, each.found) for each in report.findings]
    assert [each for each in mine if each[0] in ("holds", "breaks", "is_skipped")] == [
        ("breaks", "", Found.BROKEN),
        ("holds", "", Found.HELD),
        ("is_skipped", "1", Found.NOT_PROBED),
        ("is_skipped", "2", Found.NOT_PROBED),
    ]


# --- called by hand ---------------------------------------------------------------------------------------------------


async def test_a_rule_can_be_called_without_pytest() -> None:
    rules = ProviderRules()
    await rules.test_looking_does_nothing(SimBench(Looking, System()))
    with pytest.raises(NotOffered, match="not offered: sealable"):
        await rules.test_a_sealed_key_never_acts(SimBench(Looking, System()))
    with pytest.raises(NotProbed, match="no job that outlives its call"):
        await rules.test_a_job_that_is_cancelled_is_seen_to_be_over(SimBench(Cancelling, System()))
    with pytest.raises(AssertionError, match="The same key again"):
        await rules.test_a_repeated_key_acts_once_and_is_answered_from_the_record(SimBench(Keyed, System()))


class Stuck(Plain):
    """It cannot be cancelled."""

    async def apply(self, request: Any, *, key: str) -> Any:
        while True:
            try:
                return await super().apply(request, key=key)
            except BaseException as error:  # noqa: BLE001 - on purpose
                last = error
                if not self.system.flying:
                    raise last from None


class Impatient(SimBench):
    patience = 0.05


async def test_a_call_that_goes_on_although_it_was_cancelled_is_found() -> None:
    rules = ProviderRules()
    with pytest.raises(AssertionError, match="goes on although it was cancelled"):
        await rules.test_under_a_fault_nothing_untrue_is_answered(Impatient(Stuck, System()), Fault.HELD_UP)
