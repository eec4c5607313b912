"""``{machine}`` shows one table of :mod:`tenure.protocol.machines`: a diagram as Mermaid text, then every move.

The text is made here, apart from Sphinx, so that a test can hold it against the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tenure.protocol import evidence, machines

Moves = Mapping[str, Mapping[str, str]]
"""State → event → next state; for effects and evidence the event is empty text."""

BEGINNINGS = {"TASK": "offered", "HANDOFF": "INITIATED", "OFFER": "open", "WORK": "running", "EFFECT": "intended"}
EVIDENCE = {
    "EVIDENCE": "can speak for",
    "WORK_EVIDENCE": "can speak for",
    "EVIDENCE_FROM": "can only come from a call to",
    "SHOWN_BY": "can show",
    "FINDINGS": "can be attested as",
}
"""Tables of :mod:`tenure.protocol.evidence`, with what they say of a row."""
NAMES = (*BEGINNINGS, *EVIDENCE)


def _table(name: str) -> Mapping[Any, Any]:
    found: Mapping[Any, Any] = getattr(evidence if name in EVIDENCE else machines, name)
    return found


def moves(name: str) -> list[tuple[str, str, str]]:
    """Every move of a machine as (state, event, next state), in the table's order. Effects move by evidence alone."""
    found: list[tuple[str, str, str]] = []
    for state, row in _table(name).items():
        if isinstance(row, Mapping):
            found += [(str(state), str(event), str(target)) for event, target in row.items()]
        else:
            found += [(str(state), "", str(target)) for target in sorted(row)]
    return found


def states(name: str) -> list[str]:
    """Every state of a machine, in the table's order."""
    return [str(state) for state in _table(name)]


def finals(name: str) -> list[str]:
    """States that nothing leaves."""
    return [str(state) for state, row in _table(name).items() if not row]


def diagram(name: str) -> str:
    """The machine as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {BEGINNINGS[name]}"]
    lines += [f"    {state} --> {target}" + (f": {event}" if event else "") for state, event, target in moves(name)]
    return "\n".join(lines + [f"    {state} --> [*]" for state in finals(name)])


def table(name: str) -> str:
    """Every move as a Markdown table, one line for each pair of states."""
    if name in EVIDENCE:
        return _evidence(name)
    events: dict[tuple[str, str], list[str]] = {}
    for state, event, target in moves(name):
        events.setdefault((state, target), []).extend([f"`{event}`"] if event else [])
    by_event = any(events.values())
    lines = ["| from | by | to |", "| --- | --- | --- |"] if by_event else ["| from | to |", "| --- | --- |"]
    for (state, target), named in events.items():
        middle = f" {', '.join(named)} |" if by_event else ""
        lines.append(f"| `{state}` |{middle} `{target}` |")
    lines += [f"| `{state}` |" + (" – |" if by_event else "") + " final |" for state in finals(name)]
    return "\n".join(lines)


def _evidence(name: str) -> str:
    rows: dict[str, list[str]] = {str(kind): [] for kind in _table(name)}
    for kind, _, target in moves(name):
        rows[kind].append(f"`{target}`")
    first = {"SHOWN_BY": "call", "FINDINGS": "effect"}.get(name, "evidence")
    lines = [f"| {first} | {EVIDENCE[name]} |", "| --- | --- |"]
    return "\n".join(lines + [f"| `{kind}` | {', '.join(targets) or '–'} |" for kind, targets in rows.items()])


def page(name: str) -> str:
    """What the directive shows: diagram and table, as Markdown."""
    drawn = f"```text\n{diagram(name)}\n```\n\n" if name in BEGINNINGS else ""
    return f"{drawn}{table(name)}\n"


class MachineDirective(SphinxDirective):
    """``{machine} TASK``."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[Any]:
        """The diagram and the table as docutils nodes."""
        name = self.arguments[0]
        if name not in NAMES:
            raise self.error(f"No machine {name}; there are {', '.join(NAMES)}.")
        found: list[Any] = self.parse_text_to_nodes(page(name))
        return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("machine", MachineDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
