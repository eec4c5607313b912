"""The sender's part of a handoff: structured, frozen, digested.

What is in flight is not in here: it is read from the books in the commit of the grant, where it cannot be stale.
Past actions are facts with stable ids, never something to call. All text is data.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from tenure.errors import Refused
from tenure.protocol.body import text_digest
from tenure.protocol.state import Task


class Fact(Struct, frozen=True, kw_only=True):
    """One past action, once in every payload that follows it.

    Attributes:
        id: stable; the effect's or work's id where there is one.
        what: what was done, in words. outcome: what is known of it. reference: where to look it up.
        by: the agent that did it.
        origin: who says so: an agent (``claimed``), or the books, of an ``effect`` or of a ``work``.
    """

    id: str
    what: str
    outcome: Literal["done", "failed", "refused", "running", "unknown"]
    reference: str = ""
    by: str = ""
    data: Any = None
    origin: Literal["claimed", "effect", "work"] = "claimed"


class Artifact(Struct, frozen=True, kw_only=True):
    """A reference to something too large for a payload."""

    id: str
    uri: str
    media_type: str = ""
    digest: str = ""


class Payload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sender's part. An unknown field is an error: nothing in a payload can change routing or permissions.

    ``salt`` is random text made at the submission, the same in every payload of the tree.
    """

    task_id: str
    handoff_id: str
    hop: int
    goal: str
    salt: str = ""
    trigger: str = ""
    summary: str = ""
    constraints: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    done: tuple[Fact, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    open_questions: tuple[str, ...] = ()
    data: Any = None
    trace: dict[str, str] = field(default_factory=dict)


@functools.cache
def _decoder() -> msgspec.json.Decoder[Payload]:
    """Made at first use: an import should not pay for it."""
    return msgspec.json.Decoder(Payload)


def read_payload(content: bytes, limit: int) -> Payload:
    """Decode a sender's part and check it by itself.

    Raises:
        Refused: ``payload_too_large`` above ``limit`` bytes; ``payload_invalid`` for a wrong shape or an id that
            stands twice; ``raw_transcript`` where a chat transcript takes the place of structure.
    """
    if len(content) > limit:
        detail = f"It has {len(content)} bytes, the limit is {limit}. Move bulk into artifacts and pass references."
        raise Refused("payload_too_large", detail, size=len(content), limit=limit)
    try:
        payload = _decoder().decode(content)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise Refused("payload_invalid", f"{error}.") from None
    ids = [fact.id for fact in payload.done] + [artifact.id for artifact in payload.artifacts]
    if len(set(ids)) < len(ids):
        twice = sorted({name for name in ids if ids.count(name) > 1})
        raise Refused("payload_invalid", f"These ids stand twice: {', '.join(twice)}.")
    if _is_transcript(payload.data) or _is_transcript(payload.summary):
        detail = "State the facts (done, decisions, open_questions) and keep the transcript as an artifact."
        raise Refused("raw_transcript", detail)
    return payload


def constraint_digests(payload: Payload) -> tuple[str, ...]:
    """Digests of the constraints, sorted, each once."""
    return tuple(sorted({text_digest(text, payload.salt) for text in payload.constraints}))


def goal_digest(payload: Payload) -> str:
    """Digest of the goal."""
    return text_digest(payload.goal, payload.salt)


def check_carried(payload: Payload, task: Task) -> tuple[str, ...]:
    """Refuse a sender's part that loses the identity, the goal or a constraint of its task.

    Returns:
        The digests of its constraints.

    Raises:
        Refused: ``payload_invalid`` or ``constraints_dropped``.
    """
    if payload.task_id != task.task_id:
        raise Refused("payload_invalid", f"It names task {payload.task_id}, not {task.task_id}.")
    if goal_digest(payload) != task.goal:
        raise Refused("payload_invalid", "Its goal is not the goal of the task.")
    constraints = constraint_digests(payload)
    missing = set(task.constraints).difference(constraints)
    if missing:
        raise Refused("constraints_dropped", f"{len(missing)} of {len(task.constraints)} are missing.")
    return constraints


def _is_transcript(value: Any, depth: int = 3) -> bool:
    """Whether a value is, or nests, a list of chat messages."""
    if isinstance(value, str):
        return _is_transcript_text(value)
    if depth == 0:
        return False
    if isinstance(value, dict):
        return any(_is_transcript(inner, depth - 1) for inner in value.values() if not isinstance(inner, str))
    if not isinstance(value, list) or not value:
        return False
    messages = [item for item in value if isinstance(item, dict) and "role" in item and len(item.keys() & _SAID) > 0]
    return len(messages) == len(value) and len(value) > 1


_SAID = frozenset({"content", "parts", "tool_calls", "text"})


def _is_transcript_text(text: str) -> bool:
    if not text.startswith("[") or '"role"' not in text:
        return False
    try:
        decoded = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return isinstance(decoded, list) and _is_transcript(decoded)
