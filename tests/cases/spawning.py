"""A team whose helpers ask for helpers: in this process, or as ``tenure worker tests/cases/spawning.py:team``.

B asks for three copies of itself with the text that it was given, and has no end of its own. ``SPAWNING`` names a
folder that outlives the process: a handler's begin is a line of its log, and the files ``go`` and ``go-copies`` let B
and its copies go on.
"""

import os
from pathlib import Path
from typing import Any

from tenure import Answered, Complete, Delegate, Limits, Nudged, Settings, Team, Tenure
from tenure.graph import AgentNode, Edge, Graph
from tenure.ledger import Ledger
from tests.runtime.program import Folder

GRAPH = Graph(
    team="research",
    entry="s",
    agents={"s": AgentNode(), "b": AgentNode()},
    edges=(Edge(source="s", target="b"), Edge(source="b", target="b")),
)
FAN_OUT = 3


def research(
    ledger: str | Ledger,
    limits: Limits,
    *,
    obstinate: bool = False,
    folder: Folder | None = None,
    settings: Settings | None = None,
) -> Team:
    """S asks B once. B asks for three copies of itself, and again when it is told no, if it is ``obstinate``."""
    team = Team("research", ledger=ledger, graph=GRAPH, limits=limits, settings=settings)

    @team.agent
    async def s(own: Tenure[Any]) -> Complete[Any]:
        found = await own.delegate("b", {"topic": "tides"}, goal=own.goal, key="the one")
        return Complete({"outcome": found.outcome, "reason": found.reason, "found": found.value})

    @team.agent
    async def b(own: Tenure[Any]) -> Complete[Any]:
        if folder is not None:
            folder.log("began", own.task_id, own.epoch)
            await folder.go("go-copies" if own.payload.summary else "go")
        return Complete(await ask_for_copies(own, obstinate=obstinate))

    return team


async def ask_for_copies(own: Tenure[Any], *, obstinate: bool) -> dict[str, Any]:
    """Ask for three copies; the answer says what came of it. Who is not obstinate takes a first no for an answer."""
    while True:
        copies = [Delegate("b", own.input, summary="a copy", key=f"copy {n}") for n in range(FAN_OUT)]
        outcome = await own.turn(copies)
        if isinstance(outcome, Answered):
            return {"facts": [[fact.outcome, fact.data] for fact in outcome.facts]}
        assert isinstance(outcome, Nudged)
        if not obstinate:
            return {"refused": [one.code for one in outcome.rejected], "because": outcome.rejected[0].detail}


if "SPAWNING" in os.environ:
    here = Path(os.environ["SPAWNING"])
    team = research(f"sqlite:///{here}/ledger.db", Limits(depth=2, agents=6), folder=Folder(here))
