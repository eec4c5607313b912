"""Commands as effects: real processes, records, and what is seen of them when they are killed."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tenure import Accepted, Cancelled, Confirmed, Failed, Inconclusive, NotFound, NotSent, Sealed
from tenure.protocol.state import Locator
from tenure.providers.process import Exit, ProcessJobs, Start, put, read
from tenure.runtime.jobs import survivors_of
from tenure.runtime.provider import can
from tests.runtime.harness import until

WAIT = ["/bin/sh", "-c", "echo $$ >> started; exec sleep 60"]
STUBBORN = ["/bin/sh", "-c", "trap '' TERM; echo $$ >> started; while true; do sleep 0.05; done"]


class Yard:
    """A folder for commands, and the provider that runs them. A request is an argument vector."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keys: set[str] = set()

    def provider(self, **options: Any) -> ProcessJobs:
        def command(request: Any) -> list[str]:
            return list(request)

        return ProcessJobs("jobs", self.path / "jobs", command, cwd=self.path, **options)

    def place(self, key: str = "k") -> Path:
        return self.provider()._place(key)

    def started(self) -> list[int]:
        """The pids of the commands that ran."""
        try:
            return [int(line) for line in (self.path / "started").read_text().split()]
        except FileNotFoundError:
            return []

    def start(self, key: str = "k") -> Start:
        return msgspec.json.decode((self.place(key) / "start").read_bytes(), type=Start)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    """A yard in which nothing is left alive."""
    made = Yard(tmp_path)
    yield made
    for record in (tmp_path / "jobs").glob("*/start"):
        locator = read(record, Start).locator
        alive = survivors_of(locator) if locator else ()
        for each in alive or ():
            os.kill(each.pid, signal.SIGKILL)


async def ended(provider: ProcessJobs, request: Any, key: str = "k") -> Any:
    """The answer of the first look-up that finds it over."""

    async def over() -> Any:
        answer = await provider.lookup(request, key=key)
        return None if isinstance(answer, Accepted) else answer

    return await until(over)


async def running(yard: Yard) -> int:
    """The pid of the command, once it runs."""

    async def there() -> list[int]:
        return yard.started()

    return (await until(there))[0]


async def test_a_command_runs_and_its_exit_code_confirms_it(yard: Yard) -> None:
    provider = yard.provider()
    request = ["/bin/sh", "-c", "echo $$ >> started; echo done"]
    answer = await provider.apply(request, key="k")
    assert isinstance(answer, Accepted | Confirmed)
    assert await ended(provider, request) == Confirmed({"exit": 0}, reference=str(yard.place()))
    assert (yard.place() / "stdout").read_text() == "done\n"
    assert await provider.apply(request, key="k") == Confirmed({"exit": 0}, reference=str(yard.place()))
    assert len(yard.started()) == 1


async def test_a_command_that_runs_is_accepted_and_not_started_again(yard: Yard) -> None:
    provider = yard.provider()
    answers = await asyncio.gather(*(provider.apply(WAIT, key="k") for _ in range(4)))
    assert answers == [Accepted(str(yard.place()))] * 4
    assert await provider.lookup(WAIT, key="k") == await provider.seal(WAIT, key="k") == answers[0]
    await running(yard)
    assert len(yard.started()) == 1


async def test_a_code_that_promises_that_nothing_was_done_is_a_failure_and_another_is_not_known(yard: Yard) -> None:
    request = ["/bin/sh", "-c", "exit 3"]
    careful, plain = yard.provider(without_effect={3}), yard.provider()
    await careful.apply(request, key="k")
    assert await ended(careful, request) == Failed("exit code 3", {"exit": 3})
    assert await plain.lookup(request, key="k") == Inconclusive("It ended with 3.")


async def test_a_command_that_cannot_be_run_has_failed(yard: Yard) -> None:
    provider = yard.provider()
    request = ["/no/such/program"]
    await provider.apply(request, key="k")
    answer = await ended(provider, request)
    assert isinstance(answer, Failed)
    assert "No such file" in answer.reason


@pytest.mark.parametrize("whom", ["wrapper", "command", "group"])
async def test_a_job_that_was_killed_proves_nothing(yard: Yard, whom: str) -> None:
    provider = yard.provider()
    await provider.apply(WAIT, key="k")
    command = await running(yard)
    locator = yard.start().locator
    assert locator is not None
    kill: dict[str, Callable[[], None]] = {
        "wrapper": lambda: os.kill(locator.pid, signal.SIGKILL),
        "command": lambda: os.kill(command, signal.SIGKILL),
        "group": lambda: os.killpg(locator.group, signal.SIGKILL),
    }
    kill[whom]()
    if whom == "wrapper":
        assert await provider.lookup(WAIT, key="k") == Accepted(str(yard.place())), "the command is alive"
        os.kill(command, signal.SIGKILL)
    assert isinstance(await ended(provider, WAIT), Inconclusive)
    assert isinstance(await provider.seal(WAIT, key="k"), Inconclusive)
    assert isinstance(await provider.apply(WAIT, key="k"), Inconclusive)
    assert len(yard.started()) == 1


async def test_a_job_outlives_the_worker_that_started_it(yard: Yard) -> None:
    program = (
        "import asyncio, os, sys\nfrom tenure.providers.process import ProcessJobs\n"
        f"jobs = ProcessJobs('jobs', {str(yard.path / 'jobs')!r}, list, cwd={str(yard.path)!r})\n"
        f"asyncio.run(jobs.apply({WAIT!r}, key='k'))\nos.kill(os.getpid(), 9)\n"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], check=False, timeout=30)
    assert done.returncode == -signal.SIGKILL
    assert await yard.provider().lookup(WAIT, key="k") == Accepted(str(yard.place()))


async def test_nothing_on_record_is_not_found_and_not_final(yard: Yard) -> None:
    assert await yard.provider().lookup(WAIT, key="k") == NotFound(final=False)


async def test_a_sealed_key_starts_nothing(yard: Yard) -> None:
    provider = yard.provider()
    assert await provider.seal(WAIT, key="k") == Sealed()
    assert await provider.apply(WAIT, key="k") == await provider.lookup(WAIT, key="k") == Sealed()
    assert yard.started() == []


async def test_a_wrapper_on_its_way_runs_nothing_after_a_seal(yard: Yard) -> None:
    provider = yard.provider()
    await provider.seal(WAIT, key="k")
    late = await asyncio.to_thread(provider._spawn, yard.place(), "k", WAIT)
    assert await asyncio.to_thread(late.wait, 30) == 0
    assert yard.started() == []
    assert await provider.lookup(WAIT, key="k") == Sealed()


async def test_of_a_call_and_a_seal_at_once_exactly_one_wins(yard: Yard) -> None:
    provider = yard.provider()
    answers = await asyncio.gather(provider.apply(WAIT, key="k"), provider.seal(WAIT, key="k"))
    assert set(answers) in ({Sealed()}, {Accepted(str(yard.place()))})


async def test_another_request_under_the_same_key_does_nothing(yard: Yard) -> None:
    provider = yard.provider()
    await provider.apply(WAIT, key="k")
    for ask in (provider.apply, provider.lookup, provider.seal, provider.cancel):
        assert isinstance(await ask(["true"], key="k"), Inconclusive)
    assert await provider.lookup(WAIT, key="k") == Accepted(str(yard.place()))


async def test_a_job_is_cancelled_when_it_is_seen_gone(yard: Yard) -> None:
    provider = yard.provider(grace=10)
    await provider.apply(WAIT, key="k")
    await running(yard)
    assert await provider.cancel(WAIT, key="k") == Cancelled(str(yard.place()))
    locator = yard.start().locator
    assert locator is not None
    assert await asyncio.to_thread(survivors_of, locator, "k") == ()


async def test_a_job_that_ignores_the_request_is_killed_and_its_wrapper_records_the_end(yard: Yard) -> None:
    provider = yard.provider(grace=0)
    await provider.apply(STUBBORN, key="k")
    await running(yard)
    # The end is seen once the wrapper has written it down, which may be after this call.
    answers = (Accepted(str(yard.place())), Cancelled(str(yard.place())))
    assert await provider.cancel(STUBBORN, key="k") in answers
    assert await ended(provider, STUBBORN) == Cancelled(str(yard.place()))
    assert await asyncio.to_thread(read, yard.place() / "exit", Exit) == Exit(-signal.SIGKILL)


@pytest.mark.parametrize("whom", ["wrapper", "group"])
async def test_a_job_that_ends_without_a_record_is_not_cancelled_though_its_end_was_asked_for(
    yard: Yard, whom: str
) -> None:
    provider = yard.provider(grace=0)
    await provider.apply(STUBBORN, key="k")
    await running(yard)
    locator = yard.start().locator
    assert locator is not None
    await asyncio.to_thread(put, yard.place() / "cancel", "SIGTERM")  # asked, by somebody who was lost then
    {"wrapper": os.kill, "group": os.killpg}[whom](locator.pid, signal.SIGKILL)
    assert await provider.cancel(STUBBORN, key="k") in (
        Accepted(str(yard.place())),
        Inconclusive("It ended without a record."),
    )
    assert await ended(provider, STUBBORN) == Inconclusive("It ended without a record.")


async def test_a_cancellation_that_finds_nothing_to_signal_claims_nothing(yard: Yard) -> None:
    provider = yard.provider()
    request = ["/bin/sh", "-c", "exit 7"]
    await provider.apply(request, key="k")
    assert await ended(provider, request) == Inconclusive("It ended with 7.")
    assert await provider.cancel(request, key="k") == Inconclusive("It ended with 7.")


async def test_a_job_that_succeeds_in_spite_of_the_request_is_confirmed(yard: Yard) -> None:
    provider = yard.provider()
    request = ["/bin/sh", "-c", "trap 'exit 0' TERM; echo $$ >> started; while true; do sleep 0.02; done"]
    await provider.apply(request, key="k")
    await running(yard)
    assert await provider.cancel(request, key="k") == Confirmed({"exit": 0}, reference=str(yard.place()))


async def test_what_left_the_group_keeps_a_job_from_being_called_cancelled(yard: Yard) -> None:
    provider = yard.provider(grace=0.05)
    request = [sys.executable, "-c", "import os, time; os.fork() or os.setsid(); open('started', 'a').write(f'{os.getpid()}\\n'); time.sleep(60)"]  # fmt: skip  # noqa: E501
    await provider.apply(request, key="k")

    async def both() -> bool:
        return len(yard.started()) == 2

    await until(both)
    assert await provider.cancel(request, key="k") == Accepted(str(yard.place()))
    for pid in yard.started():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    assert await ended(provider, request) == Cancelled(str(yard.place()))


async def test_a_job_of_another_host_is_inconclusive(yard: Yard) -> None:
    provider = yard.provider()
    await provider.apply(["true"], key="k")
    await ended(provider, ["true"])
    place = yard.place()
    (place / "exit").unlink()
    (place / "start").unlink()
    elsewhere = Locator(host="elsewhere", boot="x/1", pid=2, started=3, group=2)
    await asyncio.to_thread(put, place / "start", Start(elsewhere))
    assert await provider.lookup(["true"], key="k") == Inconclusive("What is alive of it cannot be seen from here.")
    await asyncio.to_thread(put, place / "exit", Exit(0))
    assert await provider.lookup(["true"], key="k") == Confirmed({"exit": 0}, reference=str(place))


async def test_a_folder_that_cannot_be_made_starts_nothing(yard: Yard) -> None:
    (yard.path / "jobs").write_text("a file")
    with pytest.raises(NotSent):
        await yard.provider().apply(WAIT, key="k")


async def test_it_can_be_cancelled_and_sealed_but_not_undone(yard: Yard) -> None:
    provider = yard.provider()
    names = ("lookup", "seal", "cancel", "compensate", "lookup_compensation")
    assert [can(provider, each) for each in names] == [True, True, True, False, False]
    assert provider.key_scope.endswith(f":{yard.path / 'jobs'}")


async def test_a_record_that_cannot_be_read_is_no_proof_that_nothing_was_started(yard: Yard) -> None:
    provider = yard.provider()
    request = [sys.executable, "-c", "pass"]
    await provider.apply(request, key="k")
    await ended(provider, request)
    (yard.place() / "exit").write_text("{")
    with pytest.raises(msgspec.DecodeError):
        await provider.apply(request, key="k")
