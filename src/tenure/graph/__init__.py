"""Routing graphs: as Python values, as files, judged, drawn. What they mean is enforced by the ledger.

>>> from tenure.graph import AgentNode, Edge, Graph
>>> graph = Graph(
...     team="shop",
...     entry="triage",
...     agents={"triage": AgentNode(), "billing": AgentNode(skills=("refunds",))},
...     edges=(Edge(source="triage", target="billing", kind="transfer", because="billing answers for refunds"),),
... )
>>> len(graph.digest)
64
"""

from tenure.protocol.graph import (
    AgentKind,
    AgentNode,
    Budgets,
    Deadlines,
    Edge,
    EdgeKind,
    Fallback,
    Graph,
    Oscillation,
    PolicyNode,
    Termination,
    Tool,
    Turns,
)

__all__ = [
    "AgentKind",
    "AgentNode",
    "Budgets",
    "Deadlines",
    "Edge",
    "EdgeKind",
    "Fallback",
    "Graph",
    "Oscillation",
    "PolicyNode",
    "Termination",
    "Tool",
    "Turns",
]
