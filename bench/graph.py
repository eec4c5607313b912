"""``python -m bench graph``: what judging a routing graph costs, against one pass for its components.

Both run over the same 2,000 agents and 20,000 edges, in turns, in one process; medians of their times are compared.
The graph states no budgets, so that its cycles are looked for, which is the dearest question; and transfers say
the same few sentences of different agents.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import networkx as nx

from tenure.graph import AgentNode, Edge, EdgeKind, Fallback, Graph
from tenure.graph.checking import check
from tenure.graph.checking.words import needs_result

SUMMARY = "tenure check of 2,000 agents and 20,000 edges, against one networkx pass for components"
LIMIT = 10.0
"""How many passes a check may cost."""
TEXT_LIMIT = 40.0
"""How many times as long a text may take that is ten times as long; quadratic would be 100."""
HARD = ("get so can ", "so that can ", "ask then ", "need a ", "send it ", "get from ")
"""Beginnings of what `needs_result` looks for, which never come to their end."""
REASONS = (
    "{} answers for what it is good at, to its end",
    "from here on {} talks to the customer",
    "{} decides on returns and owns the case",
    "only {} may close it",
    "the sender does not need the result: {} goes on alone",
    "{} takes over what is left",
)


def made(agents: int, edges: int, seed: int = 7) -> Graph:
    """A random graph, the same for the same seed: mostly delegations, every fourth edge a transfer."""
    draw = random.Random(seed)
    names = [f"agent-{number}" for number in range(agents)]
    pairs = {(draw.choice(names), draw.choice(names)) for _ in range(edges * 2)}
    found = [
        Edge(
            source=source,
            target=target,
            kind=EdgeKind.TRANSFER if number % 4 == 0 else EdgeKind.DELEGATE,
            because=REASONS[number // 4 % len(REASONS)].format(target) if number % 4 == 0 else "",
            description="one of many edges",
        )
        for number, (source, target) in enumerate(sorted(pair for pair in pairs if pair[0] != pair[1])[:edges])
    ]
    return Graph(
        team="bench",
        entry=names[0],
        agents={name: AgentNode(skills=("one", "two")) for name in names},
        edges=tuple(found),
        fallback=Fallback(person="person:operator"),
    )


def compare(agents: int, edges: int, rounds: int) -> dict[str, float | int]:
    """Medians in milliseconds, and their ratio."""
    graph = made(agents, edges)
    plain: nx.DiGraph[str] = nx.DiGraph((edge.source, edge.target) for edge in graph.edges)
    check(graph)
    passes, checks = list[float](), list[float]()
    for _ in range(rounds):
        passes.append(_timed(lambda: list(nx.strongly_connected_components(plain))))
        checks.append(_timed(lambda: check(graph)))
    one, judged = statistics.median(passes), statistics.median(checks)
    return {
        "agents": len(graph.agents),
        "edges": len(graph.edges),
        "pass_ms": round(one * 1000, 2),
        "check_ms": round(judged * 1000, 2),
        "ratio": round(judged / one, 2),
        "limit": LIMIT,
        "text_growth": growth(),
        "text_limit": TEXT_LIMIT,
    }


def growth() -> float:
    """How many times as long a text takes that is ten times as long, for the worst of :data:`HARD`: linear is 10."""
    worst = 0.0
    for text in HARD:
        short, long = (partial(needs_result, f"{times} {text * times}") for times in (1_000, 10_000))
        short()
        one, ten = min(_timed(short) for _ in range(5)), min(_timed(long) for _ in range(3))
        worst = max(worst, ten / one)
    return round(worst, 2)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main(arguments: list[str]) -> int:
    """Print the comparison; 0 when both limits hold, 1 when one does not."""
    quick = "--quick" in arguments
    found = compare(200 if quick else 2_000, 2_000 if quick else 20_000, 3 if quick else 15)
    if "--json" in arguments:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.write("".join(f"{name:12} {value}\n" for name, value in found.items()))
    return 0 if found["ratio"] <= LIMIT and found["text_growth"] <= TEXT_LIMIT else 1
