"""What a check can find, each with a stable code, a severity, a place and a next step."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

Where = tuple[str | int, ...]
"""A place inside a graph as keys and positions: ``("edges", 3, "because")``, ``("agents", "billing")``."""


class Severity(StrEnum):
    """An ``error`` keeps a graph from being saved or run; a ``warning`` is a design to look at again."""

    ERROR = "error"
    WARNING = "warning"


class Finding(Struct, frozen=True, kw_only=True):
    """One finding.

    Attributes:
        code: a key of :data:`CODES`. message: what was found, with its names. where: the place inside the graph.
        file, line, column: the place in the file, from 1; empty and 0 when the graph is not from a file.
    """

    code: str
    message: str
    where: Where = ()
    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def severity(self) -> Severity:
        """How grave it is, by its code."""
        return CODES[self.code][0]

    @property
    def next_step(self) -> str:
        """What to do, by its code."""
        return CODES[self.code][2]


CODES: dict[str, tuple[Severity, str, str]] = {
    "unreadable": (
        Severity.ERROR,
        "The file is not a graph.",
        "Correct the file; `tenure graph --schema` prints what an editor needs to help.",
    ),
    "no_agents": (
        Severity.ERROR,
        "The graph has no agents.",
        "Add a table [agents.NAME] for each participant.",
    ),
    "no_entry": (
        Severity.ERROR,
        "No agent gets new tasks.",
        'Name it: entry = "NAME".',
    ),
    "unknown_agent": (
        Severity.ERROR,
        "A name is not that of an agent.",
        "Correct the name, or add the agent.",
    ),
    "duplicate_edge": (
        Severity.ERROR,
        "An edge stands twice: same ends, same kind.",
        "Remove one of them; the first would be used.",
    ),
    "self_transfer": (
        Severity.ERROR,
        "An agent would transfer a task to itself.",
        "Remove the edge; the agent owns the task already.",
    ),
    "self_delegation": (
        Severity.WARNING,
        "An agent may delegate to copies of itself, and no depth is said.",
        "Say budgets.depth, or remove the edge.",
    ),
    "route_forbidden": (
        Severity.ERROR,
        "A partner would own a task, and cannot be fenced.",
        'Delegate to it: kind = "delegate".',
    ),
    "wildcard_transfer": (
        Severity.ERROR,
        "A transfer to everybody.",
        "Name each receiver, and say why it is a transfer.",
    ),
    "because_missing": (
        Severity.ERROR,
        "A transfer does not say why it is no delegation.",
        "Say why the sender does not need the result; if it does, delegate.",
    ),
    "needs_result": (
        Severity.WARNING,
        "A transfer is described as one whose result the sender needs.",
        "Make it a delegation; or say why the receiver goes on alone.",
    ),
    "transfer_first": (
        Severity.WARNING,
        "An agent passes its task round for answers: most of its receivers hand it back.",
        "Make these edges delegations: the agent keeps its task and gets the results.",
    ),
    "transfer_cycle": (
        Severity.WARNING,
        "A task can be transferred in circles, and no budget is said.",
        "Say budgets.transfers; oscillation is stopped before that.",
    ),
    "delegation_cycle": (
        Severity.WARNING,
        "Delegations can go in circles, and no depth is said.",
        "Say budgets.depth.",
    ),
    "unreachable": (
        Severity.WARNING,
        "No path leads from the entry to an agent.",
        "Add the edge that is missing, or remove the agent.",
    ),
    "dead_end": (
        Severity.WARNING,
        "An agent gets tasks for good, and can neither end them nor transfer them to one who can.",
        'Allow "end" in the termination of an edge to it, make that edge a delegation, or let it transfer on.',
    ),
    "edge_without_end": (
        Severity.ERROR,
        "What an edge begins can end in no way.",
        'Name at least one of "end", "return", "escalate".',
    ),
    "no_person": (
        Severity.WARNING,
        "The graph names nobody who is asked in the end.",
        'Say fallback.person, for example "person:operator".',
    ),
    "deadline_below_grace": (
        Severity.ERROR,
        "A deadline is shorter than what it has to wait for.",
        "Lengthen the deadline, or shorten the grace.",
    ),
    "gate_below_tool": (
        Severity.ERROR,
        "An edge states a weaker gate than a tool of its sender demands.",
        "Raise the gate of the edge, or leave it out.",
    ),
    "unknown_tool": (
        Severity.WARNING,
        "A grant names a tool that [tools] does not have.",
        "Correct the name, or add the tool.",
    ),
    "unknown_policy": (
        Severity.ERROR,
        "A tool is of a class that does not exist.",
        "Use one of the classes, or add it under [policies].",
    ),
    "bad_grant": (
        Severity.ERROR,
        "A grant cannot be read.",
        "Write tool, or tool(field<=number).",
    ),
    "grant_twice": (
        Severity.ERROR,
        "A tool is granted twice, under different limits.",
        "Keep one of the grants.",
    ),
    "authority_widened": (
        Severity.ERROR,
        "An edge grants what its receiver does not have.",
        "Grant it to the agent, or take it from the edge.",
    ),
    "payload_mismatch": (
        Severity.WARNING,
        "An edge carries another type than its receiver accepts.",
        "Name the type that the receiver accepts, or none.",
    ),
    "limit_invalid": (
        Severity.ERROR,
        "A number is below its least value, or no finite number.",
        "Budgets are at least 0, deadlines at least 1, limits of tools finite.",
    ),
}
"""Stable code → (severity, what it means, next step)."""
