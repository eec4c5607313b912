"""Commands about effects: the intent, each call, what it showed, and what a person says."""

from __future__ import annotations

from tenure.protocol.body import Body
from tenure.protocol.commands.base import CommandBase, OwnerCommand
from tenure.protocol.settings import Policy
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Finding, Purpose, Reason


class Intend(OwnerCommand, frozen=True, kw_only=True):
    """Record an effect and its first attempt, before the provider is called.

    Attributes:
        intent: digest of provider, tool and key. compared: digest of the fields that a repeat must share.
        idempotent_ms, in_flight_ms: the provider's facts; 0 means that it gives none.
        check_ms: when somebody should look again if it stays open.
        arguments: digest of the whole request, by which an approval is bound to it.
        key_scope: where the provider's key counts. scope: which of the task's undertakings it belongs to.
    """

    effect_id: str
    provider: str
    tool: str
    intent: str
    request: Body
    compared: str
    policy: Policy
    idempotent_ms: int = 0
    in_flight_ms: int = 0
    check_ms: int = 60_000
    arguments: str = ""
    key_scope: str = ""
    scope: str = ""


class AttemptEffect(CommandBase, frozen=True, kw_only=True):
    """Commit a further provider call, by compare-and-set on the effect's version.

    ``apply`` and ``compensate`` begin with the owner. Whoever reconciles (epoch 0) may look, seal and cancel, and go on
    with what an owner has begun where that cannot act twice.

    Attributes:
        key_scope: where the caller's provider counts keys. idempotent_ms, in_flight_ms: the provider's facts of a
            compensation; for other calls those of the intent hold.
    """

    effect_id: str
    version: int
    purpose: Purpose
    instance: str
    epoch: int = 0
    key_scope: str = ""
    idempotent_ms: int = 0
    in_flight_ms: int = 0


class RecordOutcome(CommandBase, frozen=True, kw_only=True):
    """Record what an attempt showed. It is evidence: accepted under any epoch, moving no ownership.

    Attributes:
        state: the state that the evidence speaks for.
        reference: the provider's name for it. body: the answer. not_found: a look-up found nothing.
    """

    effect_id: str
    attempt: int
    instance: str
    epoch: int
    state: EffectState
    evidence: EvidenceKind
    reference: str = ""
    body: Body | None = None
    not_found: bool = False


class AskAboutEffect(CommandBase, frozen=True, kw_only=True):
    """Ask a person about an open effect, because nothing else is left to find out. Others go on looking, less often."""

    effect_id: str
    version: int
    instance: str
    reason: Reason = Reason.RETRIES_EXHAUSTED


class Attest(CommandBase, frozen=True, kw_only=True):
    """A person's word on an open effect, naming the version that was seen.

    Attributes:
        retry: with the finding ``absent``, grants the owner one more call. It takes the place of a look-up, and of no
            other proof: every sender must have been observed dead, and the in-flight limit be over.
    """

    effect_id: str
    version: int
    by: str
    body: Body
    finding: Finding = Finding.PRESENT
    retry: bool = False
