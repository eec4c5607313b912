"""Effects that wait for a person: the question that asks for an approval, bound to the exact arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenure.protocol.approvals import AskedApproval
from tenure.runtime.decisions import Escalate
from tenure.runtime.outcomes import Held

if TYPE_CHECKING:
    from tenure.runtime.intents import Intent
    from tenure.runtime.tenure import Tenure


async def held(own: Tenure[Any], intent: Intent) -> Held:
    """The answer to an effect whose tool needs an approval that nobody has given: nothing was done.

    Its question names the tool, the request, and who asks on whose behalf.
    """
    question = Escalate(
        question=f"May {own.agent} use {intent.tool}?",
        evidence={"tool": intent.tool, "request": intent.request, "chain": await _chain(own)},
        approval=AskedApproval(tool=intent.tool, intent=intent.digest, arguments=intent.arguments),
    )
    return Held(tool=intent.tool, question=question, within=own.hold.settings.question_ms / 1000)


async def _chain(own: Tenure[Any]) -> list[str]:
    """Agents from the root task's owner down to this tenure's."""
    names, task = [own.agent], await own.hold.books.task(own.task_id)
    while task is not None and task.parent:
        task = await own.hold.books.task(task.parent)
        names += [task.owner] if task is not None else []
    return names[::-1]
