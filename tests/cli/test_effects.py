"""effects, reconcile, attest: an effect in doubt on the command line."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.errors import Unavailable
from tenure.ledger import open_ledger
from tenure.protocol.vocabulary import EffectState
from tenure.runtime.swept import Fate
from tests.cli.conftest import Process, Ran, Tenure, write_lines

BANK = """
import asyncio
from pathlib import Path
from tenure import Complete, Confirmed, Inconclusive, NotFound, Provider, Team, Tenure

async def there(name):
    return await asyncio.to_thread(Path(name).exists)

class Bank(Provider):
    \"\"\"It loses every answer; what was paid is in a file.\"\"\"
    name = "bank"
    in_flight_limit = 0.001
    async def apply(self, request, *, key):
        if request["paid"]:
            await asyncio.to_thread(Path(request["order"]).touch)
        raise TimeoutError("no answer")
    async def lookup(self, request, *, key):
        if await there("down"):
            return Inconclusive("maintenance")
        if await there("slow"):
            await asyncio.to_thread(Path("began").touch)
            while await there("slow"):
                await asyncio.sleep(0.01)
        return Confirmed(reference="B-" + request["order"]) if await there(request["order"]) else NotFound()

class Deaf(Provider):
    name = "deaf"
    async def apply(self, request, *, key):
        raise TimeoutError("no answer")

team = Team("bank", ledger="sqlite:///tenure.db", providers=[Bank(), Deaf()])
empty = Team("empty", ledger="sqlite:///tenure.db")

@team.agent
async def cashier(own: Tenure):
    provider = Deaf() if own.input.get("deaf") else Bank()
    await own.effect(provider, own.input, key=own.input["order"], tool="pay", patience=0)
    return Complete()

@empty.agent
async def nobody(own: Tenure):
    return Complete()
"""


@pytest.fixture
def bank(folder: Path, tenure: Tenure) -> Path:
    """``tenure.db`` with three payments in doubt: e1 was made, of e2 and e3 nothing is known."""
    (folder / "team.py").write_text(BANK)
    (folder / "down").touch()
    lines = [
        {"task_id": "t1", "order": "A1", "paid": True},
        {"task_id": "t2", "order": "A2", "paid": False},
        {"task_id": "t3", "order": "A3", "paid": False, "deaf": True},
    ]
    ran = tenure("run", "team.py", "--input", write_lines(folder / "in.jsonl", *lines), "--json")
    assert ran.json["effects"] == {"in_doubt": 3}, ran.err
    (folder / "down").unlink()
    return folder


def effect_of(tenure: Tenure, task_id: str) -> dict[str, object]:
    (found,) = tenure("effects", "--task", task_id, "--json").json["effects"]
    assert isinstance(found, dict)
    return found


# --- effects --------------------------------------------------------------------------------------------------------


def test_effects_lists_them_with_who_answers_and_the_version_to_name(bank: Path, tenure: Tenure) -> None:
    listed = tenure("effects", "--json").json
    assert listed["next"] is None
    found = {each["task_id"]: each for each in listed["effects"]}
    assert {(each["state"], each["answerable"]) for each in found.values()} == {("in_doubt", "person:operator")}
    assert found["t1"]["version"] >= 2
    assert found["t1"]["next_check"] > 0
    rows = [line.split("\t") for line in tenure("effects", "--open").out.splitlines()]
    assert rows[0][:6] == ["effect", "task", "tool", "provider", "state", "version"]
    assert len(rows) == 4
    assert {len(row) for row in rows} == {11}


def test_effects_go_on_behind_a_position(bank: Path, tenure: Tenure) -> None:
    seen: list[str] = []
    after: int | None = 0
    while after is not None:
        page = tenure("effects", "--json", "--open", "--limit", "1", "--after", str(after)).json
        seen += [each["task_id"] for each in page["effects"]]
        after = page["next"]
    assert sorted(seen) == ["t1", "t2", "t3"]
    assert "there may be more: --after" in tenure("effects", "--limit", "2").err


def test_one_effect_is_shown_with_its_evidence_and_whose_requests_may_still_land(bank: Path, tenure: Tenure) -> None:
    effect_id = str(effect_of(tenure, "t1")["effect_id"])
    story = tenure("effects", effect_id, "--json").json
    assert story["effect"]["effect_id"] == effect_id
    first = story["evidence"][0]
    assert (first["evidence"]["kind"], first["evidence"]["shows"], first["evidence"]["source"]) == (
        "none",
        "in_doubt",
        "apply",
    )
    assert first["said"] == {"error": "TimeoutError: no answer"}
    assert [step["version"] for step in story["steps"]] == list(range(1, story["effect"]["version"] + 1))
    assert len(story["senders"]) == 1
    text = tenure("effects", effect_id).out
    assert "may land    requests of" in text
    assert '{"error":"TimeoutError: no answer"}' in text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("effects", "e-nobody"), "unknown_effect"),
        (("effects", "--task", "t9"), "unknown_task"),
        (("effects", "e-nobody", "--task", "t1"), "unknown_effect"),
        (("effects", "e-nobody", "--task", "t9"), "unknown_task"),
    ],
)
def test_what_does_not_exist_is_told(arguments: tuple[str, ...], code: str, bank: Path, tenure: Tenure) -> None:
    ran = tenure(*arguments, "--json")
    assert (ran.code, ran.error["code"]) == (2, code)
    assert "lists the" in ran.error["next"]


# --- reconcile ------------------------------------------------------------------------------------------------------


def counts(ran: Ran) -> dict[str, int]:
    """The counts by fate that are not zero; they add up."""
    found = {str(fate): ran.json[fate] for fate in Fate if ran.json[fate]}
    assert sum(found.values()) == ran.json["due"] == len(ran.json["looks"])
    return found


def test_reconcile_looks_at_what_is_open_and_says_what_is_left(bank: Path, tenure: Tenure) -> None:
    assert tenure("reconcile", "team.py", "--json").json["due"] == 0, "nothing is due within a minute"
    ran = tenure("reconcile", "team.py", "--all-open", "--json")
    assert counts(ran) == {"settled": 1, "open": 1, "asked": 1}
    assert (ran.code, ran.json["still_open"], ran.json["calls"]) == (1, 2, 2)
    assert effect_of(tenure, "t1")["reference"] == "B-A1"
    assert effect_of(tenure, "t3")["asked"] == "person:operator"
    text = tenure("reconcile", "team.py", "--all-open").out
    assert "pay: in_doubt by lookup, open" in text
    assert text.splitlines()[-1].endswith("; 1 call; 2 in the ledger need somebody")
    assert "person:operator was asked about it" in tenure("show", "t3").out


def test_reconcile_has_exit_code_0_when_no_effect_needs_anybody(bank: Path, tenure: Tenure) -> None:
    for order in ("A2", "A3"):
        (bank / order).touch()
    effect = effect_of(tenure, "t3")
    told = ("--finding", "absent", "--version", str(effect["version"]), "--by", "person:lead", "--reason", "asked them")
    assert tenure("attest", str(effect["effect_id"]), *told).code == 0
    ran = tenure("reconcile", "team.py", "--all-open", "--json")
    assert (ran.code, counts(ran), ran.json["still_open"]) == (0, {"settled": 2}, 0)


def test_reconcile_of_one_effect(bank: Path, tenure: Tenure) -> None:
    effect_id = str(effect_of(tenure, "t1")["effect_id"])
    ran = tenure("reconcile", "team.py", "--effect", effect_id, "--json")
    assert [(look["effect_id"], look["state"]) for look in ran.json["looks"]] == [(effect_id, "confirmed")]
    assert tenure("reconcile", "team.py", "--effect", "e-nobody", "--json").error["code"] == "unknown_effect"


def test_a_dry_run_says_what_would_be_tried_and_writes_nothing(bank: Path, tenure: Tenure) -> None:
    before = tenure("verify", "--json").json["events"]
    ran = tenure("reconcile", "team.py", "--all-open", "--dry-run", "--json")
    assert ran.code == 1
    assert {each["task_id"]: each["would"] for each in ran.json["would"]} == {
        "t1": ["lookup"],
        "t2": ["lookup"],
        "t3": ["ask"],
    }
    assert tenure("verify", "--json").json["events"] == before
    text = tenure("reconcile", "team.py", "--all-open", "--dry-run").out
    assert "in_doubt, would try ask: its provider has no way to settle it" in text
    nothing = tenure("reconcile", "team.py", "--dry-run")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "nothing is due\n")


async def instances() -> list[tuple[str, bool]]:
    async with open_ledger("sqlite:///tenure.db") as ledger:
        return [(each.name, each.ended_at > 0) for each in await ledger.instances()]


def test_reconcile_is_a_registered_instance_and_says_goodbye(bank: Path, tenure: Tenure) -> None:
    assert tenure("reconcile", "team.py", "--all-open").code == 1
    (newest, ended), *_ = asyncio.run(instances())
    assert newest.startswith("bank-reconcile-")
    assert ended


def test_reconcile_counts_residual_work_that_was_seen_to_end(
    bank: Path, tenure: Tenure, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[set[str], str]] = []

    async def watch(_: object, providers: dict[str, object], *, by: str) -> int:
        asked.append((set(providers), by))
        return 2

    monkeypatch.setattr("tenure.cli.reconciling.watch_residual", watch)
    assert tenure("reconcile", "team.py", "--json").json["ended"] == 2
    ((providers, by),) = asked
    assert providers == {"bank", "deaf"}
    assert by.startswith("bank-reconcile-")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("team.py:empty",), "no_providers"),
        (("team.py", "--ledger", "sqlite:///other.db"), "no_ledger"),
        (("team.py", "--ledger", "memory://"), "no_ledger"),
        (("team.py", "--all-open", "--effect", "e"), "usage"),
        (("nowhere.py",), "no_team"),
    ],
)
def test_reconcile_says_what_it_lacks(arguments: tuple[str, ...], code: str, bank: Path, tenure: Tenure) -> None:
    ran = tenure("reconcile", *arguments, "--json")
    assert (ran.code, ran.error["code"]) == (64, code)
    assert not (bank / "other.db").exists()


def test_a_ledger_that_goes_away_is_told_after_what_was_done(
    bank: Path, tenure: Tenure, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise Unavailable("ledger_unavailable", "The disk is gone.")

    monkeypatch.setattr("tenure.runtime.looking.Looking.look", broken)
    ran = tenure("reconcile", "team.py", "--all-open", "--json")
    assert (ran.code, counts(ran), ran.json["still_open"]) == (4, {"failed": 1, "left": 2}, None)
    assert "The disk is gone." in ran.json["error"]
    assert "next: repeat it" in tenure("reconcile", "team.py", "--all-open").err


def test_the_first_signal_lets_a_look_end_and_begins_no_other(
    bank: Path, start: Callable[..., Process], tenure: Tenure
) -> None:
    (bank / "slow").touch()
    process = start("reconcile", "team.py", "--effect", str(effect_of(tenure, "t1")["effect_id"]), "--json")
    process.until((bank / "began").exists)
    process.signal(signal.SIGINT)
    process.until(lambda: "no further look begins" in process.err)
    (bank / "slow").unlink()
    ran = process.end()
    assert (ran.code, ran.json["interrupted"], counts(ran)) == (130, True, {"settled": 1})
    assert effect_of(tenure, "t1")["state"] == EffectState.CONFIRMED


def test_after_a_stop_at_once_the_call_in_flight_is_on_the_books(
    bank: Path, start: Callable[..., Process], tenure: Tenure
) -> None:
    (bank / "slow").touch()
    effect = effect_of(tenure, "t1")
    process = start("reconcile", "team.py", "--effect", str(effect["effect_id"]), "--json")
    process.until((bank / "began").exists)
    process.signal(signal.SIGINT)
    process.until(lambda: "no further look begins" in process.err)
    process.signal(signal.SIGINT)
    assert process.end().code == 130
    after = effect_of(tenure, "t1")
    assert (after["state"], after["version"]) == ("in_doubt", int(str(effect["version"])) + 1)
    (bank / "slow").unlink()
    taken = tenure("reconcile", "team.py", "--effect", str(effect["effect_id"]), "--json")
    assert counts(taken) == {"busy": 1}, "until the next check somebody may still be at it"


# --- attest ---------------------------------------------------------------------------------------------------------


def told(effect: dict[str, object], finding: str, *more: str, version: object = None) -> tuple[str, ...]:
    seen = str(effect["version"] if version is None else version)
    words = ("--by", "person:lead", "--reason", "asked the bank", "--json")
    return ("attest", str(effect["effect_id"]), "--finding", finding, "--version", seen, *words, *more)


def test_attest_settles_the_effect_and_keeps_who_found_what(bank: Path, tenure: Tenure) -> None:
    effect = effect_of(tenure, "t3")
    ran = tenure(*told(effect, "present"))
    assert (ran.code, ran.json["state"], ran.json["finding"], ran.json["granted"]) == (0, "attested", "present", False)
    newest = tenure("effects", str(effect["effect_id"]), "--json").json["evidence"][-1]
    assert (newest["evidence"]["observer"], newest["evidence"]["source"], newest["said"]) == (
        "person:lead",
        "person",
        {"reason": "asked the bank"},
    )
    assert "attested as present" in tenure("show", "t3").out


def test_attest_of_a_version_that_has_changed_says_what_has(bank: Path, tenure: Tenure) -> None:
    effect = effect_of(tenure, "t2")
    tenure("reconcile", "team.py", "--effect", str(effect["effect_id"]))
    ran = tenure(*told(effect, "absent"))
    assert (ran.code, ran.error["code"]) == (2, "version_conflict")
    version = int(str(effect["version"]))
    assert f"version {version + 1}, " in ran.error["message"]
    assert ": lookup, by bank-reconcile-" in ran.error["message"]
    now = effect_of(tenure, "t2")
    assert ran.error["next"] == f"look at it again, and name version {now['version']} if your finding still holds"
    assert now["state"] == "in_doubt"
    assert "it never had that version" in tenure(*told(now, "absent", version=99)).error["next"]


def test_a_retry_is_granted_only_after_the_sender_was_observed_dead(bank: Path, tenure: Tenure) -> None:
    effect = effect_of(tenure, "t3")
    ran = tenure(*told(effect, "absent", "--retry"))
    assert (ran.code, ran.error["code"]) == (2, "attempt_unsafe")
    assert "To be observed dead first: " in ran.error["message"]
    assert "(pid " in ran.error["message"]
    assert "a worker or `tenure reconcile` on" in ran.error["next"]
    assert effect_of(tenure, "t3")["state"] == "in_doubt"


def test_a_retry_is_granted_once_it_was(folder: Path, start: Callable[..., Process], tenure: Tenure) -> None:
    (folder / "team.py").write_text(BANK)
    line = {"task_id": "t1", "order": "A1", "paid": False, "deaf": True}
    assert start("run", "team.py", "--input", write_lines(folder / "in", line), "--json").end().code == 0
    tenure("reconcile", "team.py", "--all-open")
    effect = effect_of(tenure, "t1")
    assert tenure("effects", str(effect["effect_id"]), "--json").json["senders"] == []
    ran = tenure(*told(effect, "absent", "--retry"))
    assert (ran.code, ran.json["state"], ran.json["granted"]) == (0, "attested", True), ran.err
    assert "may make it happen once more" in tenure("effects", str(effect["effect_id"])).out


def test_what_cannot_be_found_of_it_is_refused_with_the_next_step(bank: Path, tenure: Tenure) -> None:
    ran = tenure(*told(effect := effect_of(tenure, "t1"), "undone"))
    assert (ran.code, ran.error["code"]) == (2, "wrong_phase")
    assert ran.error["next"] == f"`tenure effects {effect['effect_id']}` has its evidence"


@pytest.mark.parametrize("option", ["--by", "--reason"])
def test_who_and_why_are_not_empty(option: str, bank: Path, tenure: Tenure) -> None:
    ran = tenure(*told(effect_of(tenure, "t1"), "present"), option, " ")
    assert (ran.code, json.loads(ran.err)["error"]["code"]) == (64, "usage")
