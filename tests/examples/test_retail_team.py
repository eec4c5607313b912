"""The retail team on its own tickets: in this process, and by worker processes that are killed and stopped."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from examples.retail import rules, tau2, trial
from examples.retail import team as retail_team
from examples.retail.chaos import Plan
from examples.retail.client import OutcomeUnknown, RetailClient
from examples.retail.expected import compare, expect, load_data, load_tickets
from examples.retail.fleet import Fleet, FleetError
from examples.retail.judge import AtService, InLedger, Story, Work, measure_ledger, measure_service, problems
from examples.retail.provider import Retail, Write
from examples.retail.service.launch import Running, launch
from examples.retail.team import SHOP, Case, books_beside, retail, task_of, team
from tenure import Confirmed, Declined, Inconclusive, NotFound, NotSent, Sealed
from tenure.ledger import Verification
from tenure.protocol.vocabulary import Phase
from tenure.runtime.handle import ENDED, TaskHandle

HERE = Path(rules.__file__).parent
DATA = HERE / "data.json"
LINES = [json.loads(line) for line in (HERE / "tickets.jsonl").read_text().splitlines()]
TICKETS = load_tickets(HERE / "tickets.jsonl")
WORK = Work(load_data(DATA), {SHOP: TICKETS})
RESTING = ENDED | {Phase.ESCALATED}


@pytest.fixture(autouse=True)
def no_service_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RETAIL_URL", "RETAIL_TIMEOUT", "RETAIL_LEASE"):
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def working(url: str) -> AsyncIterator[None]:
    """A worker of the team on this ledger."""
    team.use_ledger(url)
    try:
        async with team.worker():
            yield
    finally:
        await team.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Running]:
    running = launch(DATA, tmp_path / "shop.db")
    yield running
    running.stop()


def line(ticket: str) -> dict[str, Any]:
    return next(each for each in LINES if each["ticket"] == ticket)


async def submit(ticket: str) -> TaskHandle:
    return await team.submit(**task_of(line(ticket)))


async def run_all() -> list[str]:
    """Submit every ticket and wait until each is at rest; gives the phases in order."""
    tasks = [await team.submit(**task_of(each)) for each in LINES]
    return [str((await task.reached(RESTING, 20)).phase) for task in tasks]


# The tickets


def test_a_line_becomes_a_task() -> None:
    arguments = task_of(line("R01"))
    assert set(arguments) == {"data", "goal", "task_id", "conversation"}
    assert arguments["task_id"] == "R01"
    assert arguments["goal"] == line("R01")["request"]
    assert arguments["conversation"] == "conversation-01-01"
    case = arguments["data"]
    assert isinstance(case, Case)
    assert (case.ticket, case.ns, case.at) == ("R01", SHOP, 0)
    assert [call.tool for call in case.decisions] == [call["tool"] for call in line("R01")["decisions"]]


def test_a_line_that_is_no_ticket_is_refused_with_its_reason() -> None:
    with pytest.raises(msgspec.ValidationError, match="request"):
        task_of({"ticket": "R99"})


def test_the_shops_books_stand_beside_the_ledger() -> None:
    assert books_beside("sqlite:////data/own.db", Path("/tmp")) == Path("/data/own.retail.db")
    assert books_beside("sqlite:///tenure.db", Path("/tmp")) == Path("tenure.retail.db")
    assert books_beside("memory://", Path("/tmp/x")) == Path("/tmp/x/retail.db")


async def test_all_tickets_on_sqlite_and_once_more_on_the_same_ledger(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tenure.db'}"
    async with working(url):
        phases = await run_all()
        assert phases.count("completed") == 18
        assert [ticket.ticket for ticket, phase in zip(TICKETS, phases, strict=True) if phase == "escalated"] == [
            "R12",
            "R18",
        ]
        service = await measure_service(retail.client, WORK, tmp_path / "dump")
        claimed = await measure_ledger(team.ledger, WORK)
    assert problems(WORK, service, claimed) == []
    assert claimed.effects == {"confirmed": 21, "refused": 1}
    assert claimed.residual + claimed.running == 0
    assert claimed.story.handoffs == sum(1 for _ in TICKETS if _.writes) + 4, "four tickets need two specialists"
    assert (tmp_path / "tenure.retail.db").is_file()

    async with working(url):
        assert await run_all() == phases
        again = await measure_service(retail.client, WORK)
        assert (await measure_ledger(team.ledger, WORK)).verified.events == claimed.verified.events
    assert again.writes_applied == service.writes_applied, "a second run changes nothing"

    dumped = json.loads((tmp_path / "dump" / "R01.json").read_text())
    assert set(dumped) == {"orders", "users"}
    assert dumped["orders"]["order-1001"]["status"] == "cancelled"
    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == [f"{one.ticket}.json" for one in TICKETS]


async def test_a_ticket_that_a_person_has_answered_goes_on() -> None:
    async with working("memory://"):
        task = await submit("R12")
        asked = await task.reached(RESTING, 10)
        assert asked.question is not None
        await task.answer(asked.question.question_id, by="person:operator", words="called the carrier")
        result = await task.result(10)
    assert result.outcome == "completed"


async def test_an_outage_makes_a_ticket_wait_and_not_fail(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIL_URL", shop.url)
    monkeypatch.setattr(retail_team, "READ_ATTEMPTS", 1)
    monkeypatch.setattr(retail_team, "LATER", 0.2)
    async with working("memory://"):
        await retail.client.set_faults({"down_for": 60})
        task = await submit("R01")
        await task.reached({Phase.WAITING}, 10)
        await retail.client.set_faults({})
        assert (await task.result(10)).outcome == "completed"


async def test_a_write_in_doubt_is_come_back_to_and_made_once(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIL_URL", shop.url)
    monkeypatch.setenv("RETAIL_TIMEOUT", "0.2")
    monkeypatch.setattr(retail_team, "PATIENCE", 0.3)
    monkeypatch.setattr(retail_team, "LATER", 0.2)
    async with working("memory://"):
        await retail.client.set_faults({"late": {"p": 1.0, "seconds": 2.0, "times": 1}})
        task = await submit("R01")
        await task.reached({Phase.WAITING}, 10)
        assert (await task.facts()).effects.by_state == {"in_doubt": 1}
        result = await task.result(10)
        log = await retail.client.log(SHOP)
    assert result.outcome == "completed"
    assert result.value["doubts"] == 0
    assert len(log) == 1


async def test_a_write_that_nothing_settles_ends_with_a_person(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIL_URL", shop.url)
    monkeypatch.setenv("RETAIL_TIMEOUT", "0.1")
    for name, value in (("PATIENCE", 0.1), ("LATER", 0.1), ("DOUBTS_BEFORE_A_PERSON", 2)):
        monkeypatch.setattr(retail_team, name, value)
    async with working("memory://"):
        await retail.client.set_faults({"late": {"p": 1.0, "seconds": 30}})
        task = await submit("R01")
        asked = await task.reached({Phase.ESCALATED}, 10)
        facts = await task.facts()
    assert asked.question is not None
    assert facts.effects.by_state == {"in_doubt": 1}, "asked, and still not settled"


# The provider: which answer is which evidence

CANCEL = Write("a", "cancel_pending_order", {"order_id": "order-1001", "reason": "no longer needed"})
LATE_CANCEL = Write("a", "cancel_pending_order", {"order_id": "order-1002", "reason": "no longer needed"})


@pytest.fixture
async def provider(shop: Running) -> AsyncIterator[Retail]:
    async with RetailClient(shop.url, timeout=0.5) as client:
        await client.open_namespace("a")
        found = Retail()
        found.connect(client)
        yield found


def plain(write: Write) -> Any:
    return msgspec.to_builtins(write)


async def test_applied_and_refused_are_evidence_of_response_and_of_lookup(provider: Retail) -> None:
    first = await provider.apply(plain(CANCEL), key="k1")
    assert isinstance(first, Confirmed)
    assert first.value["status"] == "cancelled"
    assert await provider.apply(plain(CANCEL), key="k1") == first
    assert await provider.lookup(plain(CANCEL), key="k1") == first
    assert await provider.seal(plain(CANCEL), key="k1") == first
    refused = await provider.apply(plain(LATE_CANCEL), key="k2")
    assert isinstance(refused, Declined)
    assert "delivered" in refused.reason
    assert await provider.lookup(plain(LATE_CANCEL), key="k2") == refused


async def test_no_valid_request_is_declined(provider: Retail) -> None:
    nonsense = Write("a", "cancel_pending_order", {"order": 1})
    assert isinstance(await provider.apply(plain(nonsense), key="k1"), Declined)
    elsewhere = msgspec.structs.replace(CANCEL, ns="nowhere")
    assert isinstance(await provider.apply(plain(elsewhere), key="k1"), Declined)


async def test_nothing_found_is_no_more_than_that_and_sealed_is_more(provider: Retail) -> None:
    assert await provider.lookup(plain(CANCEL), key="k1") == NotFound()
    assert await provider.seal(plain(CANCEL), key="k1") == Sealed()
    assert isinstance(await provider.apply(plain(CANCEL), key="k1"), Inconclusive)
    assert isinstance(await provider.apply(plain(CANCEL), key="k2"), Confirmed)


async def test_a_lost_answer_is_raised_and_a_call_in_flight_is_inconclusive(provider: Retail) -> None:
    await provider.client.set_faults({"lose": {"p": 1.0, "times": 1}})
    with pytest.raises(OutcomeUnknown):
        await provider.apply(plain(CANCEL), key="k1")
    assert isinstance(await provider.lookup(plain(CANCEL), key="k1"), Confirmed)
    await provider.client.set_faults({"late": {"p": 1.0, "seconds": 1.5}})
    with pytest.raises(OutcomeUnknown):
        await provider.apply(plain(LATE_CANCEL), key="k2")
    assert isinstance(await provider.apply(plain(LATE_CANCEL), key="k2"), Inconclusive)
    assert isinstance(await provider.lookup(plain(LATE_CANCEL), key="k2"), Inconclusive)


async def test_no_connection_is_not_sent(shop: Running) -> None:
    async with RetailClient("http://127.0.0.1:9") as client:
        alone = Retail()
        alone.connect(client)
        with pytest.raises(NotSent):
            await alone.apply(plain(CANCEL), key="k1")
    with pytest.raises(RuntimeError, match="while a worker"):
        _ = Retail().client


def test_equal_requests_have_one_intent() -> None:
    turned = Write("a", CANCEL.operation, dict(reversed(CANCEL.arguments.items())))
    assert Retail().intent_key(plain(CANCEL)) == Retail().intent_key(plain(turned))
    assert Retail().intent_key(plain(CANCEL)) != Retail().intent_key(plain(LATE_CANCEL))


# Worker processes


@pytest.mark.timeout(90)
async def test_chaos_on_the_own_tickets_loses_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    plan = Plan(seed=1, lease=1.0, acts=4, pause=(0.1, 0.5), stopped_for=(1.2, 1.6))
    setup = trial.Setup(DATA, WORK, plan, workers=3, timeout=60, dump=tmp_path)
    report = await trial.run(setup)
    assert report["problems"] == []
    assert report["killed"] >= 4
    assert report["stopped"] >= 4
    assert (report["completed"], report["escalated"]) == (18, 2)
    assert (report["writes_applied"], report["writes_refused"], report["duplicates"]) == (21, 1, 0)
    assert report["state_equal"] is True
    assert report["answers_lost"] > 0
    assert report["verify"]["chain"] == "verified"
    assert (
        compare(
            msgspec.json.decode((tmp_path / "R20.json").read_bytes(), type=rules.Changes),
            expect(WORK.data, [call for ticket in TICKETS for call in ticket.writes]).changes,
        )
        == []
    )


async def check_for(fleet: Fleet, *, seconds: float) -> None:
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        fleet.check()
        await asyncio.sleep(0.05)


async def test_a_worker_that_ends_by_itself_is_a_failure_with_its_words(tmp_path: Path) -> None:
    fleet = Fleet("sqlite:///no/such/folder/ledger.db", {"RETAIL_URL": "http://127.0.0.1:9"}, tmp_path)
    fleet.start()
    try:
        with pytest.raises(FleetError, match=r"worker-1 ended with \d+: .*folder"):
            await check_for(fleet, seconds=20)
        assert fleet.alive == []
    finally:
        fleet.end()


def test_the_judge_names_everything_that_is_wrong() -> None:
    bad = Verification(
        chain="broken",
        replay="different",
        file="damaged",
        events=1,
        tasks=1,
        erased=0,
        missing=0,
        heads={},
        problems=("x",),
    )
    claimed = InLedger(
        phases={},
        escalated=["R01"],
        unfinished=["R02"],
        story=Story(ownerless=["y"]),
        effects={"in_doubt": 1},
        references=["invented"],
        residual=1,
        running=0,
        fenced=0,
        verified=bad,
    )
    found = problems(WORK, AtService(duplicates=1, differences=["z"]), claimed)
    assert len(found) == 15


# The program


def test_a_folder_without_tickets_is_a_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tau2.main([str(tmp_path / "nowhere")]) == 2
    assert "is no folder" in capsys.readouterr().err
    (tmp_path / "tasks.json").write_text("[]")
    assert tau2.main([str(tmp_path)]) == 2
    assert "has no db.json" in capsys.readouterr().err
    (tmp_path / "db.json").write_text("{}")
    assert tau2.main([str(tmp_path)]) == 2
    assert "holds no tau2 retail tickets" in capsys.readouterr().err


def write_tau2(folder: Path) -> None:
    """Own tickets in the shape of the benchmark's folder."""
    (folder / "db.json").write_bytes(DATA.read_bytes())
    tasks = [
        {
            "id": ticket.ticket,
            "user_scenario": {"instructions": {"reason_for_call": ticket.request}},
            "evaluation_criteria": {
                "actions": [{"name": call.tool, "arguments": call.arguments} for call in ticket.decisions]
            },
        }
        for ticket in TICKETS
        if ticket.ticket in ("R08", "R11", "R12")
    ]
    (folder / "tasks.json").write_text(json.dumps(tasks))


def test_the_program_runs_a_folder_and_leaves_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tau2(tmp_path)
    assert tau2.main([str(tmp_path), "--json", "--dump", str(tmp_path / "dump"), "--workers", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["tickets"], report["completed"], report["escalated"]) == (3, 2, 1)
    assert (report["writes_attempted"], report["writes_applied"], report["writes_refused"]) == (3, 2, 1)
    assert (report["killed"], report["stopped"], report["answers_lost"], report["handoffs"]) == (0, 0, 0, 3)
    changed = json.loads((tmp_path / "dump" / "R08.json").read_text())
    assert (list(changed["orders"]), list(changed["users"])) == (["order-1015"], ["customer-08"])
    assert json.loads((tmp_path / "dump" / "R12.json").read_text()) == {"orders": {}, "users": {}}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    write_tau2(tmp_path)
    command = [sys.executable, str(HERE / "tau2.py"), str(tmp_path), "--chaos"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as program:
        assert program.stderr is not None
        while "at rest" not in program.stderr.readline():
            pass
        time.sleep(0.5)
        mine = children_of(program.pid)
        assert len(mine) >= 4
        program.send_signal(number)
        assert program.wait(50) == 130
        assert "interrupted" in program.stderr.read()
    assert not [pid for pid in mine if is_alive(pid)]
    assert not list(tmp_path.glob("retail-*")), "its folder is gone as well"


def children_of(pid: int) -> list[int]:
    rows = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [row.split() for row in rows.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
