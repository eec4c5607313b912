"""The benchmark of effects measures what it says: both sides commit twice for each effect. No time is judged here."""

import asyncio
import json
from pathlib import Path

import apsw
import msgspec
import pytest

from bench import effects
from bench.ledger import wal
from bench.ledger.plain import Plain


def report_of(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, object]]:
    code = effects.main(["--json", "--quick"])
    report = json.loads(capsys.readouterr().out)
    assert (report["subject"], report["quick"]) == ("effects", True)
    (found,) = report["measures"]
    return code, found


@pytest.mark.may_block
def test_it_prints_both_sides_and_their_ratio_and_fails_above_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = report_of(capsys)
    assert [point["label"] for point in found["points"]] == ["1 at once", "32 at once"]  # type: ignore[attr-defined]
    for point in found["points"]:  # type: ignore[attr-defined]
        pairs = zip(point["sides"]["guarded"]["values"], point["sides"]["bare"]["values"], strict=True)
        assert point["ratio"]["values"] == pytest.approx([ours / bare for ours, bare in pairs], rel=1e-3)
    assert found["measured"] == found["points"][-1]["ratio"]["median"]  # type: ignore[index]
    assert code == int(found["measured"] > effects.LIMIT)  # type: ignore[operator]


def test_the_bare_side_commits_each_intent_and_each_outcome(tmp_path: Path) -> None:
    kept = tmp_path / "bare.db"
    reader: list[apsw.Connection] = []

    async def run() -> None:
        bare = Plain(str(kept), effects.SCHEMA)
        await bare.step([])
        reader.append(apsw.Connection(str(kept), flags=apsw.SQLITE_OPEN_READONLY))  # keeps the log from being removed
        before = wal.commits(kept)
        intent, outcome = effects.bare_rows(7)
        await bare.step(intent)
        between = wal.commits(kept)
        await bare.step(outcome)
        assert (between - before, wal.commits(kept) - before) == (1, 2)
        await bare.close()

    asyncio.run(run())
    (intents,) = reader[0].execute("SELECT tool, request FROM intents").fetchall()
    assert intents == ("refunds", msgspec.json.encode(effects.request_of(7)))
    (outcomes,) = reader[0].execute("SELECT state, answer FROM outcomes").fetchall()
    assert outcomes == ("confirmed", b'{"value":{"refunded":4200}}')
    reader[0].close()


def test_the_guarded_side_makes_every_effect_in_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    assert asyncio.run(effects.guarded_round(path, 3, 2)) > 0
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    counted = connection.execute("SELECT phase, count(*) FROM effects GROUP BY phase").fetchall()
    connection.close()
    assert counted == [("confirmed", 6)]
