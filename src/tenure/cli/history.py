"""What a task's events say of its hops and tenures. The moves are those of the protocol's own ``evolve``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from msgspec import Struct, field

from tenure.ledger import Ledger, Recorded
from tenure.protocol import events as ev
from tenure.protocol.events import event_tag
from tenure.protocol.evolve import evolve
from tenure.protocol.evolve.base import step
from tenure.protocol.machines import HANDOFF
from tenure.protocol.state import Task
from tenure.protocol.vocabulary import HandoffState

PAGE = 1_000

_FAILURES = ("fail", "return")


class Move(Struct):
    """A hop reached a state. ``at`` is the ledger's time in milliseconds."""

    state: str
    at: int


class HopStory(Struct):
    """One hop from its beginning, ended or not."""

    handoff_id: str
    n: int
    sender: str
    receiver: str
    state: str
    moves: list[Move]
    reason: str = ""

    @property
    def owned(self) -> bool:
        """Whether its receiver came to own the task."""
        return any(move.state == HandoffState.OWNED_BY_RECEIVER for move in self.moves)


class TenureStory(Struct):
    """One tenure, and what its end claims.

    Attributes:
        termination: ``execution.stopped`` (every work was seen to end), ``residual.declared``, or empty: nothing is
            claimed. unseen: helpers not seen to end. routing: ``routing.retired``, ``routing.fenced`` or empty.
        window_ms: how long nobody could write before it.
        decision: what it stated: ``transfer``, ``complete``, ``return``, ``escalate``, ``wait``, ``fail``, ``stop`` or
            empty. words: why it failed or gave the task back, while the ledger has them.
    """

    epoch: int
    agent: str
    instance: str
    since: int
    window_ms: int
    until: int = 0
    forced: bool = False
    reason: str = ""
    termination: str = ""
    residual: list[str] = field(default_factory=list)
    unseen: int = 0
    routing: str = ""
    decision: str = ""
    words: str = ""


class TurnStory(Struct):
    """What was decided on one turn.

    Attributes:
        outcome: ``go``, ``transfer``, ``end``, or ``nudge`` for a turn that was handed back.
        to: who goes on with the task, if it was a transfer. rejected: what was not done, as ``id: code detail``.
    """

    epoch: int
    n: int
    agent: str
    at: int
    outcome: str
    to: str = ""
    rejected: list[str] = field(default_factory=list)


class History(Struct):
    """Hops and tenures of one task, oldest first, and when its effects were last all settled (0: never).

    ``failures``: by epoch, the digest of what a tenure said that failed or gave the task back.
    """

    hops: list[HopStory] = field(default_factory=list)
    tenures: list[TenureStory] = field(default_factory=list)
    turns: list[TurnStory] = field(default_factory=list)
    effects_settled_at: int = 0
    failures: dict[int, str] = field(default_factory=dict)


async def history_of(ledger: Ledger, task_id: str) -> History:
    """Read and fold the events of a task."""
    return fold_history([recorded async for recorded in all_events(ledger, task_id)])


async def all_events(ledger: Ledger, task_id: str = "", after: int = 0) -> AsyncIterator[Recorded]:
    """The events of a task, or of all, page by page."""
    while True:
        page = await ledger.events(after=after, task_id=task_id, limit=PAGE)
        for recorded in page:
            yield recorded
        if len(page) < PAGE:
            return
        after = page[-1].position


def fold_history(records: Iterable[Recorded]) -> History:
    """Fold one task's events, in order."""
    history = History()
    task: Task | None = None
    for recorded in records:
        after = evolve(task, recorded.event)
        _note_hops(history.hops, task, after, recorded.event)
        _note_tenure(history, after, recorded.event)
        _note_turn(history.turns, after, recorded.event)
        task = after
    return history


def _note_hops(stories: list[HopStory], before: Task | None, after: Task, event: ev.Event) -> None:
    known = {story.handoff_id: story for story in stories}
    for hop in after.hops:
        story = known.get(hop.handoff_id)
        if story is None:
            story = HopStory(hop.handoff_id, hop.n, hop.sender, hop.receiver, "", [])
            stories.append(story)
        story.receiver = hop.receiver
        if story.state != hop.state:
            story.state = str(hop.state)
            story.moves.append(Move(story.state, event.at))
    left = {hop.handoff_id for hop in after.hops}
    for hop in before.hops if before is not None else ():
        if hop.handoff_id not in left:
            ended = event.state if isinstance(event, ev.HandoffEnded) else step(HANDOFF, hop.state, event_tag(event))
            story = known[hop.handoff_id]
            story.state = str(ended)
            story.reason = str(getattr(event, "reason", "") or "")
            story.moves.append(Move(story.state, event.at))


def _note_turn(turns: list[TurnStory], after: Task, event: ev.Event) -> None:
    if not isinstance(event, ev.TurnDecided | ev.TurnNudged):
        return
    decided = event if isinstance(event, ev.TurnDecided) else None
    to = decided.pending.candidates[0].agent if decided is not None and decided.pending is not None else ""
    turns.append(
        TurnStory(
            epoch=after.epoch,
            n=event.n,
            agent=after.owner,
            at=event.at,
            outcome=str(decided.outcome) if decided is not None else "nudge",
            to=to,
            rejected=[f"{one.call_id}: {one.code} {one.detail}".rstrip() for one in event.rejected],
        )
    )


def _note_tenure(history: History, after: Task, event: ev.Event) -> None:
    if isinstance(event, ev.TenureGranted):
        story = TenureStory(after.epoch, event.agent, event.instance, event.at, event.window_ms)
        history.tenures.append(story)
        return
    if isinstance(event, ev.EffectsSettled):
        history.effects_settled_at = event.at
    if not history.tenures:
        return
    story = history.tenures[-1]
    match event:
        case ev.ExecutionStopped():
            story.termination = event_tag(event)
        case ev.ResidualDeclared():
            story.termination = event_tag(event)
            handler = [f"handler:{story.epoch}"] if event.handler else []
            story.residual = [*event.works, *handler]
            story.unseen = event.unseen
        case ev.TenureRetiring():
            story.decision = event.decision
            if event.decision in _FAILURES and event.body:
                history.failures[story.epoch] = event.body
        case ev.RoutingRetired() | ev.RoutingFenced():
            story.routing = event_tag(event)
        case ev.TenureEnded():
            story.until, story.forced, story.reason = event.at, event.forced, str(event.reason)
        case _:
            pass
