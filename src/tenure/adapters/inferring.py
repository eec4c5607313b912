"""The door to the adapters that read graphs: which framework an agent belongs to is seen from what it has."""

from __future__ import annotations

from typing import Any

from tenure.adapters import google_adk, langgraph, openai_agents, pydantic_ai
from tenure.adapters.sketching import Inferred
from tenure.errors import Refused
from tenure.protocol.graph import Graph

ADAPTERS = (openai_agents, google_adk, langgraph, pydantic_ai)


def infer(agent: Any) -> Graph:
    """The routing graph of a framework's agents, beginning with one of them. No model is called.

    Raises:
        Refused: ``misuse`` for what no adapter recognises; ``invalid_team`` for two agents of one name.
    """
    return look_into(agent).graph


def look_into(agent: Any, name: str = "") -> Inferred:
    """The same, with notes on what could not be seen.

    Args:
        agent: the entry. name: what to call it when it has no name.
    """
    for adapter in () if isinstance(agent, type) else ADAPTERS:
        if adapter.recognises(agent):
            found: Inferred = adapter.inferred(agent, name)
            return found
    known = ", ".join(adapter.NAME for adapter in ADAPTERS)
    kind = type(agent)
    raise Refused("misuse", f"This {kind.__module__}.{kind.__qualname__} is no agent of {known}.")
