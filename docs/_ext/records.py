"""``{records}`` lists what the protocol can say: its events, commands, reasons or errors, from the code itself.

The text is made here, apart from Sphinx, so that a test can hold it against the code.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, ClassVar

import msgspec
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tenure import errors
from tenure.protocol import commands, decisions, events, vocabulary

FAMILIES = (errors.Refused, errors.Fenced, errors.Unavailable, errors.OutcomeUnknown)
SHARED = {"at", "v", "command_id", "root_id", "task_id"}
"""Fields that every record has; the pages say so once."""


def summary(kind: type[Any]) -> str:
    """The docstring before its list of attributes, on one line, as Markdown."""
    text = inspect.getdoc(kind) or ""
    return _markdown(text.split("\n\nAttributes:")[0])


def attributes(kind: type[Any]) -> str:
    """The docstring's list of attributes, on one line, as Markdown."""
    _, _, text = (inspect.getdoc(kind) or "").partition("\n\nAttributes:")
    return _markdown(text)


def _markdown(text: str) -> str:
    plain = re.sub(r":\w+:`~?([^`]+)`", r"``\1``", text).replace("``", "`")
    return " ".join(plain.split())


def type_name(annotation: object) -> str:
    """A field's type as it is written."""
    text = annotation.__name__ if isinstance(annotation, type) and not _is_generic(annotation) else str(annotation)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])|\btyping\.", "", text).replace("|", "\\|")


def _is_generic(annotation: object) -> bool:
    return bool(getattr(annotation, "__args__", ()))


def fields(kind: type[msgspec.Struct]) -> str:
    """A record's own fields as a Markdown table; empty text when it has none."""
    rows = [
        f"| `{field.name}` | `{type_name(field.type)}` | {_default(field)} |"
        for field in msgspec.structs.fields(kind)
        if field.name not in SHARED
    ]
    return "\n".join(["| field | type | default |", "| --- | --- | --- |", *rows]) if rows else ""


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is msgspec.NODEFAULT:
        return "required" if field.default_factory is msgspec.NODEFAULT else "made anew"
    if isinstance(field.default, msgspec.Struct):
        return f"the default {type(field.default).__name__}"
    return f"`{field.default!r}`" if not isinstance(field.default, str) else f"`{str(field.default)!r}`"


def entry(kind: type[msgspec.Struct]) -> str:
    """One record: its tag as heading, what it means, its fields."""
    parts = [f"## `{kind.__struct_config__.tag}`", f"*{kind.__name__}.* {summary(kind)}", attributes(kind)]
    return "\n\n".join(part for part in [*parts, fields(kind)] if part)


def of_events() -> str:
    """Every event by its tag."""
    return "\n\n".join(
        entry(kind) for kind in sorted(events.EVENT_TYPES, key=lambda kind: str(kind.__struct_config__.tag))
    )


def of_commands() -> str:
    """Every command, in the order of the code."""
    kinds: tuple[type[msgspec.Struct], ...] = commands.Command.__args__
    return "\n\n".join(entry(kind) for kind in kinds)


def of_decisions() -> str:
    """Every decision by which a tenure ends itself."""
    kinds: tuple[type[msgspec.Struct], ...] = decisions.Decision.__args__
    return "\n\n".join(entry(kind) for kind in kinds)


MEANINGS: dict[vocabulary.Reason, str] = {
    vocabulary.Reason.NONE: "no reason was needed",
    vocabulary.Reason.DECLINED: "the receiver turned the offer down; it is not asked again",
    vocabulary.Reason.START_FAILED: "the receiver took the offer and could not start; it may be asked again",
    vocabulary.Reason.CAPABILITY: "the agent cannot do this",
    vocabulary.Reason.PERMISSION: "the agent may not do this",
    vocabulary.Reason.RAISED: "the handler raised",
    vocabulary.Reason.RETRIES_EXHAUSTED: "the allowed repetitions are used up",
    vocabulary.Reason.ACK_TIMEOUT: "an offer was picked up and not acknowledged in time",
    vocabulary.Reason.PICKUP_TIMEOUT: "nobody picked an offer up in time",
    vocabulary.Reason.TRANSITION_LIMIT: "the window in which nobody may write reached its upper bound",
    vocabulary.Reason.GATE_TIMEOUT: "what the gate waits for was not over in time",
    vocabulary.Reason.RETIRE_TIMEOUT: "a retiring tenure was not released in time",
    vocabulary.Reason.LEASE_LOST: "the heartbeat stayed away longer than the lease; the instance may still run",
    vocabulary.Reason.INSTANCE_DEAD: "the process of the instance was observed dead",
    vocabulary.Reason.NO_PROGRESS: "no step was visible in the ledger for the progress limit, also after asking",
    vocabulary.Reason.BUDGET: "a budget is used up",
    vocabulary.Reason.ROUTE_FORBIDDEN: "the routing graph has no such edge, and the agent asked again for it",
    vocabulary.Reason.TRANSFER_LIMIT_EXCEEDED: "the task has used up its transfers",
    vocabulary.Reason.DELEGATION_LIMIT_EXCEEDED: "the turn, the task or the tree has used up its delegations",
    vocabulary.Reason.OSCILLATION: "the task went in circles, and nothing came of it",
    vocabulary.Reason.GAVE_BACK: "the receiver returned the task of its own will",
    vocabulary.Reason.REVERSED: "a supervisor or a person reversed the handoff",
    vocabulary.Reason.ESCALATED: "the owner asked a person",
    vocabulary.Reason.ESCALATION_EXPIRED: "nobody answered an escalation in time",
    vocabulary.Reason.CANCELLED: "cancellation was asked for",
    vocabulary.Reason.CANCEL_TIMEOUT: "the owner did not stop in time after it was asked to",
    vocabulary.Reason.ABORTED: "a person ended the task",
    vocabulary.Reason.ANSWERED: "a question was answered, the task goes on",
    vocabulary.Reason.REASSIGNED: "a person gave the task to another agent",
    vocabulary.Reason.WAKE_INPUT: "a message arrived for a task that waited for one",
    vocabulary.Reason.WAKE_CHILD: "a delegation ended that the task waited for",
    vocabulary.Reason.WAKE_TIME: "the time of a wait has come",
}


def of_reasons() -> str:
    """Every reason with its meaning."""
    rows = [f"| `{str(reason) or '(empty)'}` | {MEANINGS[reason]} |" for reason in vocabulary.Reason]
    return "\n".join(["| reason | meaning |", "| --- | --- |", *rows])


def of_errors() -> str:
    """The four families, then every code."""
    family_rows = [f"| `{kind.__name__}` | `{kind.family}` | {kind.exit_code} | {summary(kind)} |" for kind in FAMILIES]
    code_rows = [f"| `{code}` | {message} | `{action}` |" for code, (message, action) in errors.CODES.items()]
    return "\n".join(
        [
            "| error | family | exit code | meaning |",
            "| --- | --- | --- | --- |",
            *family_rows,
            "",
            "| code | meaning | next action |",
            "| --- | --- | --- |",
            *code_rows,
        ]
    )


PAGES = {
    "events": of_events,
    "commands": of_commands,
    "decisions": of_decisions,
    "reasons": of_reasons,
    "errors": of_errors,
}


class RecordsDirective(SphinxDirective):
    """``{records} events``."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[Any]:
        """The list as docutils nodes."""
        name = self.arguments[0]
        if name not in PAGES:
            raise self.error(f"No records {name}; there are {', '.join(PAGES)}.")
        found: list[Any] = self.parse_text_to_nodes(PAGES[name](), allow_section_headings=True)
        return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("records", RecordsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
