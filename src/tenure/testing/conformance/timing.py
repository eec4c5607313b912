"""Rules of time: deadlines are an index that readers compare with their clock, and leases are not events."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import Fenced, Refused
from tenure.ledger import Beat, Instance, Ledger
from tenure.protocol import commands as cmd
from tenure.protocol.settings import Settings
from tenure.protocol.vocabulary import OfferKind, Phase
from tenure.testing.conformance.base import Rules, VirtualClock
from tenure.testing.conformance.driver import Driver, body


def instance(instance_id: str, name: str = "worker", lease_ms: int = 1_000) -> Instance:
    """A process on some host."""
    return Instance(
        instance_id=instance_id, name=name, host="host-1", boot="boot-1", pid=7, started=8, lease_ms=lease_ms
    )


class TimingRules(Rules):
    """Leases, deadlines, names."""

    async def test_a_deadline_shows_when_it_has_passed(
        self, driver: Driver, ledger: Ledger, clock: VirtualClock
    ) -> None:
        await driver.submit(settings=Settings(pickup_ms=1_000))
        clock.now += 999
        assert await ledger.overdue() == []
        with pytest.raises(Refused) as caught:
            await driver.do(cmd.Expire)
        assert caught.value.code == "not_due"
        clock.now += 51
        assert await ledger.overdue() == ["t"]
        assert await asyncio.to_thread(ledger.overdue_blocking) == ["t"]
        row = await ledger.row("t")
        assert row is not None
        assert row.overdue_ms == 50
        await driver.do(cmd.Expire)
        assert await ledger.overdue() == []

    async def test_the_longest_overdue_comes_first(self, ledger: Ledger, clock: VirtualClock) -> None:
        for name, pickup_ms in (("t1", 300), ("t2", 100), ("t3", 200), ("t4", 10_000)):
            await Driver(ledger, name).submit(settings=Settings(pickup_ms=pickup_ms))
        clock.now += 1_000
        assert await ledger.overdue() == ["t2", "t3", "t1"]
        assert await ledger.overdue(limit=1) == ["t2"]

    async def test_a_lease_begins_with_its_tenure_and_moves_by_heartbeats(
        self, driver: Driver, ledger: Ledger, clock: VirtualClock
    ) -> None:
        async def lease() -> int:
            row = await ledger.row("t")
            assert row is not None
            return row.lease_until

        await driver.submit("a", settings=Settings(lease_ms=1_000))
        assert await lease() == 0
        await driver.acknowledge("a", "w1")
        granted = clock.now + 1_000
        assert await lease() == granted
        clock.now += 600
        await driver.work("x")
        assert await lease() == granted
        beat = Beat(task_id="t", epoch=(await driver.task()).epoch, instance="w1")
        await asyncio.to_thread(ledger.heartbeat, [beat])
        assert await lease() == clock.now + 1_000
        clock.now += 999
        assert await ledger.overdue() == []
        clock.now += 1
        assert await ledger.overdue() == ["t"]
        await asyncio.to_thread(ledger.heartbeat, [beat])
        assert await ledger.overdue() == []
        with pytest.raises(Refused) as caught:
            await driver.do(cmd.Expire)
        assert caught.value.code == "not_due"
        clock.now += 1_000
        await driver.do(cmd.Expire)
        assert (await driver.task()).phase is Phase.OFFERED
        assert await lease() == 0

    async def test_an_ended_task_has_no_deadline(self, driver: Driver, ledger: Ledger, clock: VirtualClock) -> None:
        await driver.owned()
        await driver.complete()
        clock.now += 10**12
        assert await ledger.overdue() == []
        row = await ledger.row("t")
        assert row is not None
        assert (row.overdue_ms, row.lease_until) == (0, 0)

    async def test_time_does_not_run_backwards_within_a_task(
        self, driver: Driver, ledger: Ledger, clock: VirtualClock
    ) -> None:
        await driver.submit()
        clock.now -= 5_000
        await driver.do(cmd.Send, message=body("hello"))
        assert [record.event.at for record in await ledger.events()] == [clock.now + 5_000] * 3
        assert await asyncio.to_thread(ledger.now_blocking) == clock.now

    async def test_offers_are_for_those_who_are_asked(
        self, driver: Driver, ledger: Ledger, clock: VirtualClock
    ) -> None:
        await driver.submit("a", "b", settings=Settings(pickup_ms=1_000))
        (offer,) = await ledger.offers(["a", "b", "a"])
        task = await driver.task()
        assert task.offer is not None
        assert (offer.agent, offer.task_id, offer.root_id, offer.kind) == ("a", "t", "t", OfferKind.START)
        assert (offer.epoch, offer.payload) == (task.epoch, task.offer.payload)
        assert (offer.issued_at, offer.deadline) == (clock.now, clock.now + 1_000)
        assert await ledger.offers(["b"]) == await ledger.offers([]) == []
        clock.now += 1_000
        assert await ledger.offers(["a"]) == []
        await driver.do(cmd.Expire)
        (again,) = await ledger.offers(["a", "b"])
        assert (again.agent, again.epoch) == ("b", task.epoch + 1)
        await driver.do(cmd.Claim, epoch=again.epoch, agent="b", instance="w1")
        assert await ledger.offers(["a", "b"]) == []

    async def test_a_claim_offer_is_for_all_candidates(self, driver: Driver, ledger: Ledger) -> None:
        await driver.submit("a", "b", "a", broadcast=True)
        offers = await ledger.offers(["b", "a", "c"])
        assert [(offer.agent, offer.kind) for offer in offers] == [("a", OfferKind.CLAIM), ("b", OfferKind.CLAIM)]
        await driver.acknowledge("b", "w1")
        assert await ledger.offers(["a", "b"]) == []

    async def test_the_oldest_offer_comes_first(self, ledger: Ledger) -> None:
        for n in range(6):
            await Driver(ledger, f"t{n}").submit("ab"[n % 2])
        offers = await ledger.offers(["a", "b"])
        assert [offer.task_id for offer in offers] == [f"t{n}" for n in range(6)]
        assert await ledger.offers(["a", "b"], limit=4) == offers[:4]

    async def test_an_offer_that_is_withdrawn_is_gone(self, driver: Driver, ledger: Ledger) -> None:
        await driver.submit("a")
        await driver.do(cmd.RequestCancel, by="customer-07")
        assert await ledger.offers(["a"]) == []

    async def test_a_name_is_taken_until_its_instance_ends_or_falls_silent(
        self, ledger: Ledger, clock: VirtualClock
    ) -> None:
        def register(new: Instance) -> str:
            try:
                ledger.register(new)
            except Refused as error:
                return error.code
            return "registered"

        async def attempt(new: Instance) -> str:
            return await asyncio.to_thread(register, new)

        assert await attempt(instance("i1")) == "registered"
        assert await attempt(instance("i1")) == "registered"
        assert await attempt(instance("i2")) == "worker_name_taken"
        assert await attempt(instance("i3", "another")) == "registered"
        clock.now += 1_000
        assert await attempt(instance("i2")) == "worker_name_taken"
        await asyncio.to_thread(ledger.heartbeat, [], "i1")
        clock.now += 1_000
        assert await attempt(instance("i2")) == "worker_name_taken"
        clock.now += 1
        assert await attempt(instance("i2")) == "registered"
        await asyncio.to_thread(ledger.retire_instance, "i2")
        assert await attempt(instance("i4")) == "registered"
        listed = [(one.instance_id, one.ended_at > 0) for one in await ledger.instances()]
        assert listed == [("i4", False), ("i2", True), ("i3", False), ("i1", False)]
        assert [one.instance_id for one in await ledger.instances(open_only=True)] == ["i4", "i3", "i1"]

    async def test_an_ended_instance_picks_nothing_up(self, driver: Driver, ledger: Ledger) -> None:
        await asyncio.to_thread(ledger.register, instance("i1"))
        await driver.submit("a")
        await driver.do(cmd.Claim, epoch=1, agent="a", instance="i1")
        await asyncio.to_thread(ledger.retire_instance, "i1")
        with pytest.raises(Fenced) as caught:
            await driver.acknowledge("a", "i1")
        assert caught.value.code == "stale_epoch"
        with pytest.raises(Fenced):
            await driver.do(cmd.Claim, epoch=1, agent="a", instance="i1")
        assert (await driver.task()).tenure is None
        (left,) = await ledger.instances(open_only=True)
        assert (left.instance_id, left.ended_at > 0) == ("i1", True), "it has ended and still holds the pick-up"

    async def test_an_ended_instance_stays_ended(self, ledger: Ledger, clock: VirtualClock) -> None:
        await asyncio.to_thread(ledger.register, instance("i1"))
        await asyncio.to_thread(ledger.retire_instance, "i1")
        ended = clock.now
        clock.now += 5
        await asyncio.to_thread(ledger.heartbeat, [], "i1")
        await asyncio.to_thread(ledger.retire_instance, "i1")
        await asyncio.to_thread(ledger.retire_instance, "never")
        await asyncio.to_thread(ledger.heartbeat, [], "never")
        (found,) = await ledger.instances()
        assert (found.ended_at, found.seen_at) == (ended, ended)
        assert (found.name, found.host, found.boot, found.pid, found.started) == ("worker", "host-1", "boot-1", 7, 8)
