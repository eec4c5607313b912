"""One worker, from its start to the end of its drain."""

from __future__ import annotations

from tenure.cli.problems import FOUND
from tenure.cli.stopping import Stop
from tenure.cli.talk import plural, say
from tenure.runtime.ids import new_id
from tenure.runtime.team import Team


class Shift:
    """What ``tenure worker`` does."""

    def __init__(self, team: Team, *, name: str, agents: tuple[str, ...], concurrency: int, drain: float) -> None:
        self._team = team
        self._name = name or new_id(f"{team.name}-worker")
        self._agents = agents
        self._concurrency = concurrency
        self._drain = drain

    async def run(self, stop: Stop) -> int:
        """Work until a signal, then drain."""
        ledger = self._team.keep_ledger_open()
        try:
            async with self._team.worker(
                name=self._name, agents=self._agents, concurrency=self._concurrency, drain=self._drain
            ) as worker:
                say(f"worker {worker.name} acts for {', '.join(worker.agents)} on {ledger.url}")
                await stop.requested.wait()
                if worker.busy:
                    say(f"waiting for {plural(worker.busy, 'tenure')}, {self._drain:g} s at most")
        finally:
            await ledger.close()
        if worker.left:
            say(f"{plural(worker.left, 'tenure')} still ran after {self._drain:g} s; nothing is claimed of them")
            return FOUND
        say(f"worker {self._name} ended: nothing was running")
        return 0
