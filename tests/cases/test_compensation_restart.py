"""Reported failures, compensation: EF-05 with a restart in the middle of the compensations."""

import asyncio
from typing import Any

from tenure import (
    Compensation,
    Complete,
    Confirmed,
    Inconclusive,
    NotFound,
    Provider,
    Team,
    Tenure,
)
from tenure.ledger import Ledger
from tests.runtime.harness import SHORT_LEASE, Line

STEPS = ("reserve", "charge", "notify", "ship")


class House:
    """Everything outside: what is in force, what was undone, and in which order."""

    def __init__(self) -> None:
        self.in_force: dict[str, str] = {}
        self.undone: list[str] = []
        self.undo_keys: list[tuple[str, str]] = []
        self.order: list[str] = []
        self.reachable = False


class Mail(Provider):
    """Sends a message, which cannot be taken back."""

    name = "notify"

    def __init__(self, house: House) -> None:
        self.house = house

    async def apply(self, request: Any, *, key: str) -> Any:
        self.house.in_force[self.name] = key
        return Confirmed(reference=f"{self.name}-1")


class Booking(Mail):
    """Reserves, and gives the reservation back."""

    name = "reserve"

    async def compensate(self, request: Any, *, key: str, reference: str) -> Any:
        self.house.order.append(f"undo {self.name}")
        self.house.undo_keys.append((self.name, key))
        self.house.in_force.pop(self.name, None)
        self.house.undone.append(self.name)
        return Confirmed(reference=f"undone-{reference}")


class Till(Booking):
    """Charges, and answers a repeated undoing from its record."""

    name = "charge"
    undo_idempotent_for = 3600


class Carrier(Booking):
    """Takes the parcel and loses its answer: the step fails half-way. It can be asked."""

    name = "ship"

    async def apply(self, request: Any, *, key: str) -> Any:
        await super().apply(request, key=key)
        raise ConnectionError("reset by peer")

    async def lookup(self, request: Any, *, key: str) -> Any:
        self.house.order.append(f"look {self.name}")
        if not self.house.reachable:
            return Inconclusive("no answer")
        return Confirmed(reference="ship-1") if self.house.in_force.get(self.name) == key else NotFound()


async def all_steps(own: Tenure[Any], providers: dict[str, Provider]) -> list[Any]:
    """The booking: three steps that commit, and one whose outcome is not known."""
    with own.scope("booking"):
        done = [await own.effect(providers[name], {"order": 7}, key="7") for name in STEPS[:3]]
        return [*done, await own.effect(providers["ship"], {"order": 7}, key="7", patience=0)]


async def test_ef_05_a_restart_between_the_compensations_goes_on_and_undoes_nothing_twice(ledger: Ledger) -> None:
    """EF-05: the worker is lost in the middle of them, its call unanswered; the next one starts the handler again."""
    house, line, stuck = House(), Line(ledger), asyncio.Event()
    told: list[Compensation] = []

    class Cut(Till):
        """Undoes, but its worker's line is cut meanwhile: what came of it never gets onto the books."""

        async def compensate(self, request: Any, *, key: str, reference: str) -> Any:
            line.cut()
            stuck.set()
            return await super().compensate(request, key=key, reference=reference)

    def team_on(way: Ledger, till: Till) -> Team:
        team = Team(
            "shop", ledger=way, settings=SHORT_LEASE, providers=[Booking(house), till, Mail(house), Carrier(house)]
        )

        @team.agent
        async def clerk(own: Tenure[Any]) -> Complete[Any]:
            steps = await all_steps(own, team.providers)
            house.reachable = True
            told.append(await own.compensate("booking"))
            return Complete([type(step).__name__ for step in steps])

        return team

    one, two = team_on(line.ledger, Cut(house)), team_on(ledger, Till(house))
    async with one.worker(name="w1", drain=0, reconcile=False):
        handle = await two.submit(goal="book")
        await asyncio.wait_for(stuck.wait(), 5)
        async with two.worker(name="w2", reconcile=False):
            met = (await handle.result(20)).value
        line.mend()
    assert met == ["Done", "InDoubt", "Done", "Refused"], "what is undone, or being undone, is not made again"
    assert [(each.tool, each.state) for each in told[-1].effects] == [
        ("ship", "compensated"),
        ("notify", "confirmed"),
        ("charge", "compensated"),
        ("reserve", "compensated"),
    ]
    assert told[-1].state == "partially_compensated"
    assert set(house.in_force) == {"notify"}
    assert house.order == ["look ship", "look ship", "undo ship", "undo charge", "undo charge", "undo reserve"]
    keys = [key for name, key in house.undo_keys if name == "charge"]
    assert (len(keys), len(set(keys))) == (2, 1), "its second call met the first one's key"
    assert [name for name, _ in house.undo_keys].count("ship") == 1
