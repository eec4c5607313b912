"""What a sweep of a reconciler has found, and what one would try."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from tenure.protocol.outside import Effect


class Fate(StrEnum):
    """What came of the look after one effect.

    ``settled``: nothing about it is open any more. ``open``: calls were made, and it is open. ``asked``: a person was
    asked now. ``with_person``: one had been asked before, and nothing was left to try. ``owned``: its first call is in
    flight at a tenure. ``busy``: somebody else is at it. ``unknown_provider``: no provider here has its name and the
    scope of its key. ``failed``: the look itself failed. ``left``: it was not begun.
    """

    SETTLED = "settled"
    OPEN = "open"
    ASKED = "asked"
    WITH_PERSON = "with_person"
    OWNED = "owned"
    BUSY = "busy"
    UNKNOWN_PROVIDER = "unknown_provider"
    FAILED = "failed"
    LEFT = "left"


class Look(Struct, frozen=True, kw_only=True):
    """One look after one effect.

    Attributes:
        was, state: before and after it. version: of the effect after it. calls: the provider's calls that were made.
        fate: a :class:`Fate`. why: a person was asked, or the look failed; empty for others.
    """

    effect_id: str
    task_id: str
    tool: str
    provider: str
    was: str
    state: str
    version: int
    fate: Fate
    calls: tuple[str, ...] = ()
    why: str = ""


class Swept(Struct, frozen=True, kw_only=True):
    """One sweep, counted completely: ``due`` is the sum of the nine counts that are named as in :class:`Fate`.

    Attributes:
        calls: provider calls that were made. ended: residual works that were seen to end. looks: one for each effect.
        more: the limit was reached. error: the ledger's, when it ended the sweep.
    """

    due: int = 0
    settled: int = 0
    open: int = 0
    asked: int = 0
    with_person: int = 0
    owned: int = 0
    busy: int = 0
    unknown_provider: int = 0
    failed: int = 0
    left: int = 0
    calls: int = 0
    ended: int = 0
    looks: tuple[Look, ...] = ()
    more: bool = False
    error: str = ""


class Planned(Struct, frozen=True, kw_only=True):
    """What a look would try for one effect, in this order, as long as it stays open.

    Attributes:
        would: calls of its provider, and ``ask`` for a person; empty when it would be left alone. why: the reason of
        an ``ask``, or of leaving it alone.
    """

    effect_id: str
    task_id: str
    tool: str
    provider: str
    state: str
    version: int
    would: tuple[str, ...]
    why: str = ""


def look_of(
    before: Effect, fate: Fate, *, after: Effect | None = None, calls: tuple[str, ...] = (), why: str = ""
) -> Look:
    """A look after an effect."""
    after = after or before
    return Look(
        effect_id=before.effect_id,
        task_id=before.task_id,
        tool=before.tool,
        provider=before.provider,
        was=str(before.state),
        state=str(after.state),
        version=after.version,
        fate=fate,
        calls=calls,
        why=why,
    )
