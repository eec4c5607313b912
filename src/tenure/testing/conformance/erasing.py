"""Rules of erasure: content goes, the chain verifies, and gone by erasure is not missing."""

from __future__ import annotations

import pytest

from tenure.errors import Refused
from tenure.ledger import Ledger
from tenure.ledger.bodies import bodies_in
from tenure.protocol import commands as cmd
from tenure.testing.conformance.base import Rules
from tenure.testing.conformance.driver import Driver, body, payload


class ErasureRules(Rules):
    """Personal data can be taken out of a finished task."""

    async def test_only_an_ended_task_is_erased(self, driver: Driver, ledger: Ledger) -> None:
        with pytest.raises(Refused) as caught:
            await ledger.erase("t", by="person:operator")
        assert caught.value.code == "unknown_task"
        await driver.submit()
        with pytest.raises(Refused) as caught:
            await ledger.erase("t", by="person:operator")
        assert caught.value.code == "wrong_phase"
        assert await ledger.body("t", payload("t").digest) is not None

    async def test_every_body_of_a_task_goes_and_the_chain_verifies(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        await driver.do(cmd.Send, message=body("my name is secret"))
        await driver.intend("e1")
        await driver.transfer("b")
        await driver.acknowledge("b", "w2")
        await driver.complete()
        before = await ledger.events()
        digests = {digest for record in before for digest in bodies_in(record.event)}
        assert len(digests) == 5
        assert await ledger.erase("t", by="person:operator", reason="asked by customer-07") == 5
        assert [await ledger.body("t", digest) for digest in sorted(digests)] == [None] * 5
        (message,) = await ledger.messages("t")
        assert (message.body, message.digest) == (None, body("my name is secret").digest)
        assert await ledger.events() == before
        found = await ledger.verify()
        assert (found.chain, found.replay, found.erased, found.missing) == ("verified", "equal", 5, 0)
        (note,) = await ledger.refusals(task_id="t")
        assert (note.command, note.code, note.instance) == ("erase", "erased", "person:operator")
        assert note.detail == "5 bodies. asked by customer-07"
        assert await ledger.erase("t", by="person:operator") == 0

    async def test_what_an_unfinished_task_refers_to_stays(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        await driver.delegate("t.1")
        await driver.acknowledge("c", "w2", "t.1")
        await driver.complete("t.1", result="found")
        result = (await driver.task("t.1")).result
        assert await ledger.erase("t.1", by="person:operator") == 1
        assert await ledger.body("t", result) == body("found")
        await driver.own(cmd.Advance, collected=("t.1",))
        await driver.complete()
        assert await ledger.erase("t.1", by="person:operator") == 1
        assert await ledger.body("t", result) is None
        assert await ledger.body("t", payload("t").digest) is not None

    async def test_content_that_is_given_again_is_there_again(self, driver: Driver, ledger: Ledger) -> None:
        await driver.owned()
        await driver.delegate("t.1")
        await driver.acknowledge("c", "w2", "t.1")
        await driver.complete("t.1", result="found")
        await driver.own(cmd.Advance, collected=("t.1",))
        await driver.delegate("t.2")
        await driver.acknowledge("c", "w2", "t.2")
        erased = (await driver.task("t.1")).payload
        await ledger.erase("t.1", by="person:operator")
        assert await ledger.body("t", erased) is None
        await driver.do(cmd.Send, message=payload("t.1"))
        assert await ledger.body("t", erased) == payload("t.1")
