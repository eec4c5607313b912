"""What a run came to, read from the ledger after it. Counts, each of one thing."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from tenure.cli.history import history_of
from tenure.cli.talk import plural
from tenure.ledger import Ledger, TaskRow
from tenure.protocol.vocabulary import Phase, WorkState

PAGE = 100

_COUNTED = {
    Phase.COMPLETED: "completed",
    Phase.FAILED: "failed",
    Phase.CANCELLED: "cancelled",
    Phase.ESCALATED: "escalated",
    Phase.WAITING: "waiting",
}


class Summary(Struct, kw_only=True):
    """Of the tasks that this run submitted, or found submitted already; the last five of their whole trees.

    Attributes:
        tasks: ``completed + failed + cancelled + escalated + waiting + unfinished``.
        waiting: kept by their agents, for input, an answer, a delegation or a time. unfinished: offered or active.
        refused: lines that the ledger did not take as tasks. unsent: lines that an interruption left out.
        handoffs: hops that reached OWNED_BY_RECEIVER. effects: number by state.
        residual: works on the books, not seen to end, at this moment. running: other open works.
        unseen: helpers and calls that were not seen to end with their tenures, and that nobody watches since.
    """

    ledger: str
    interrupted: bool = False
    tasks: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    escalated: int = 0
    waiting: int = 0
    unfinished: int = 0
    refused: int = 0
    unsent: int = 0
    handoffs: int = 0
    effects: dict[str, int] = field(default_factory=dict)
    residual: int = 0
    running: int = 0
    unseen: int = 0

    def text(self) -> str:
        """The same for people."""
        phases = ("completed", "escalated", "waiting", "failed", "cancelled", "unfinished")
        told = [f"{getattr(self, name)} {name}" for name in phases if getattr(self, name) or name == "completed"]
        effects = ", ".join(f"{number} {state}" for state, number in sorted(self.effects.items()))
        unwatched = f", {self.unseen} no longer watched" if self.unseen else ""
        lines = [
            f"{plural(self.tasks, 'task')}: {', '.join(told)}",
            f"{plural(self.handoffs, 'handoff')} reached the receiver",
            f"effects: {effects or 'none'}",
            f"work not seen to end: {self.residual} residual, {self.running} running{unwatched}",
        ]
        if self.refused:
            lines.append(f"{plural(self.refused, 'line')} refused by the ledger")
        if self.unsent:
            lines.append(f"{plural(self.unsent, 'line')} not submitted: interrupted")
        return "\n".join([*lines, f"ledger: {self.ledger}"])


async def summarize(ledger: Ledger, root_ids: Iterable[str], summary: Summary) -> Summary:
    """Count, tree by tree."""
    for root_id in root_ids:
        for row in await _tree(ledger, root_id):
            await _count(ledger, row, summary)
    return summary


async def _tree(ledger: Ledger, root_id: str) -> list[TaskRow]:
    rows: list[TaskRow] = []
    while True:
        page = await ledger.tasks(root_id=root_id, after=rows[-1].position if rows else 0, limit=PAGE)
        rows += page
        if len(page) < PAGE:
            return rows


async def _count(ledger: Ledger, row: TaskRow, summary: Summary) -> None:
    task = row.task
    if not task.parent:
        summary.tasks += 1
        name = _COUNTED.get(task.phase, "unfinished")
        setattr(summary, name, getattr(summary, name) + 1)
    if task.hop_count:
        history = await history_of(ledger, task.task_id)
        summary.handoffs += sum(hop.owned for hop in history.hops)
    for effect in await ledger.effects(task.task_id):
        summary.effects[str(effect.state)] = summary.effects.get(str(effect.state), 0) + 1
    residual = sum(work.state is WorkState.RESIDUAL for work in task.works)
    summary.residual += residual
    summary.running += len(task.works) - residual
    summary.unseen += task.unseen
