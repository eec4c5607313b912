"""What an effect is meant to be: the business intent, named by its key, and what a repeat must share with it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tenure.errors import Refused as RefusedError
from tenure.protocol.body import text_digest
from tenure.protocol.graph import Graph
from tenure.protocol.settings import EXTERNAL, Policy
from tenure.runtime import provider as pv
from tenure.runtime.content import canonical, to_plain
from tenure.runtime.works import policy_of


class Intent(Struct, frozen=True, kw_only=True):
    """What the caller asked for: the digest of the business intent, and what a repeat must share with it."""

    provider: Any
    tool: str
    digest: str
    compared: str
    arguments: str
    request: Any
    policy: Policy
    timeout: float | None
    patience: float
    scope: str = ""


def tool_policy(graph: Graph | None, tool: str, asked: str | Policy) -> Policy:
    """The class of an effect: as asked for, else as the graph says of the tool, else ``external``.

    Raises:
        Refused: ``misuse`` for a class whose gate is below that of the tool's.
    """
    node = graph.tools.get(tool) if graph is not None else None
    least = graph.policy(node.policy) if graph is not None and node is not None else None
    if not asked:
        return least or EXTERNAL
    chosen = policy_of(asked, graph)
    if least is not None and chosen.gate.rank < least.gate.rank:
        detail = f"{tool} is {least.name} in the routing graph; {chosen.name} has a weaker gate."
        raise RefusedError("misuse", detail)
    return chosen


def intent_of(
    provider: pv.Provider,
    request: Any,
    *,
    key: str | None,
    tool: str,
    policy: Policy,
    compare: tuple[str, ...] | None,
    another: str,
    salt: str,
    timeout: float | None,
    patience: float,
) -> Intent:
    """Name an intent.

    Raises:
        Refused: ``misuse`` when the provider has no name, an external or critical effect has no key, or a compared
            field is not in the request.
    """
    plain = to_plain(request)
    if not provider.name:
        raise RefusedError("misuse", f"{type(provider).__name__} has no name.")
    if key in (None, "") and policy.name in ("external", "critical"):
        raise RefusedError("misuse", f"A {policy.name} effect names its key: the fields that are the business intent.")
    parts = plain
    if compare is not None:
        missing = [name for name in compare if not isinstance(plain, dict) or name not in plain]
        if missing:
            raise RefusedError("misuse", f"Compared fields are not in the request: {', '.join(missing)}.")
        parts = {name: plain[name] for name in compare}
    key = provider.intent_key(plain) if key is None else key
    named = canonical([provider.name, tool, str(key), another]).decode()  # no text in one part reads as another's end
    return Intent(
        provider=provider,
        tool=tool,
        digest=text_digest(named, salt),
        compared=text_digest(canonical(parts).decode(), salt),
        arguments=text_digest(canonical(plain).decode(), salt),
        request=plain,
        policy=policy,
        timeout=timeout,
        patience=patience,
    )
