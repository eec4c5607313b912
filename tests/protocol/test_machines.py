"""The tables, exhaustively: each pair of a state and an event makes its move, or is refused and changes nothing."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tenure.errors import Refused
from tenure.protocol import events as ev
from tenure.protocol.evidence import EVIDENCE, EVIDENCE_FROM
from tenure.protocol.evolve import evolve, evolve_effect
from tenure.protocol.machines import EFFECT, HANDOFF, OFFER, TASK, WORK
from tenure.protocol.outside import Effect
from tenure.protocol.settings import LOCAL
from tenure.protocol.state import Candidate, Hop, Offer, Pickup, Question, Task, Wait, Work
from tenure.protocol.vocabulary import (
    EffectState,
    EvidenceKind,
    Gate,
    HandoffState,
    OfferKind,
    OfferState,
    Phase,
    Purpose,
    Reason,
    WaitOn,
    WorkEnd,
    WorkKind,
    WorkState,
)
from tests.protocol.world import World

AT = 5_000
QUESTION = Question(question_id="q1", reason=Reason.ESCALATED, who=(), allowed=(), body="", due=9_000)
B = (Candidate(agent="b"),)

EVENTS: dict[str, ev.Event] = {
    "offer.issued": ev.OfferIssued(at=AT, kind=OfferKind.TRANSFER, candidates=B, deadline=9_000, payload="p"),
    "offer.claimed": ev.OfferClaimed(at=AT, agent="b", instance="b1", until=9_000),
    "offer.acknowledged": ev.OfferAcknowledged(at=AT, digest="p", gate_by=9_000),
    "offer.declined": ev.OfferDeclined(at=AT, agent="b", reason=Reason.DECLINED),
    "offer.expired": ev.OfferExpired(at=AT, reason=Reason.ACK_TIMEOUT),
    "tenure.granted": ev.TenureGranted(at=AT, agent="b", instance="b1", authority=("*",), window_ms=0),
    "task.waiting": ev.TaskWaiting(at=AT, wait=Wait(on=WaitOn.TIME, wake_by=9_000)),
    "task.escalated": ev.TaskEscalated(at=AT, question=QUESTION),
    "task.cancel_requested": ev.CancelRequested(at=AT, by="customer-07", reason="", due=9_000),
    "task.completed": ev.TaskCompleted(at=AT, result="r"),
    "task.failed": ev.TaskFailed(at=AT, reason=Reason.RAISED),
    "task.cancelled": ev.TaskCancelled(at=AT, by="customer-07"),
    "returned": ev.HandoffEnded(at=AT, handoff_id="h1", state=HandoffState.FAILED_RETURNED, reason=Reason.GAVE_BACK),
    "timed_out": ev.HandoffEnded(at=AT, handoff_id="h1", state=HandoffState.TIMED_OUT, reason=Reason.ACK_TIMEOUT),
    "reversed": ev.HandoffEnded(at=AT, handoff_id="h1", state=HandoffState.REVERSED, reason=Reason.REVERSED),
    "cancellation.requested": ev.CancellationRequested(at=AT, works=("x",)),
    "residual.declared": ev.ResidualDeclared(at=AT, works=("x",)),
    "work.stopped": ev.WorkStopped(at=AT, work_id="x", how=WorkEnd.RETURNED),
}


def names(machine: Any) -> list[str]:
    return sorted({name for moves in machine.values() for name in moves})


def pairs(machine: Any) -> list[tuple[Any, str]]:
    return [(state, name) for state in machine for name in names(machine)]


def ids(value: object) -> str:
    return str(value)


def vacant() -> Task:
    """A task that nobody owns, without anything open."""
    world = World()
    world.submit("a")
    return replace(world.task, offer=None)


def judged(task: Task, event: ev.Event) -> Task | None:
    """The task after the event; ``None`` when it was refused, in which case nothing has changed."""
    before = msgspec.json.encode(task)
    try:
        return evolve(task, event)
    except Refused as refused:
        error = refused
    assert error.code == "wrong_phase"
    assert msgspec.json.encode(task) == before
    return None


@pytest.mark.parametrize(("state", "name"), pairs(TASK), ids=ids)
def test_task(state: Phase, name: str) -> None:
    after = judged(replace(vacant(), phase=state), EVENTS[name])
    assert (after.phase if after else None) == TASK[state].get(name)


def allowing(name: str) -> Phase:
    """A phase of the task in which the event itself is possible, so that only the hop's table judges."""
    return next((phase for phase, moves in TASK.items() if name in moves), Phase.OFFERED)


def in_hop(state: HandoffState, name: str) -> tuple[Task, ev.Event]:
    hop = Hop(
        handoff_id="h1", n=1, sender="a", receivers=B, receiver="b", state=state, payload="p", given="p",
        authority=("*",), initiated_at=1_000,
    )  # fmt: skip
    offer = Offer(
        kind=OfferKind.TRANSFER, candidates=B, deadline=9_000, payload="p", state=OfferState.CLAIMED,
        handoff_id="h1", pickup=Pickup(agent="b", instance="b1", until=9_000),
    )  # fmt: skip
    event = EVENTS[name]
    if isinstance(event, ev.OfferIssued):
        event = replace(event, handoff_id="h1")
    return replace(vacant(), phase=allowing(name), hops=(hop,), offer=offer), event


@pytest.mark.parametrize(("state", "name"), pairs(HANDOFF), ids=ids)
def test_handoff(state: HandoffState, name: str) -> None:
    after = judged(*in_hop(state, name))
    target = HANDOFF[state].get(name)
    assert (after is None) == (target is None)
    if after is not None and target is not None:
        # A hop that has ended leaves the stack.
        assert [hop.state for hop in after.hops] == [target] * (HANDOFF[target] != {})


def test_a_hop_ends_only_from_the_top_of_the_stack_and_only_in_a_final_state() -> None:
    task, _ = in_hop(HandoffState.OWNED_BY_RECEIVER, "returned")
    other = ev.HandoffEnded(at=AT, handoff_id="h9", state=HandoffState.REVERSED, reason=Reason.REVERSED)
    unfinished = ev.HandoffEnded(at=AT, handoff_id="h1", state=HandoffState.TRANSFERRED, reason=Reason.NONE)
    assert judged(task, other) is None
    assert judged(task, unfinished) is None


@pytest.mark.parametrize("name", ["returned", "offer.issued"])
def test_without_an_open_hop_nothing_of_a_hop_can_happen(name: str) -> None:
    task, event = in_hop(HandoffState.OWNED_BY_RECEIVER, name)
    assert judged(replace(task, hops=()), event) is None


@pytest.mark.parametrize(("state", "name"), pairs(OFFER), ids=ids)
def test_offer(state: OfferState, name: str) -> None:
    offer = Offer(kind=OfferKind.START, candidates=B, deadline=9_000, payload="p", state=state)
    after = judged(replace(vacant(), offer=offer), EVENTS[name])
    assert (after.offer.state if after and after.offer else None) == OFFER[state].get(name)


@pytest.mark.parametrize(("state", "name"), pairs(WORK), ids=ids)
def test_work(state: WorkState, name: str) -> None:
    work = Work(
        work_id="x",
        kind=WorkKind.THREAD,
        name="x",
        policy=LOCAL,
        agent="a",
        epoch=2,
        instance="a1",
        started_at=1_000,
        state=state,
    )
    other = replace(work, work_id="y", state=WorkState.RUNNING)
    after = judged(replace(vacant(), works=(work, other)), EVENTS[name])
    target = WORK[state].get(name)
    assert (after is None) == (target is None)
    if after is not None:
        left = {work.work_id: work.state for work in after.works}
        assert left.pop("y") is WorkState.RUNNING
        assert left == ({} if target is WorkState.STOPPED else {"x": target}), "a stopped work leaves the books"


EFFECT_PAIRS = [(state, target) for state in EffectState for target in EffectState]


def an_effect(state: EffectState) -> tuple[Effect, Task]:
    world = World()
    world.owned_by("a").intend("e1")
    return replace(world.effects["e1"], state=state), world.task


@pytest.mark.parametrize(("state", "target"), EFFECT_PAIRS, ids=ids)
def test_effect(state: EffectState, target: EffectState) -> None:
    effect, task = an_effect(state)
    observed = ev.EffectObserved(
        at=AT, effect_id="e1", attempt=1, state=target, evidence=EvidenceKind.RESPONSE, observer="a1",
        intent="A17", gate=Gate.ROUTING_RETIRED, next_check=0,
    )  # fmt: skip
    if target is state or target in EFFECT[state]:
        after = evolve_effect(effect, observed, task)
        assert after is not None
        assert (after.state, after.version) == (target, effect.version + 1)
    else:
        with pytest.raises(Refused) as caught:
            evolve_effect(effect, observed, task)
        assert caught.value.code == "wrong_phase"


def test_an_event_of_another_effect_or_of_none_changes_no_effect() -> None:
    effect, task = an_effect(EffectState.INTENDED)
    foreign = ev.EffectSenderDied(at=AT, effect_id="e9", instance="a1")
    kept = ev.LateRecorded(at=AT, command="outcome", epoch=1, instance="a1", effect_id="e1")
    assert evolve_effect(effect, foreign, task) is effect
    assert evolve_effect(effect, kept, task) is effect
    assert evolve_effect(None, foreign, task) is None


NEEDS_A_TENURE: list[ev.Event] = [
    ev.TenureRetiring(at=AT, decision="complete", deadline=9_000),
    ev.TenureReleased(at=AT, gate_by=9_000, unseen=0),
    ev.TenureEnded(at=AT, forced=False),
    ev.ProgressAsked(at=AT),
    ev.Advanced(at=AT, consumed=0),
    ev.RoutingRetired(at=AT),
    ev.RoutingFenced(at=AT),
    ev.ResidualDeclared(at=AT, handler=True),
    ev.RouteOpened(at=AT, route_id="r"),
    ev.RouteClosed(at=AT, route_id="r"),
    ev.WorkStarted(at=AT, work_id="x", kind=WorkKind.THREAD, name="x", policy=LOCAL),
    ev.HandoffInitiated(at=AT, handoff_id="h1", candidates=B, payload="p", constraints=(), gate=Gate.STOPPED),
    ev.DelegationOpened(at=AT, child_id="t.k", agent="c"),
]
NEEDS_AN_OFFER: list[ev.Event] = [
    *(EVENTS[name] for name in names(OFFER)),
    ev.OfferWithdrawn(at=AT, reason=Reason.CANCELLED),
]


@pytest.mark.parametrize("event", [*NEEDS_A_TENURE, *NEEDS_AN_OFFER], ids=ev.event_tag)
def test_what_speaks_of_a_tenure_or_an_offer_needs_one(event: ev.Event) -> None:
    assert judged(vacant(), event) is None


def test_a_tenure_cannot_be_granted_beside_another_or_released_before_it_retires() -> None:
    world = World()
    world.owned_by("a")
    assert judged(world.task, EVENTS["tenure.granted"]) is None
    assert judged(world.task, ev.TenureReleased(at=AT, gate_by=9_000, unseen=0)) is None


def test_a_work_that_is_not_on_the_books_cannot_stop() -> None:
    assert judged(vacant(), EVENTS["work.stopped"]) is None


MACHINES: list[tuple[Any, Any]] = [(TASK, Phase), (HANDOFF, HandoffState), (OFFER, OfferState), (WORK, WorkState)]


@pytest.mark.parametrize(("machine", "states"), MACHINES)
def test_every_state_has_a_row_and_every_target_is_a_state(machine: Any, states: Any) -> None:
    assert set(machine) == set(states)
    assert {target for moves in machine.values() for target in moves.values()} <= set(states)


def test_ended_is_exactly_what_no_event_can_leave() -> None:
    assert {phase for phase, moves in TASK.items() if not moves} == {phase for phase in Phase if phase.ended}


def test_every_effect_state_and_every_kind_of_evidence_has_a_row() -> None:
    assert set(EFFECT) == set(EffectState)
    assert set(EVIDENCE) == set(EvidenceKind)
    assert set(EVIDENCE_FROM) <= set(EVIDENCE)
    assert {purpose for purposes in EVIDENCE_FROM.values() for purpose in purposes} <= set(Purpose)


def test_evidence_can_settle_every_open_state_and_a_time_out_none() -> None:
    assert EVIDENCE[EvidenceKind.NONE] == {EffectState.IN_DOUBT}
    for state in EffectState:
        if not state.settled:
            assert any(target in EFFECT[state] for targets in EVIDENCE.values() for target in targets) or (
                state is EffectState.COMPENSATION_FAILED
            )
