"""The change and the record of its key in one transaction, on a real SQLite and a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenure import Complete, Confirmed, Declined, Done, Inconclusive, NotFound, NotSent, Sealed, Team, Tenure
from tenure.errors import Refused
from tenure.ledger import open_ledger
from tenure.protocol import events as ev
from tenure.protocol.vocabulary import EffectState, EvidenceKind
from tenure.runtime.provider import can
from tests.providers.shops import PostgresShop, Shop, SqliteShop
from tests.runtime.harness import events

FIVE = {"cents": 5}
KEYS = "SELECT key, purpose FROM tenure_keys"


@pytest.fixture(params=["sqlite", "sqlite-wal", "postgres"])
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    """A database of each kind."""
    if request.param == "postgres":
        return PostgresShop(request.getfixturevalue("postgres"))
    return SqliteShop(tmp_path / "shop.db", wal=request.param == "sqlite-wal")


@pytest.fixture
async def shop(bare: Shop) -> AsyncIterator[Shop]:
    """A database with an empty table of orders."""
    await bare.make()
    yield bare
    bare.gate.open.set()


async def test_a_change_is_made_once_and_a_repeated_key_is_answered_from_the_table(shop: Shop) -> None:
    provider = shop.provider()
    first = await provider.apply(FIVE, key="k")
    assert first == await provider.apply(FIVE, key="k") == Confirmed({"ordered": 5})
    assert (shop.calls, await shop.orders()) == (1, [5])


async def test_another_key_is_another_change(shop: Shop) -> None:
    provider = shop.provider()
    await provider.apply(FIVE, key="a")
    await provider.apply(FIVE, key="b")
    assert await shop.orders() == [5, 5]


async def test_another_provider_of_the_same_table_knows_the_key(shop: Shop) -> None:
    await shop.provider().apply(FIVE, key="k")
    assert await shop.provider().apply(FIVE, key="k") == Confirmed({"ordered": 5})
    assert await shop.orders() == [5]


async def test_another_request_under_the_same_key_is_inconclusive_and_does_nothing(shop: Shop) -> None:
    provider = shop.provider()
    await provider.apply(FIVE, key="k")
    for answer in (
        await provider.apply({"cents": 6}, key="k"),
        await provider.lookup({"cents": 6}, key="k"),
        await provider.seal({"cents": 6}, key="k"),
    ):
        assert isinstance(answer, Inconclusive)
    assert await shop.orders() == [5]


async def test_what_the_change_declines_is_rolled_back_and_leaves_the_key_free(shop: Shop) -> None:
    provider = shop.provider()
    dear = {"cents": 2000}
    assert await provider.apply(dear, key="k") == Declined("above the limit")
    assert await shop.orders() == []
    assert await provider.lookup(dear, key="k") == NotFound()


async def test_a_repeat_is_declined_only_once_no_earlier_request_can_land(shop: Shop) -> None:
    provider = shop.provider()
    dear = {"cents": 2000}
    assert await provider.apply(dear, key="k", repeat=True) == Declined("above the limit")
    assert await provider.lookup(dear, key="k") == Sealed(), "the one before it will find the key taken"
    assert await shop.orders() == []


async def test_a_change_that_raises_is_rolled_back(shop: Shop) -> None:
    provider = shop.provider()
    wrong = {"cents": 5, "statement": "INSERT INTO nothing_of_the_kind VALUES (1)"}
    with pytest.raises(Exception, match="nothing_of_the_kind"):
        await provider.apply(wrong, key="k")
    assert await shop.orders() == []
    assert await provider.lookup(wrong, key="k") == NotFound()


async def test_a_change_that_commits_by_itself_is_found_out(shop: Shop) -> None:
    with pytest.raises(RuntimeError, match="ended the transaction"):
        await shop.provider().apply({"cents": 5, "statement": "COMMIT"}, key="k")


async def test_what_a_change_committed_half_way_is_never_confirmed(shop: Shop) -> None:
    provider = shop.provider()
    half = {"cents": 5, "statement": "COMMIT"}
    with pytest.raises(RuntimeError, match="ended the transaction"):
        await provider.apply(half, key="k")
    answers = [await ask(half, key="k") for ask in (provider.lookup, provider.seal, provider.apply)]
    assert [type(each) for each in answers] == [Inconclusive] * 3
    assert (shop.calls, await shop.orders()) == (1, [5])


async def test_a_change_that_removes_the_row_of_its_key_is_not_confirmed(shop: Shop) -> None:
    with pytest.raises(RuntimeError, match="took back"):
        await shop.provider().apply({"cents": 5, "statement": "DELETE FROM tenure_keys"}, key="k")
    assert await shop.orders() == []


async def test_a_look_up_before_everything_finds_nothing_and_makes_no_table(shop: Shop) -> None:
    assert await shop.provider().lookup(FIVE, key="k") == NotFound()
    with pytest.raises(Exception, match="tenure_keys"):
        await shop.execute(KEYS)


async def test_a_look_up_says_what_was_committed(shop: Shop) -> None:
    provider = shop.provider()
    await provider.apply(FIVE, key="k")
    assert await provider.lookup(FIVE, key="k") == Confirmed({"ordered": 5})


async def test_a_seal_keeps_a_late_call_out_and_a_look_up_finds_it(shop: Shop) -> None:
    provider = shop.provider()
    assert await provider.seal(FIVE, key="k") == Sealed()
    assert await provider.apply(FIVE, key="k") == Sealed()
    assert await provider.lookup(FIVE, key="k") == Sealed()
    assert await provider.seal(FIVE, key="k") == Sealed()
    assert (shop.calls, await shop.orders()) == (0, [])


async def test_the_database_itself_keeps_a_sealed_key_from_being_written(shop: Shop) -> None:
    await shop.provider().seal(FIVE, key="k")
    with pytest.raises(Exception, match=r"(?i)unique"):
        await shop.execute("INSERT INTO tenure_keys VALUES ('k', 'apply', '', 'null')")


async def test_a_seal_that_comes_too_late_says_what_had_landed(shop: Shop) -> None:
    provider = shop.provider()
    await provider.apply(FIVE, key="k")
    assert await provider.seal(FIVE, key="k") == Confirmed({"ordered": 5})


async def test_two_calls_of_one_key_at_once_make_one_change(shop: Shop) -> None:
    provider = shop.provider()
    answers = await asyncio.gather(*(provider.apply(FIVE, key="k") for _ in range(6)))
    assert answers == [Confirmed({"ordered": 5})] * 6
    assert (shop.calls, await shop.orders()) == (1, [5])


@pytest.mark.parametrize("turn", range(5))
async def test_of_a_call_and_a_seal_at_once_exactly_one_wins(shop: Shop, turn: int) -> None:
    provider = shop.provider()
    calls = [provider.apply(FIVE, key="k"), provider.seal(FIVE, key="k")]
    answers = set(map(str, await asyncio.gather(*(calls if turn % 2 else reversed(calls)))))
    assert len(answers) == 1, "both say the same"
    assert answers == {str(Confirmed({"ordered": 5}) if await shop.orders() else Sealed())}


async def test_a_look_up_beside_an_open_transaction_is_not_final(shop: Shop) -> None:
    provider = shop.provider()
    await provider.seal(FIVE, key="another")  # the key table is there
    shop.gate.open.clear()
    applying = asyncio.create_task(provider.apply(FIVE, key="k"))
    await shop.gate.held()
    assert await provider.lookup(FIVE, key="k") == NotFound(final=False)
    shop.gate.open.set()
    assert await applying == Confirmed({"ordered": 5})


async def test_a_seal_beside_an_open_transaction_waits_for_its_end(shop: Shop) -> None:
    provider = shop.provider()
    shop.gate.open.clear()
    applying = asyncio.create_task(provider.apply(FIVE, key="k"))
    await shop.gate.held()
    sealing = asyncio.create_task(provider.seal(FIVE, key="k"))
    done, _ = await asyncio.wait([sealing], timeout=0.1)
    assert not done
    shop.gate.open.set()
    assert await applying == await sealing == Confirmed({"ordered": 5})


async def test_a_seal_that_waited_in_vain_raises_and_proves_nothing(shop: Shop) -> None:
    provider, hasty = shop.provider(), shop.provider(patience=0.1)
    shop.gate.open.clear()
    applying = asyncio.create_task(provider.apply(FIVE, key="k"))
    await shop.gate.held()
    with pytest.raises(Exception, match="lock"):
        await hasty.seal(FIVE, key="k")
    with pytest.raises(NotSent):
        await hasty.apply(FIVE, key="k")
    shop.gate.open.set()
    assert await applying == Confirmed({"ordered": 5})


async def test_an_undoing_has_a_row_of_its_own_and_is_done_once(shop: Shop) -> None:
    provider = shop.provider(undoes=True)
    await provider.apply(FIVE, key="k")
    assert provider.compensate is not None
    assert provider.lookup_compensation is not None
    assert await provider.lookup_compensation(FIVE, key="undo") == NotFound()
    assert await provider.compensate(FIVE, key="undo") == Confirmed({"removed": 1})
    assert await provider.compensate(FIVE, key="undo") == Confirmed({"removed": 1})
    assert await provider.lookup_compensation(FIVE, key="undo") == Confirmed({"removed": 1})
    assert await provider.lookup(FIVE, key="k") == Confirmed({"ordered": 5}), "it did happen"
    assert await provider.compensate(FIVE, key="undo-2") == Declined("no such order")
    assert await shop.orders() == []


async def test_a_row_of_an_undoing_is_none_of_a_change(shop: Shop) -> None:
    provider = shop.provider(undoes=True)
    await provider.apply(FIVE, key="k")
    assert provider.lookup_compensation is not None
    assert isinstance(await provider.lookup_compensation(FIVE, key="k"), Inconclusive)


async def test_without_an_undoing_that_capability_is_absent(shop: Shop) -> None:
    plain, undoing = shop.provider(), shop.provider(undoes=True, kept_for=60)
    found = [[can(each, name) for name in ("compensate", "lookup_compensation")] for each in (plain, undoing)]
    assert found == [[False, False], [True, True]]
    assert can(plain, "seal")
    assert not can(plain, "cancel")
    assert (plain.undo_idempotent_for, undoing.undo_idempotent_for, undoing.idempotent_for) == (0, 60, 60)
    assert plain.idempotent_for > 300_000_000


async def test_the_table_and_so_the_scope_can_be_named(shop: Shop) -> None:
    plain, named = shop.provider(), shop.provider(table="orders_keys")
    assert named.key_scope == plain.key_scope.replace("tenure_keys", "orders_keys") != plain.key_scope
    await named.apply(FIVE, key="k")
    assert await shop.provider(table="Orders_KEYS").lookup(FIVE, key="k") == Confirmed({"ordered": 5}), "one table"
    await shop.execute("DELETE FROM orders_keys")
    assert await named.lookup(FIVE, key="k") == NotFound()
    with pytest.raises(Refused, match="no plain name"):
        shop.provider(table="keys; DROP TABLE orders")


async def test_an_answer_without_a_json_form_is_not_committed(shop: Shop) -> None:
    shop.answers[5] = object()
    with pytest.raises(Refused, match="JSON"):
        await shop.provider().apply(FIVE, key="k")
    assert await shop.orders() == []


async def test_an_answer_lost_after_the_commit_is_found_by_a_task_and_nothing_is_done_twice(shop: Shop) -> None:
    provider = shop.provider()
    committing = provider.apply

    async def losing(request: Any, *, key: str, repeat: bool = False) -> Any:
        await committing(request, key=key)
        raise TimeoutError("the answer was lost")

    provider.apply = losing  # type: ignore[method-assign]
    ledger = await asyncio.to_thread(open_ledger, "memory://")
    team = Team("shop", ledger=ledger)
    found: list[Any] = []

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        found.append(await own.effect(provider, FIVE, key="order-1"))
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="Order")
        assert (await handle.result(20)).outcome == "completed"
    (done,) = found
    assert isinstance(done, Done)
    assert (done.value, shop.calls, await shop.orders()) == ({"ordered": 5}, 1, [5])
    observed = [(each.state, each.evidence) for each in await events(ledger, handle.task_id, ev.EffectObserved)]
    assert observed == [(EffectState.IN_DOUBT, EvidenceKind.NONE), (EffectState.CONFIRMED, EvidenceKind.LOOKUP)]
    await ledger.close()
