"""The named scopes. Together they reach every row of the design's tables; each is exhaustive within its bounds."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tenure.protocol.settings import Limits
from tenure.protocol.vocabulary import Gate, WorkKind
from tenure.testing.explore.scope import CRITICAL_WORK, EXTERNAL_CALL, SMALL, Outside, Scope

CRITICAL_CALL = replace(EXTERNAL_CALL, name="critical", gate=Gate.SETTLED)
ONCE = replace(SMALL, transfers=1)
"""One transfer, so that a second one is one too many."""

CHAIN: dict[str, Any] = {
    "agents": {"A": ("a1",), "B": ("b1",), "C": ("c1",)},
    "edges": {"A": ("B",), "B": ("C",), "C": ("A",)},
}
PAIR: dict[str, Any] = {"agents": {"A": ("a1",), "B": ("b1",)}, "edges": {"A": ("B",)}, "settings": ONCE}
DOUBLE: dict[str, Any] = {"agents": {"A": ("a1", "a2"), "B": ("b1",)}, "edges": {"A": ("B",)}, "settings": ONCE}
ALONE: dict[str, Any] = {"agents": {"A": ("a1", "a2")}, "settings": ONCE}
DIRECT = Outside(direct=True, finds=False)

_CHAINS = (
    Scope(
        name="chain-0-2",
        about="A → B → C with two works: a coroutine, a process",
        **CHAIN,
        budget={"works": 2, "crashes": 1, "clock": 1},
    ),
    Scope(
        name="chain-1-1",
        about="A → B → C with an effect and a process",
        **CHAIN,
        kinds=(WorkKind.PROCESS,),
        outside=DIRECT,
        budget={"works": 1, "effects": 1, "clock": 1},
    ),
    Scope(
        name="chain-2-1",
        about="A → B with two effects and a process",
        **PAIR,
        kinds=(WorkKind.PROCESS,),
        outside=replace(DIRECT, intents=("i1", "i2")),
        budget={"works": 1, "effects": 2, "clock": 1},
    ),
    Scope(
        name="broadcast",
        about="a transfer open to B and C: claims, refusals to start, declines",
        agents={"A": ("a1",), "B": ("b1",), "C": ("c1",)},
        edges={"A": ("B", "C")},
        settings=ONCE,
        broadcast=True,
        separate_claim=True,
        budget={"declines": 2},
    ),
    Scope(
        name="turns",
        about="turns that ask for one transfer, for two, or for one beside a delegation; instances die in between",
        agents={"A": ("a1",), "B": ("b1",), "C": ("c1",)},
        edges={"A": ("B",)},
        settings=replace(ONCE, nudges=1, calls_ms=10),
        children="B",
        limits=Limits(depth=1, delegations=1),
        budget={"turns": 2, "crashes": 1, "clock": 1, "children": 1},
    ),
    Scope(
        name="one-transfer",
        about="a tenure that transfers again and again, quietly or not, to B or C",
        agents={"A": ("a1",), "B": ("b1",), "C": ("c1",)},
        edges={"A": ("B", "C"), "B": ("C",), "C": ("A",)},
        decisions=("transfer",),
        budget={"crashes": 1, "clock": 2},
    ),
    Scope(
        name="return",
        about="hops with narrowing authority and new constraints; returns, reversals",
        **CHAIN,
        authority=("x", "y", "z"),
        edge_authority={"A": ("x", "y"), "B": ("x",), "C": ("y",)},
        budget={"returns": 1, "reversals": 1, "constraints": 2, "clock": 1},
    ),
)

_EFFECTS = (
    Scope(
        name="idempotent",
        about="a provider that repeats its answer to a key for 20 ms, and may refuse",
        agents={"A": ("a1",)},
        settings=ONCE,
        decisions=(),
        outside=Outside(window_ms=20, limit_ms=10, refuses=True),
        budget={"effects": 1, "calls": 1, "clock": 2},
    ),
    Scope(
        name="proof-of-death",
        about="a provider with a look-up and an in-flight limit of 10 ms: absence after an observed death",
        **ALONE,
        outside=Outside(limit_ms=10),
        decisions=(),
        budget={"effects": 1, "crashes": 1, "calls": 1, "clock": 2},
    ),
    Scope(
        name="seal",
        about="a provider that can seal a key; the next request gets another one",
        **ALONE,
        outside=Outside(seals=True, finds=False),
        decisions=("complete",),
        budget={"effects": 2, "calls": 1, "clock": 1},
    ),
    Scope(
        name="shared-intent",
        about="a parent and its child with the same business intent",
        agents={"A": ("a1",), "B": ("b1",)},
        children="B",
        outside=Outside(finds=False),
        decisions=("complete",),
        budget={"children": 1, "effects": 2, "calls": 1, "clock": 0},
    ),
    Scope(
        name="critical-gate",
        about="critical work and a critical effect in the way of a transfer, a return, an end",
        **PAIR,
        kinds=(WorkKind.PROCESS,),
        work_policy=CRITICAL_WORK,
        outside=replace(DIRECT, policy=CRITICAL_CALL),
        budget={"works": 1, "effects": 1, "clock": 2},
    ),
)

_TREES = (
    Scope(
        name="child",
        about="a delegation, one too many, a wait for the child, a stopped tree",
        agents={"A": ("a1",), "B": ("b1",)},
        settings=ONCE,
        children="B",
        waits=("child",),
        decisions=("complete",),
        budget={"children": 2, "waits": 1, "crashes": 1, "stops": 1, "clock": 1},
    ),
    Scope(
        name="live-input",
        about="messages seen, consumed, carried over a transfer and a crash; a wait for input; a route",
        **PAIR,
        waits=("input",),
        budget={"sends": 2, "waits": 1, "crashes": 1, "routes": 1, "clock": 1},
    ),
    Scope(
        name="cancellation",
        about="cancellation with a critical work; its time-out; a person's answer",
        **PAIR,
        kinds=(WorkKind.PROCESS,),
        work_policy=CRITICAL_WORK,
        budget={"cancels": 1, "works": 1, "answers": 1, "clock": 2},
    ),
    Scope(
        name="questions",
        about="waits for an answer and for time, escalations, failures, answers by the right and the wrong party",
        **PAIR,
        waits=("answer", "time"),
        budget={"waits": 1, "escalations": 1, "failures": 1, "answers": 2, "clock": 1},
    ),
    Scope(
        name="progress",
        about="a tenure without a visible step; helpers that nobody saw end; a watchdog that sleeps",
        agents={"A": ("a1",)},
        settings=replace(ONCE, progress_ms=10),
        ticks=1,
        budget={"documents": 1, "helpers": 1, "crashes": 1, "clock": 4},
    ),
)

_UNREDUCED = (
    Scope(
        name="late-acks",
        about="unreduced: acknowledgements of every epoch so far, by everybody, the dead too; claims; the window",
        agents={"A": ("a1",), "B": ("b1",), "C": ("c1",)},
        edges={"A": ("B", "C")},
        settings=replace(ONCE, transition_ms=15, attempts=2),
        reduced=False,
        late=True,
        separate_claim=True,
        ticks=1,
        budget={"declines": 1, "crashes": 1, "clock": 3},
    ),
    Scope(
        name="stale-epochs",
        about="unreduced: every owner's command under every epoch so far, the dead too; works end before it is seen",
        **DOUBLE,
        kinds=(WorkKind.COROUTINE,),
        reduced=False,
        late=True,
        budget={"works": 1, "crashes": 1, "clock": 2},
    ),
)

_WIDER: dict[str, dict[str, int]] = {
    "turns": {"turns": 3, "clock": 2},
    "chain-0-2": {"clock": 3},
    "chain-1-1": {"clock": 3, "crashes": 1},
    "chain-2-1": {"clock": 2, "crashes": 1},
    "broadcast": {"declines": 3, "crashes": 1},
    "one-transfer": {"crashes": 2, "clock": 4},
    "return": {"returns": 2, "clock": 3},
    "idempotent": {"calls": 2, "effects": 2, "crashes": 1, "clock": 5},
    "proof-of-death": {"effects": 2, "calls": 2, "crashes": 2, "clock": 4},
    "seal": {"calls": 2, "crashes": 1, "clock": 2},
    "shared-intent": {"effects": 3, "clock": 2},
    "critical-gate": {"crashes": 1, "clock": 4},
    "child": {"clock": 4},
    "live-input": {"waits": 2, "clock": 3},
    "cancellation": {"crashes": 1, "returns": 1, "clock": 3},
    "questions": {"crashes": 1, "clock": 4},
    "progress": {"works": 1, "clock": 6},
    "late-acks": {"declines": 2, "reversals": 1, "clock": 5},
    "stale-epochs": {"works": 2, "documents": 1, "clock": 3},
}
"""What the wide form allows more of."""

WIDE_MOST = 100_000
"""The wide form stops a scope after this many states, and says so; a counter-example is looked for nearest first."""


def scopes(*, wide: bool = False) -> tuple[Scope, ...]:
    """All scopes: small enough for every change, or wide."""
    # The longest come first, so that no process is left alone with one at the end.
    every = _UNREDUCED + _TREES + _CHAINS + _EFFECTS
    if not wide:
        return every
    return tuple(replace(scope, budget={**scope.budget, **_WIDER[scope.name]}, most=WIDE_MOST) for scope in every)
