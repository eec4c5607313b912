"""No statement on the path of a command, a worker or a watchdog looks at rows that it does not need."""

from pathlib import Path

import apsw
import pytest

from tenure.ledger.sqlite.connection import open_writer
from tenure.ledger.sqlite.statements import migrations, statements

SCANS: dict[tuple[str, str], str | tuple[str, ...]] = {
    ("read", "effect_counts"): "SCAN effects USING COVERING INDEX effects_by_phase",  # a report
    ("read", "graphs"): "SCAN graphs",  # a report, in the order of the table
    ("read", "instances"): "SCAN instances",  # all of them are asked for
    # What is open now, not what there ever was.
    ("read", "open_instances"): ("SCAN instances USING COVERING INDEX instances_running", "SCAN holdings"),
    ("write", "last_position"): "SEARCH events",
    ("write", "last_note"): "SEARCH audit",
    ("read", "newest"): "SEARCH events",
}
SORTS = {
    ("read", "tasks_of_root"),  # a tree has at most as many tasks as its limits allow
    ("read", "held_by"),  # what one instance holds
}
STATEMENTS = [(group, name) for group in ("read", "write") for name in statements(group)]


def plan(connection: apsw.Connection, sql: str) -> list[str]:
    cursor = connection.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * sql.count("?"))
    return [row[3] for row in cursor]


@pytest.mark.parametrize(("group", "name"), STATEMENTS, ids=lambda value: value)
def test_a_statement_finds_its_rows_by_an_index(tmp_path: Path, group: str, name: str) -> None:
    connection = open_writer(str(tmp_path / "a.db"))
    steps = plan(connection, statements(group)[name])
    connection.close()
    scans = [step for step in steps if step.startswith("SCAN") and step != "SCAN CONSTANT ROW"]
    assert all(step.startswith(SCANS.get((group, name), "never")) for step in scans), steps
    sorts = [step for step in steps if "TEMP B-TREE" in step]
    assert not sorts or (group, name) in SORTS, steps


def test_every_statement_is_known_to_sqlite(tmp_path: Path) -> None:
    connection = open_writer(str(tmp_path / "a.db"))
    for group in ("read", "write", "verify"):
        for sql in statements(group).values():
            plan(connection, sql)
    connection.close()


def test_migrations_are_numbered_without_a_gap() -> None:
    folder = Path(__file__).parents[2] / "src" / "tenure" / "ledger" / "sql" / "migrations"
    names = sorted(file.name for file in folder.glob("*.sql"))
    assert [int(name[:4]) for name in names] == list(range(1, len(migrations()) + 1))
