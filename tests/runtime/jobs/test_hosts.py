"""What is proven about a process from its recorded place, and where proof ends."""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tenure.protocol.state import Locator
from tenure.runtime.jobs import group_members, process_alive, survivors_of, table, this_host
from tenure.runtime.jobs.table import LINUX, Row
from tests.runtime.jobs.stubborn import mine

HERE = this_host()
WORK = mine("sleeper")
Process = subprocess.Popen[bytes]


@pytest.fixture
def sleeper() -> Iterator[Process]:
    with subprocess.Popen(["sleep", "60"], start_new_session=True, env={**os.environ, "TENURE_WORK": WORK}) as child:
        yield child
        child.kill()


def place_of(child: Process) -> Locator:
    row = table.row(child.pid)
    assert row is not None
    return replace(HERE, pid=child.pid, started=row.started, group=child.pid)


def test_this_process_is_alive_and_its_place_is_complete() -> None:
    assert (HERE.pid, process_alive(HERE)) == (os.getpid(), True)
    assert all((HERE.host, HERE.boot, HERE.started))


def test_a_process_is_alive_until_it_is_dead_and_a_zombie_is_dead(sleeper: Process) -> None:
    place = place_of(sleeper)
    assert process_alive(place) is True
    sleeper.kill()
    if sys.platform == "linux":
        os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    else:
        sleeper.wait()
    assert process_alive(place) is False
    sleeper.wait()
    assert process_alive(place) is False


def test_a_stopped_process_is_alive(sleeper: Process) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    assert process_alive(place_of(sleeper)) is True


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"started": HERE.started + 1}, False),
        ({"boot": "an-earlier-boot/1"}, False),
        ({"boot": HERE.boot.partition("/")[0] + "/another-container"}, None),
        ({"boot": ""}, None),
        ({"host": "elsewhere"}, None),
        ({"host": "elsewhere", "boot": "unknown"}, None),
        ({"host": ""}, None),
        ({"pid": 0}, None),
    ],
)
def test_only_what_is_proven_is_said(changes: dict[str, Any], expected: object) -> None:
    assert process_alive(replace(HERE, **changes)) is expected


def test_a_process_that_is_hidden_or_a_table_that_is_mute_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: int) -> None:
        raise PermissionError("hidden")

    with monkeypatch.context() as patch:
        patch.setattr(table, "row", lambda pid: None)
        patch.setattr(os, "kill", deny)
        assert process_alive(HERE) is None
    monkeypatch.setattr(table, "row", deny)
    assert process_alive(HERE) is None


def test_members_of_a_group_are_listed_by_identity(sleeper: Process) -> None:
    (member,) = group_members(sleeper.pid)
    assert str(member) == f"pid {sleeper.pid} (sleep)"
    sleeper.kill()
    sleeper.wait()
    assert group_members(sleeper.pid) == ()
    assert group_members(0) == ()


def test_a_recorded_group_is_found_alive_dead_or_not_determinable(sleeper: Process) -> None:
    """CA-05 (c): what a worker that starts again can say about the commands of the one that was killed."""
    place = place_of(sleeper)
    assert [each.pid for each in survivors_of(place, WORK) or ()] == [sleeper.pid]
    assert survivors_of(replace(place, host="elsewhere"), WORK) is None
    assert survivors_of(replace(place, group=0), WORK) is None
    assert survivors_of(replace(place, boot="an-earlier-boot/1"), WORK) == ()
    sleeper.kill()
    sleeper.wait()
    assert survivors_of(place, WORK) == ()


def test_a_group_whose_number_was_given_to_a_stranger_is_dead(sleeper: Process) -> None:
    place = place_of(sleeper)
    recorded = replace(place, started=place.started - 1)
    assert survivors_of(recorded, "another-work") == ()


def test_the_mark_finds_what_the_group_does_not_where_processes_show_it(sleeper: Process) -> None:
    place = replace(place_of(sleeper), group=1 << 30)
    assert [each.pid for each in survivors_of(place, WORK) or ()] == ([sleeper.pid] if LINUX else [])
    assert survivors_of(place, mine("other")) == ()


def test_a_group_of_others_that_does_not_show_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: int) -> None:
        raise PermissionError("another user's")

    monkeypatch.setattr(os, "killpg", deny)
    assert survivors_of(replace(HERE, group=1 << 30)) is None


def test_a_mute_table_proves_nothing_about_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object) -> None:
        raise PermissionError("no table")

    monkeypatch.setattr(table, "rows", deny)
    assert survivors_of(replace(HERE, group=os.getpid())) is None


def test_a_process_that_hands_over_while_the_table_is_read_is_not_missed(
    sleeper: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = 1 << 30  # gone when its turn came; the child was not listed yet
    lists = [[parent], [parent, sleeper.pid], [sleeper.pid]]
    monkeypatch.setattr(table, "_pids", lambda: lists.pop(0))
    assert [row.pid for row in table.rows()] == [sleeper.pid]
    assert lists == []


def test_a_table_that_never_comes_to_rest_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pids = itertools.count(1 << 30)
    monkeypatch.setattr(table, "_pids", lambda: [next(pids)])
    with pytest.raises(OSError, match="new"):
        table.rows()


def test_both_tables_tell_the_same(sleeper: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """``ps``, as on macOS, against ``/proc``."""
    own = table.row(sleeper.pid)
    monkeypatch.setattr(table, "LINUX", False)
    same = table.row(sleeper.pid)
    assert own is not None
    assert same is not None
    assert (same.pid, same.parent, same.group, same.name) == (own.pid, own.parent, own.group, own.name)
    assert sleeper.pid in {row.pid for row in table.rows()}
    sleeper.kill()
    sleeper.wait()
    assert table.row(sleeper.pid) is None


def test_a_ps_that_fails_is_an_error_and_not_an_empty_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "LINUX", False)
    monkeypatch.setattr(table, "_PS", (sys.executable, "-c", "import sys; sys.exit('broken')"))
    with pytest.raises(OSError, match="broken"):
        table.rows()


def test_a_zombie_and_a_program_with_spaces_are_parsed() -> None:
    fields = b"1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0"
    assert table._from_stat(b"7 (a (b) c) S " + fields) == Row(
        pid=7, parent=1, group=7, session=7, started=4711, name="a (b) c"
    )
    assert table._from_stat(b"7 (dead) Z " + fields) is None
    assert table._from_stat(b"7 (half-dead) Z " + fields.replace(b"20 0 1", b"20 0 2")) is not None
    line = "  7     1     7 Ss   Tue Dec  1 03:09:33 2026     /Applications/My App"
    assert table._from_ps(line) == Row(pid=7, parent=1, group=7, session=0, started=1796094573, name="My App")
    assert table._from_ps(line.replace("Ss", "Z+")) is None
