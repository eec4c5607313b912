"""What ``own.effect`` answers. Only misuse raises; a doubt is an answer."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tenure.errors import NextAction
from tenure.protocol.vocabulary import EffectState
from tenure.runtime.decisions import Escalate, Wait


class Done(Struct, frozen=True):
    """The provider confirmed it.

    Attributes:
        value: its answer. reference: its name for it. repeated: answered from the record, without a call.
    """

    effect_id: str
    value: Any = None
    reference: str = ""
    repeated: bool = False
    next_action: NextAction = NextAction.USE_RESULT


class Refused(Struct, frozen=True):
    """It is settled that it is not in force: refused, failed, cancelled or compensated, as ``state`` says."""

    effect_id: str
    state: EffectState
    reason: str = ""
    value: Any = None
    repeated: bool = False
    next_action: NextAction = NextAction.STOP


class InDoubt(Struct, frozen=True):
    """Not settled: it may or may not exist outside. ``answerable`` answers for it; do not repeat it otherwise."""

    effect_id: str
    state: EffectState
    reason: str = ""
    reference: str = ""
    answerable: str = ""
    next_check: int = 0
    next_action: NextAction = NextAction.RECONCILE


class Held(Struct, frozen=True):
    """Not done: its tool needs a person's approval of exactly this request. Return ``held.wait`` from the handler.

    The handler starts again when the person has answered, and the same effect is then made, or is :class:`Refused`.
    There is no effect yet, and so ``effect_id`` is empty.
    """

    tool: str
    question: Escalate
    within: float
    effect_id: str = ""
    next_action: NextAction = NextAction.ASK

    @property
    def wait(self) -> Wait:
        """The decision that asks, and keeps the task without a lease until the answer."""
        return Wait(on="answer", within=self.within, question=self.question)


Outcome = Done | Refused | InDoubt | Held
