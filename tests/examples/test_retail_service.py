"""The retail service as a real process: what it promises to a caller whose calls are lost, repeated, late or cut."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import httpx2
import msgspec
import pytest

from examples.retail import rules
from examples.retail.client import (
    Applied,
    InFlight,
    Misuse,
    NotFound,
    NotSent,
    OutcomeUnknown,
    Refused,
    RetailClient,
    Sealed,
)
from examples.retail.expected import Call, compare, duplicates, expect, load_data, load_tickets
from examples.retail.rules import Changes
from examples.retail.service.__main__ import main
from examples.retail.service.launch import Running, StartError, launch

HERE = Path(rules.__file__).parent
DATA = HERE / "data.json"
BOOKS = load_data(DATA)
TICKETS = load_tickets(HERE / "tickets.jsonl")

CANCEL = "cancel_pending_order"
CANCEL_1001 = {"order_id": "order-1001", "reason": "no longer needed"}
CANCEL_1017 = {"order_id": "order-1017", "reason": "ordered by mistake"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service for the tests that do not kill it; `client` ends what faults the test before has set."""
    running = launch(DATA, tmp_path_factory.mktemp("retail") / "shop.db")
    yield running
    assert running.stop() == 0


@pytest.fixture
async def client(shared: Running) -> AsyncIterator[RetailClient]:
    async with RetailClient(shared.url) as found:
        await found.set_faults({})
        yield found


@pytest.fixture
async def ns(request: pytest.FixtureRequest, client: RetailClient) -> str:
    """A namespace of the test's own."""
    name = str(request.node.name).removeprefix("test_")[:64]
    await client.open_namespace(name)
    return name


class Own:
    """A service of one test's own that can be killed and started again on the same database."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "shop.db"
        self.running: Running | None = None

    def start(self, **faults: Any) -> RetailClient:
        self.running = launch(DATA, self.database, faults=faults)
        return RetailClient(self.running.url)

    def port(self) -> str:
        assert self.running is not None
        return self.running.url.rpartition(":")[2]

    def stop(self) -> int:
        assert self.running is not None
        running, self.running = self.running, None
        return running.stop()

    def kill(self) -> None:
        assert self.running is not None
        self.running.kill()
        self.running = None


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Own]:
    service = Own(tmp_path)
    yield service
    if service.running is not None:
        assert service.stop() == 0


async def open_in(client: RetailClient) -> RetailClient:
    await client.open_namespace("a")
    return client


async def until_state(client: RetailClient, ns: str, state: str) -> None:
    """Wait until the key `k1` is said to be in `state`."""

    async def found() -> bool:
        return (await client.lookup(ns, "k1")).state == state

    await until(found)


async def counted(client: RetailClient) -> Counter[str]:
    return Counter((await client.status())["counted"])


async def until(asked: Callable[[], Awaitable[object]]) -> None:
    for _ in range(500):
        if await asked():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never came true")


# Idempotency


async def test_a_repeat_gets_the_recorded_answer_and_changes_nothing(client: RetailClient, ns: str) -> None:
    first = await client.write(ns, CANCEL, CANCEL_1017, "k1")
    again = await client.write(ns, CANCEL, dict(reversed(CANCEL_1017.items())), "k1")
    assert isinstance(first, Applied)
    assert again == msgspec.structs.replace(first, repeated=True)
    assert [(row.key, row.operation) for row in await client.log(ns)] == [("k1", CANCEL)]
    # 40.00 and the 9.50 of the mug, once.
    assert (await client.changes(ns)).users["customer-09"]["payment_methods"]["gift-09"]["balance"] == 49.5


async def test_a_refusal_is_on_record_too(client: RetailClient, ns: str) -> None:
    wrong = {"order_id": "order-1004", "reason": "no longer needed"}
    first = await client.write(ns, CANCEL, wrong, "k1")
    assert isinstance(first, Refused)
    assert "'processed'" in first.reason
    assert await client.write(ns, CANCEL, wrong, "k1") == msgspec.structs.replace(first, repeated=True)
    known = await client.lookup(ns, "k1")
    assert (known.state, known.reference, known.reason) == ("refused", first.reference, first.reason)
    assert await client.log(ns) == []


async def test_a_key_stands_for_one_call(client: RetailClient, ns: str) -> None:
    await client.write(ns, CANCEL, CANCEL_1001, "k1")
    with pytest.raises(Misuse, match="another call"):
        await client.write(ns, CANCEL, CANCEL_1017, "k1")
    assert set((await client.changes(ns)).orders) == {"order-1001"}


async def test_another_key_for_the_same_call_is_another_application(client: RetailClient, ns: str) -> None:
    """What a caller without keys would do shows in the log: the count of duplicates can be other than zero."""
    home: dict[str, Any] = {
        **BOOKS.users["customer-07"]["address"],
        "address1": "1 New Street",
        "user_id": "customer-07",
    }
    for key in ("k1", "k2"):
        assert isinstance(await client.write(ns, "modify_user_address", home, key), Applied)
    digests = [row.digest for row in await client.log(ns)]
    assert len(set(digests)) == 1
    wanted = expect(BOOKS, [Call("modify_user_address", home)])
    assert duplicates(digests, wanted) == 1


async def test_invalid_requests_leave_nothing(client: RetailClient, shared: Running, ns: str) -> None:
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("drop_everything", {}, "k1"),
        (CANCEL, {"order_id": "order-1001"}, "k1"),
        (CANCEL, {**CANCEL_1001, "more": 1}, "k1"),
        (CANCEL, {"order_id": 7, "reason": "no longer needed"}, "k1"),
        (CANCEL, CANCEL_1001, "two words"),
        (CANCEL, CANCEL_1001, "x" * 201),
    ]
    for operation, arguments, key in calls:
        with pytest.raises(Misuse):
            await client.write(ns, operation, arguments, key)
    async with httpx2.AsyncClient(base_url=shared.url, trust_env=False) as plain:
        assert (await plain.post(f"/ns/{ns}/writes/{CANCEL}", json=CANCEL_1001)).status_code == 400
        no_json = await plain.post(f"/ns/{ns}/writes/{CANCEL}", content=b"{", headers={"Idempotency-Key": "k1"})
        assert no_json.status_code == 400
    assert (await client.lookup(ns, "k1")).state == "absent"
    assert await client.log(ns) == []
    with pytest.raises(NotFound, match="no namespace"):
        await client.write("never-opened", CANCEL, CANCEL_1001, "k1")


# Namespaces and reads


async def test_namespaces_do_not_see_each_other(client: RetailClient, ns: str) -> None:
    for name in (ns, ns + "-other", ns):  # opening twice changes nothing
        await client.open_namespace(name)
    await client.write(ns, CANCEL, CANCEL_1001, "k1")
    status = [
        (await client.read(name, "get_order_details", {"order_id": "order-1001"}))["status"]
        for name in (ns, ns + "-other")
    ]
    assert status == ["cancelled", "pending"]
    assert await client.changes(ns + "-other") == Changes({}, {})
    assert (await client.lookup(ns + "-other", "k1")).state == "absent"
    assert isinstance(await client.write(ns + "-other", CANCEL, CANCEL_1001, "k1"), Applied)


async def test_every_read(client: RetailClient, ns: str) -> None:
    user, product = BOOKS.users["customer-07"], BOOKS.products["product-mug"]
    name = {**user["name"], "zip": user["address"]["zip"]}
    reads: list[tuple[str, dict[str, str], Any]] = [
        ("find_user_id_by_email", {"email": "Customer-07@example.com"}, "customer-07"),
        ("find_user_id_by_name_zip", name, "customer-07"),
        ("get_user_details", {"user_id": "customer-07"}, user),
        ("get_order_details", {"order_id": "order-1001"}, BOOKS.orders["order-1001"]),
        ("get_product_details", {"product_id": "product-mug"}, product),
        ("get_item_details", {"item_id": "mug-red-l"}, product["variants"]["mug-red-l"]),
        ("list_all_product_types", {}, {record["name"]: key for key, record in BOOKS.products.items()}),
    ]
    for tool, arguments, wanted in reads:
        assert await client.read(ns, tool, arguments) == wanted
    for tool, missing in [
        ("get_order_details", {"order_id": "#1"}),
        ("get_item_details", {"item_id": "spoon"}),
        ("find_user_id_by_name_zip", {**name, "zip": "1"}),
        ("find_user_id_by_email", {"email": "nobody@example.com"}),
    ]:
        with pytest.raises(NotFound):
            await client.read(ns, tool, missing)
    with pytest.raises(Misuse):
        await client.read(ns, "get_user_details", {})


async def test_a_customer_is_found_at_the_address_moved_to(client: RetailClient, ns: str) -> None:
    home = {**BOOKS.users["customer-07"]["address"], "zip": "99999", "user_id": "customer-07"}
    await client.write(ns, "modify_user_address", home, "k1")
    name = {"first_name": "Customer", "last_name": "07"}
    assert await client.read(ns, "find_user_id_by_name_zip", {**name, "zip": "99999"}) == "customer-07"
    with pytest.raises(NotFound):
        await client.read(ns, "find_user_id_by_name_zip", {**name, "zip": "12207"})


# Faults, look-up and seal


async def test_a_lost_answer_is_found_by_look_up(client: RetailClient, ns: str) -> None:
    before = await counted(client)
    await client.set_faults({"lose": {"p": 1.0, "times": 1}})
    with pytest.raises(OutcomeUnknown):
        await client.write(ns, CANCEL, CANCEL_1001, "order#1001:cancel")
    known = await client.lookup(ns, "order#1001:cancel")
    again = await client.write(ns, CANCEL, CANCEL_1001, "order#1001:cancel")
    assert isinstance(again, Applied)
    assert again.repeated
    assert (known.state, known.reference, known.operation) == ("applied", again.reference, CANCEL)
    assert len(await client.log(ns)) == 1
    assert await counted(client) - before == {"fault.lose": 1, "repeats": 1}


async def test_a_late_write_lands_after_its_caller_has_gone(client: RetailClient, shared: Running, ns: str) -> None:
    await client.set_faults({"late": {"p": 1.0, "seconds": 0.5, "times": 1}})
    async with RetailClient(shared.url, timeout=0.2) as hasty:
        with pytest.raises(OutcomeUnknown):
            await hasty.write(ns, CANCEL, CANCEL_1001, "k1")
        assert (await client.lookup(ns, "k1")).state == "in_flight"
        assert await client.write(ns, CANCEL, CANCEL_1001, "k1") == InFlight()
        await until_state(client, ns, "applied")
        assert len(await client.log(ns)) == 1


async def test_a_seal_stops_a_write_that_is_on_its_way(client: RetailClient, ns: str) -> None:
    await client.set_faults({"late": {"p": 1.0, "seconds": 0.3, "times": 1}})
    call = asyncio.create_task(client.write(ns, CANCEL, CANCEL_1001, "k1"))
    await until_state(client, ns, "in_flight")
    sealed = await client.seal(ns, "k1")
    assert (sealed.state, sealed.sealed) == ("absent", True)
    assert await call == Sealed()
    assert await client.write(ns, CANCEL, CANCEL_1001, "k1") == Sealed()
    assert await client.seal(ns, "k1") == sealed == await client.lookup(ns, "k1")
    assert await client.log(ns) == []


async def test_a_seal_after_the_fact_says_what_was_done(client: RetailClient, ns: str) -> None:
    done = await client.write(ns, CANCEL, CANCEL_1001, "k1")
    assert isinstance(done, Applied)
    known = await client.seal(ns, "k1")
    assert (known.state, known.sealed, known.reference) == ("applied", True, done.reference)
    assert await client.write(ns, CANCEL, CANCEL_1001, "k1") == msgspec.structs.replace(done, repeated=True)


async def test_an_outage_does_nothing_and_is_not_called_not_sent(client: RetailClient, ns: str) -> None:
    before = await counted(client)
    await client.set_faults({"down_for": 0.4})
    with pytest.raises(OutcomeUnknown, match="503"):
        await client.write(ns, CANCEL, CANCEL_1001, "k1")
    order = await client.read(ns, "get_order_details", {"order_id": "order-1001"}, attempts=6)
    assert order["status"] == "pending"
    assert (await counted(client) - before)["fault.down"] >= 2


async def test_slow_and_refusing(client: RetailClient, ns: str) -> None:
    before = await counted(client)
    await client.set_faults({"slow": {"p": 1.0, "seconds": 0.2, "times": 1}, "refuse": {"p": 1.0}})
    start = time.monotonic()
    refused = await client.write(ns, CANCEL, CANCEL_1001, "k1")
    assert isinstance(refused, Refused)
    assert time.monotonic() - start >= 0.2
    assert "told to refuse" in refused.reason
    await client.set_faults({})
    assert isinstance(await client.write(ns, CANCEL, CANCEL_1001, "k1"), Refused)
    assert await counted(client) - before == {"fault.refuse": 1, "fault.slow": 1, "repeats": 1}


async def test_the_same_seed_draws_the_same_faults_in_any_order(client: RetailClient, ns: str) -> None:
    async def lost(order: list[int]) -> set[int]:
        await client.set_faults({"seed": 3, "lose": {"p": 0.5}})
        found = set()
        for number in order:
            try:
                await client.write(ns, "modify_pending_order_address", address, f"k{number}")
            except OutcomeUnknown:
                found.add(number)
        return found

    address = {**BOOKS.orders["order-1009"]["address"], "order_id": "order-1009"}
    once, again = await lost(list(range(12))), await lost(list(reversed(range(12))))
    assert once == again
    assert 0 < len(once) < 12


# Processes


async def test_killed_after_the_commit_it_knows_what_it_did(own: Own) -> None:
    async with await open_in(own.start(slow={"p": 1.0, "seconds": 30, "times": 1})) as client:
        call = asyncio.create_task(client.write("a", CANCEL, CANCEL_1001, "k1"))
        await until(lambda: client.log("a"))
        own.kill()
        with pytest.raises(OutcomeUnknown):
            await call
        with pytest.raises(NotSent):
            await client.lookup("a", "k1")
    async with own.start() as client:
        assert (await client.lookup("a", "k1")).state == "applied"
        again = await client.write("a", CANCEL, CANCEL_1001, "k1")
        assert isinstance(again, Applied)
        assert again.repeated
        assert len(await client.log()) == 1
        assert set((await client.changes("a")).orders) == {"order-1001"}


async def test_killed_before_it_acted_it_did_nothing(own: Own) -> None:
    async with await open_in(own.start(late={"p": 1.0, "seconds": 30})) as client:
        call = asyncio.create_task(client.write("a", CANCEL, CANCEL_1001, "k1"))
        await until_state(client, "a", "in_flight")
        own.kill()
        with pytest.raises(OutcomeUnknown):
            await call
    async with own.start() as client:
        assert (await client.lookup("a", "k1")).state == "absent"
        first = await client.write("a", CANCEL, CANCEL_1001, "k1")
        assert isinstance(first, Applied)
        assert not first.repeated


async def test_told_to_stop_it_does_not_wait_for_its_own_delays(own: Own) -> None:
    async with await open_in(own.start(late={"p": 1.0, "seconds": 30})) as client:
        call = asyncio.create_task(client.write("a", CANCEL, CANCEL_1001, "k1"))
        await until_state(client, "a", "in_flight")
        start = time.monotonic()
        assert await asyncio.to_thread(own.stop) == 0
        assert time.monotonic() - start < 3
        with pytest.raises(OutcomeUnknown, match="503"):
            await call
    async with own.start() as client:
        assert (await client.lookup("a", "k1")).state == "absent"


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    """The parent is killed: nobody is left who could tell it to stop."""
    code = (
        "import sys, time; from pathlib import Path; from examples.retail.service.launch import launch\n"
        "running = launch(Path(sys.argv[1]), Path(sys.argv[2])); print(running.process.pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(DATA), str(tmp_path / "shop.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parents[1]) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.send_signal(signal.SIGKILL)
    # The database is free only when its holder has ended.
    limit = time.monotonic() + 5
    while (running := try_launch(tmp_path / "shop.db")) is None:
        assert time.monotonic() < limit
    assert running.stop() == 0


def try_launch(database: Path) -> Running | None:
    try:
        return launch(DATA, database)
    except StartError:
        return None


def test_what_it_cannot_start_with(tmp_path: Path, own: Own, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(data: Path, database: Path, *more: str) -> str:
        assert main(["--data", str(data), "--database", str(database), *more]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        return said.err

    own.start()
    new, text, foreign = (tmp_path / name for name in ("new.db", "text.db", "foreign.db"))
    text.write_text("not a database, however long one looks at it. " * 40)
    with contextlib.closing(apsw.Connection(str(foreign))) as connection:
        connection.execute("CREATE TABLE accounts (id)")
    assert "held by another process" in refused(DATA, own.database)
    assert "cannot be used" in refused(DATA, text)
    assert "another program" in refused(DATA, foreign)
    assert "No such file" in refused(tmp_path / "none.json", new)
    assert "unknown field" in refused(DATA, new, "--faults", '{"explode": 1}')
    assert "in use" in refused(DATA, new, "--port", own.port())
    own.kill()
    other = tmp_path / "other.json"
    other.write_text('{"products": {}, "users": {}, "orders": {}}')
    assert "other data" in refused(other, own.database)


# The tickets of the example


async def test_the_service_ends_in_the_expected_state(client: RetailClient, ns: str) -> None:
    for ticket in TICKETS:
        copy = f"{ns[:50]}-{ticket.ticket}"
        await client.open_namespace(copy)
        for number, call in enumerate(ticket.writes):
            await client.write(copy, call.tool, call.arguments, f"k{number}")
        wanted, found = expect(BOOKS, ticket.writes), await client.changes(copy)
        assert compare(found, wanted.changes) == []
        assert duplicates([row.digest for row in await client.log(copy)], wanted) == 0
