"""tasks, show, events, verify, erase: what they print of a ledger that exists."""

from __future__ import annotations

import asyncio
import io
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.ledger import open_ledger
from tenure.protocol.settings import CRITICAL
from tenure.protocol.vocabulary import EffectState, EvidenceKind
from tenure.testing.conformance import Driver
from tests.cli.conftest import Tenure, write_lines

MERGED = (" ok", "clean", "done", "success")
"""Words that would merge the four facts."""


def test_tasks_lists_all_in_order_or_by_phase(ledger_of_three: Path, tenure: Tenure) -> None:
    listed = tenure("tasks", "--json").json
    assert {task["task_id"]: task["phase"] for task in listed["tasks"]} == {
        "t1": "completed",
        "t2": "escalated",
        "t3": "completed",
    }
    assert listed["next"] is None
    escalated = tenure("tasks", "--json", "--phase", "escalated", "--phase", "active").json["tasks"]
    assert [(task["task_id"], task["answerable"], task["owner"]) for task in escalated] == [
        ("t2", "person:lead", "billing")
    ]


def test_tasks_go_on_behind_a_position(ledger_of_three: Path, tenure: Tenure) -> None:
    seen: list[str] = []
    after: int | None = 0
    while after is not None:
        page = tenure("tasks", "--json", "--limit", "1", "--after", str(after)).json
        seen += [task["task_id"] for task in page["tasks"]]
        after = page["next"]
    assert sorted(seen) == ["t1", "t2", "t3"]
    assert "there may be more: --after" in tenure("tasks", "--limit", "2").err


def test_tasks_in_a_pipe_are_columns(ledger_of_three: Path, tenure: Tenure) -> None:
    rows = [line.split("\t") for line in tenure("tasks").out.splitlines()]
    assert rows[0][:4] == ["task", "phase", "owner", "answerable"]
    assert {len(row) for row in rows} == {9}
    assert len(rows) == 4


def test_show_keeps_the_four_facts_apart(ledger_of_three: Path, tenure: Tenure) -> None:
    shown = tenure("show", "t1", "--json").json
    assert shown["execution"]["phase"] == "completed"
    assert shown["execution"]["owner"] == ""
    assert shown["routing"] == {"receiver": "", "routes": [], "unread": 0}
    assert (shown["termination"]["running"], shown["termination"]["residual"]) == ([], [])
    assert [(each["agent"], each["termination"]) for each in shown["termination"]["tenures"]] == [
        ("triage", "execution.stopped"),
        ("billing", "execution.stopped"),
    ]
    assert shown["effects"]["by_state"] == {"confirmed": 1}
    assert shown["effects"]["settled"][0]["reference"] == "R1"
    assert [(hop["sender"], hop["receiver"], hop["state"]) for hop in shown["hops"]] == [
        ("triage", "billing", "COMPLETED")
    ]
    assert [move["state"] for move in shown["hops"][0]["moves"]] == [
        "INITIATED",
        "TRANSFERRED",
        "ACKNOWLEDGED",
        "OWNED_BY_RECEIVER",
        "COMPLETED",
    ]
    assert shown["result"] == {"paid": "A1"}


@pytest.mark.parametrize("task_id", ["t1", "t2"])
def test_show_for_people_has_a_part_for_each_fact_and_no_word_that_merges_them(
    task_id: str, ledger_of_three: Path, tenure: Tenure
) -> None:
    text = tenure("show", task_id).out
    parts = [line.split()[0] for line in text.splitlines() if not line.startswith(" ")]
    assert parts[:8] == ["task", "execution", "routing", "termination", "effects", "answerable", "graph", "hops"]
    assert [word for word in MERGED if word in text.lower()] == []


def test_show_names_the_question_and_who_answers(ledger_of_three: Path, tenure: Tenure) -> None:
    shown = tenure("show", "t2", "--json").json
    assert shown["answerable"] == "person:lead"
    assert shown["question"]["words"]["question"] == "Pay it?"
    assert shown["question"]["allowed"] == ["yes", "no"]
    assert shown["hops"][0]["state"] == "FAILED_ESCALATED"
    text = tenure("show", "t2").out
    assert "Pay it?" in text
    assert "may answer: person:lead; due in" in text


def test_show_says_what_a_handler_raised(shop: Path, tenure: Tenure) -> None:
    line = {"task_id": "t1", "broken": True}
    assert tenure("run", "team.py", "--input", write_lines(shop / "in", line), "--json").json["escalated"] == 1
    (stated,) = tenure("show", "t1", "--json").json["termination"]["tenures"]
    assert (stated["decision"], stated["words"]) == ("fail", "RuntimeError: triage broke")
    text = tenure("show", "t1").out
    assert "epoch 2 triage: execution.stopped; fail: RuntimeError: triage broke" in text
    assert "(raised): RuntimeError: triage broke" in text


def test_show_says_in_words_what_is_in_the_way(folder: Path, tenure: Tenure) -> None:
    async def wait_at_the_gate() -> None:
        async with await asyncio.to_thread(open_ledger, f"sqlite:///{folder / 'tenure.db'}") as ledger:
            speaker = Driver(ledger, "t")
            await speaker.owned()
            await speaker.intend("e-1", policy=CRITICAL)
            await speaker.outcome("e-1", EffectState.IN_DOUBT, evidence=EvidenceKind.NONE)
            await speaker.complete()

    asyncio.run(wait_at_the_gate())
    words = "e-1 refund is in doubt; policy critical needs it settled"
    assert f"IN THE WAY   {words}\n" in tenure("show", "t").out
    (blocker,) = tenure("show", "t", "--json").json["blocked_by"]
    assert (blocker["id"], blocker["needs"], blocker["by"]) == ("e-1", "settled", "policy critical")


def test_show_makes_residual_work_an_open_effect_and_a_missed_deadline_visible(folder: Path, tenure: Tenure) -> None:
    (folder / "team.py").write_text(
        "import threading\n"
        "from tenure import Complete, Provider, Settings, Team, Transfer\n"
        "team = Team('t', ledger='sqlite:///tenure.db', settings=Settings(pickup_ms=50, attempts=1))\n"
        "class Deaf(Provider):\n"
        "    name = 'deaf'\n"
        "    async def apply(self, request, *, key):\n"
        "        raise TimeoutError('no answer')\n"
        "@team.agent(entry=True)\n"
        "async def one(own):\n"
        "    own.thread(threading.Event().wait, policy='local', name='sleeper')\n"
        "    await own.effect(Deaf(), {}, key='k', patience=0)\n"
        "    return Complete()\n"
        "@team.agent\nasync def two(own):\n    return Complete()\n"
        "def task_of(line):\n    return {'task_id': 'r', 'goal': 'g'}\n"
    )
    summary = tenure("run", "team.py", "--input", write_lines(folder / "in", {}), "--json").json
    assert (summary["residual"], summary["effects"]) == (1, {"in_doubt": 1})
    shown = tenure("show", "r", "--json").json
    assert [(work["name"], work["kind"], work["seen_now"]) for work in shown["termination"]["residual"]] == [
        ("sleeper", "thread", "not determinable")
    ]
    assert shown["termination"]["tenures"][0]["termination"] == "residual.declared"
    assert [effect["state"] for effect in shown["effects"]["open"]] == ["in_doubt"]
    text = tenure("show", "r").out
    assert "RESIDUAL" in text
    assert "OPEN" in text

    async def submit() -> None:
        from tenure import Complete, Settings, Team

        team = Team("t", ledger="sqlite:///tenure.db", settings=Settings(pickup_ms=1))

        @team.agent
        async def one(own: object) -> Complete[None]:
            return Complete()

        await team.submit(goal="g", task_id="late")
        await team.close()

    asyncio.run(submit())
    assert tenure("show", "late", "--json").json["execution"]["overdue_ms"] > 0
    assert "OVERDUE by" in tenure("show", "late").out
    assert next(each for each in tenure("tasks", "--json").json["tasks"] if each["task_id"] == "late")["overdue_ms"] > 0


def test_events_are_a_feed_with_a_cursor(ledger_of_three: Path, tenure: Tenure) -> None:
    everything = [json.loads(line) for line in tenure("events", "--json").out.splitlines()]
    positions = [each["position"] for each in everything]
    assert positions == sorted(set(positions))
    assert len(everything) == tenure("verify", "--json").json["events"]
    first = [json.loads(line) for line in tenure("events", "--json", "--limit", "7").out.splitlines()]
    rest = tenure("events", "--json", "--after", str(first[-1]["position"])).out.splitlines()
    assert first + [json.loads(line) for line in rest] == everything


def test_events_of_one_task(ledger_of_three: Path, tenure: Tenure) -> None:
    found = [json.loads(line) for line in tenure("events", "t1", "--json").out.splitlines()]
    assert [each["seq"] for each in found] == list(range(1, len(found) + 1))
    assert {each["task_id"] for each in found} == {"t1"}
    lines = tenure("events", "t1").out.splitlines()
    assert len(lines) == len(found)
    assert " t1 #1 epoch 0 task.submitted " in lines[0]


def test_verify_finds_a_sound_ledger_sound(ledger_of_three: Path, tenure: Tenure) -> None:
    ran = tenure("verify", "--json")
    assert ran.code == 0
    assert (ran.json["chain"], ran.json["replay"], ran.json["file"], ran.json["tasks"]) == (
        "verified",
        "equal",
        "sound",
        3,
    )
    assert ran.json["events"] > 30
    assert "heads" not in ran.json
    assert set(tenure("verify", "--json", "--heads").json["heads"]) == {"t1", "t2", "t3"}
    assert tenure("verify").out.splitlines()[:3] == ["chain    verified", "replay   equal", "file     sound"]


def test_verify_tells_how_far_it_is(ledger_of_three: Path, tenure: Tenure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.cli.progress.EVERY", 0)
    ran = tenure("verify", "--json")
    events = ran.json["events"]
    assert ran.err.splitlines()[-1] == f"verifying: {events} of {events} events"


def test_verify_finds_a_changed_event(ledger_of_three: Path, tenure: Tenure) -> None:
    with sqlite3.connect("tenure.db") as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert "events" in tables, tables
        changed = connection.execute("DELETE FROM events WHERE seq = 3 AND task_id = 't1'")
        assert changed.rowcount == 1
    connection.close()
    ran = tenure("verify", "--json")
    assert ran.code == 1
    assert ran.json["chain"] == "broken"
    assert any("t1" in problem for problem in ran.json["problems"])
    assert "problem  t1" in tenure("verify").out


def test_erase_takes_the_content_and_leaves_the_chain(ledger_of_three: Path, tenure: Tenure) -> None:
    ran = tenure("erase", "t1", "--by", "customer-07", "--reason", "asked for", "--yes", "--json")
    assert (ran.code, ran.json["task_id"]) == (0, "t1")
    assert ran.json["erased"] >= 3
    shown = tenure("show", "t1", "--json").json
    assert (shown["erased"], shown["goal"], shown["result"]) == (True, None, None)
    assert "content was erased" in tenure("show", "t1").out
    verified = tenure("verify", "--json")
    assert (verified.code, verified.json["erased"], verified.json["missing"]) == (0, ran.json["erased"], 0)

    async def audit() -> list[tuple[str, str, str]]:
        async with open_ledger("sqlite:///tenure.db") as ledger:
            return [(each.command, each.instance, each.detail) for each in await ledger.refusals(task_id="t1")]

    [(command, who, why)] = asyncio.run(audit())
    assert (command, who) == ("erase", "customer-07")
    assert "asked for" in why


def test_erase_asks_first_and_cannot_ask_nobody(ledger_of_three: Path, tenure: Tenure) -> None:
    ran = tenure("erase", "t1", "--by", "customer-07")
    assert (ran.code, ran.out) == (64, "")
    assert "next: add --yes" in ran.err
    assert tenure("show", "t1", "--json").json["erased"] is False


def test_a_reader_that_goes_away_is_no_error(ledger_of_three: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-m', 'tenure', 'events', '--follow'], stdout=subprocess.PIPE,"
        " stderr=subprocess.PIPE)\n"
        "p.stdout.close()\n"
        "print(p.wait(20), repr(p.stderr.read()))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=30)
    assert found.stdout.split() == ["141", "b''"]


def test_version_and_help_and_nothing_at_all(tenure: Tenure) -> None:
    from tenure import __version__

    assert tenure("--version").out == f"tenure, version {__version__}\n"
    assert tenure().out == tenure("--help").out != ""


@pytest.mark.parametrize(("answer", "code", "erased"), [("y\n", 0, True), ("n\n", 130, False), ("", 130, False)])
def test_erase_does_what_the_person_says(
    answer: str, code: int, *, erased: bool, ledger_of_three: Path, tenure: Tenure, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    ran = tenure("erase", "t1", "--by", "customer-07")
    assert ran.code == code
    assert "Erase the content of t1 for good?" in ran.err
    assert tenure("show", "t1", "--json").json["erased"] is erased


def test_an_error_of_tenure_itself_has_a_traceback_and_a_code_of_its_own(
    ledger_of_three: Path, tenure: Tenure, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("in the middle")

    monkeypatch.setattr("tenure.cli.options.open_ledger", broken)
    ran = tenure("tasks")
    assert ran.code == 70
    assert ran.err.startswith("Traceback")
    assert "error: ZeroDivisionError: in the middle\nnext: report this" in ran.err
    assert tenure("tasks", "--json").error["exit_code"] == 70
