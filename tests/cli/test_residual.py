"""residual: work that was not seen to end, on the command line."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from tenure.ledger import open_ledger
from tenure.protocol import commands as cmd
from tenure.protocol.settings import LOCAL
from tenure.protocol.state import Locator
from tenure.protocol.vocabulary import WorkKind
from tenure.runtime.jobs import this_host
from tenure.testing.conformance import Driver
from tests.cli.conftest import Tenure


def here(pid: int) -> Locator:
    host = this_host()
    return Locator(host=host.host, boot=host.boot, pid=pid, started=0, group=pid)


async def leave_behind(path: Path, works: dict[str, tuple[WorkKind, Locator | None]], *roots: str) -> None:
    """Completed tasks whose works were not seen to end."""
    async with await asyncio.to_thread(open_ledger, f"sqlite:///{path}") as ledger:
        for root_id in roots:
            speaker = Driver(ledger, root_id)
            await speaker.owned()
            for work_id, (kind, locator) in works.items():
                await speaker.own(
                    cmd.StartWork, work_id=work_id, kind=kind, name=f"job {work_id}", policy=LOCAL, locator=locator
                )
            await speaker.complete()
            task = await speaker.task()
            assert task.tenure is not None
            epoch = task.tenure.epoch
            await speaker.do(cmd.Release, epoch=epoch, instance="w1", routes_retired=True)


REMOTE = Locator(provider="jobs", reference="j-17")


@pytest.fixture
def ended_group() -> Locator:
    process = subprocess.Popen(["true"], start_new_session=True)
    process.wait()
    return here(process.pid)


def test_it_lists_works_with_where_they_are_and_what_is_seen_now(
    folder: Path, tenure: Tenure, ended_group: Locator
) -> None:
    works = {"p": (WorkKind.PROCESS, ended_group), "r": (WorkKind.REMOTE, REMOTE), "c": (WorkKind.COROUTINE, None)}
    asyncio.run(leave_behind(folder / "tenure.db", works, "t"))
    found = tenure("residual", "--json")
    assert (found.code, found.json["next"]) == (0, None)
    lines = {line["work_id"]: line for line in found.json["residual"]}
    assert {name: line["seen_now"] for name, line in lines.items()} == {
        "p": "gone", "r": "not determinable", "c": "not determinable",
    }  # fmt: skip
    assert (lines["r"]["where"], lines["c"]["where"]) == ("jobs j-17", "")
    assert (lines["p"]["name"], lines["p"]["policy"], lines["p"]["phase"]) == ("job p", "local", "completed")
    assert lines["p"]["answerable"] == "person:operator"
    table = tenure("residual")
    assert table.out.splitlines()[0].startswith("work\ttask\tname")
    assert len(table.out.splitlines()) == 4


def test_it_lists_page_by_page_and_by_task(folder: Path, tenure: Tenure) -> None:
    asyncio.run(leave_behind(folder / "tenure.db", {"c": (WorkKind.COROUTINE, None)}, "s", "t", "u"))
    first = tenure("residual", "--limit", "2", "--json").json
    assert [line["task_id"] for line in first["residual"]] == ["s", "t"]
    rest = tenure("residual", "--after", str(first["next"]), "--json").json
    assert ([line["task_id"] for line in rest["residual"]], rest["next"]) == (["u"], None)
    assert [line["task_id"] for line in tenure("residual", "--task", "t", "--json").json["residual"]] == ["t"]
    assert "--after" in tenure("residual", "--limit", "2").err


def test_a_person_closes_one_and_it_is_not_called_an_observed_end(folder: Path, tenure: Tenure) -> None:
    asyncio.run(leave_behind(folder / "tenure.db", {"c": (WorkKind.COROUTINE, None)}, "t"))
    said = ("--close", "c", "--task", "t", "--by", "person:operator", "--reason", "the host is off")
    assert "Nobody has observed its end" in tenure("residual", *said).out
    assert tenure("residual", "--json").json["residual"] == []
    events = [line for line in tenure("events", "t").out.splitlines() if "work.stopped" in line]
    assert len(events) == 1
    assert "attested" in tenure("events", "t", "--json").out
    again = tenure("residual", *said, "--json")
    assert (again.code, again.error["code"]) == (2, "unknown_work")
    assert tenure("verify", "--json").json["chain"] == "verified"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--close", "c"), "usage"),
        (("--close", "c", "--task", "t", "--by", "me", "--reason", " "), "usage"),
        (("--by", "me"), "usage"),
        (("--close", "nothing", "--task", "t", "--by", "me", "--reason", "gone"), "unknown_work"),
        (("--close", "c", "--task", "nothing", "--by", "me", "--reason", "gone"), "unknown_task"),
        (("--task", "nothing"), "unknown_task"),
    ],
)
def test_bad_input_is_told_and_changes_nothing(
    folder: Path, tenure: Tenure, arguments: tuple[str, ...], code: str
) -> None:
    asyncio.run(leave_behind(folder / "tenure.db", {"c": (WorkKind.COROUTINE, None)}, "t"))
    found = tenure("residual", *arguments, "--json")
    assert (found.code, found.error["code"]) == (64 if code == "usage" else 2, code)
    assert len(tenure("residual", "--json").json["residual"]) == 1


def test_a_work_that_is_still_watched_is_not_for_a_person_to_close(folder: Path, tenure: Tenure) -> None:
    async def running() -> None:
        async with await asyncio.to_thread(open_ledger, f"sqlite:///{folder / 'tenure.db'}") as ledger:
            speaker = Driver(ledger, "t")
            await speaker.owned()
            await speaker.work("x")

    asyncio.run(running())
    found = tenure("residual", "--close", "x", "--task", "t", "--by", "me", "--reason", "gone", "--json")
    assert (found.code, found.error["code"]) == (2, "wrong_phase")
