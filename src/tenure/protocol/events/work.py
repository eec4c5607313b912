"""Events of works."""

from __future__ import annotations

from tenure.protocol.events.base import EventBase
from tenure.protocol.settings import Policy
from tenure.protocol.state import Locator
from tenure.protocol.vocabulary import EvidenceKind, WorkEnd, WorkKind


class WorkStarted(EventBase, frozen=True, kw_only=True, tag="work.started"):
    """A work is on the books."""

    work_id: str
    kind: WorkKind
    name: str
    policy: Policy
    locator: Locator | None = None


class WorkLocated(EventBase, frozen=True, kw_only=True, tag="work.located"):
    """Where a work runs became known."""

    work_id: str
    locator: Locator


class CancellationRequested(EventBase, frozen=True, kw_only=True, tag="cancellation.requested"):
    """Works were asked to end; ``delivered`` ones are known to have got the request."""

    works: tuple[str, ...]
    delivered: bool = False


class WorkStopped(EventBase, frozen=True, kw_only=True, tag="work.stopped"):
    """A work was seen, or is attested, to have ended and leaves the books; ``by``: by whom, if not its own instance."""

    work_id: str
    how: WorkEnd
    result: str = ""
    late: bool = False
    evidence: EvidenceKind = EvidenceKind.ENDED
    by: str = ""
