"""The works of a tenure: booked before they start, reported when they are seen to end, retired together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

from tenure.errors import Refused, TenureError
from tenure.protocol import commands as cmd
from tenure.protocol.body import Body
from tenure.protocol.graph import Graph
from tenure.protocol.settings import POLICIES, Policy
from tenure.protocol.vocabulary import EvidenceKind, WorkEnd, WorkKind
from tenure.runtime import provider as pv
from tenure.runtime.background import background
from tenure.runtime.content import words_of
from tenure.runtime.hold import Hold
from tenure.runtime.ids import new_id
from tenure.runtime.jobs import CoroutineJob, Job, Outcome, ProcessJob, RemoteJob, Retired, ThreadJob, retire
from tenure.runtime.jobs.pipes import Pipes
from tenure.runtime.jobs.remote import Reply
from tenure.runtime.residual import body_of, remote_end

T = TypeVar("T")


def policy_of(policy: str | Policy, graph: Graph | None = None) -> Policy:
    """A policy by its name (the graph's own classes too), or itself.

    Raises:
        Refused: ``misuse`` for a name that no class has.
    """
    if isinstance(policy, Policy):
        return policy
    found = graph.policy(policy) if graph is not None else POLICIES.get(policy)
    if found is None:
        names = ", ".join(POLICIES | graph.policies if graph is not None else POLICIES)
        raise Refused("misuse", f"{policy!r} is not a policy; use {names} or a Policy of your own.")
    return found


class RemoteFailed(Exception):
    """What its provider says of remote work that did not return: it failed, was cancelled, or is not there any more."""


class Work(Generic[T]):
    """A handle of one owned work. Await it for its result; awaiting never owns or cancels it."""

    def __init__(self, job: Job, started: asyncio.Task[None]) -> None:
        """Wrap a job that is being booked and started."""
        self._job = job
        self._started = started

    @property
    def work_id(self) -> str:
        """Its id on the books."""
        return self._job.work_id

    @property
    def outcome(self) -> Outcome | None:
        """How it was seen to end; ``None`` until then."""
        return self._job.outcome

    @property
    def output(self) -> Pipes | None:
        """What a process has written so far, the last part of each stream; ``None`` for other works."""
        return self._job.output if isinstance(self._job, ProcessJob) else None

    async def ended(self) -> Outcome:
        """Wait for its end and say how it ended; it raises only what kept it from being started."""
        await asyncio.shield(self._started)
        outcome = await self._job.wait()
        if outcome is None:
            raise Refused("misuse", f"{self._job.name} was not seen to end.")
        return outcome

    def cancel(self) -> bool:
        """Ask it to end; returns whether the request is known to have arrived."""
        return self._job.request_cancel()

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for its end and give what it returned, or raise what it raised."""
        return self._result().__await__()

    async def _result(self) -> T:
        outcome = await self.ended()
        if outcome.error is not None:
            raise outcome.error
        value: T = outcome.value
        return value


class RemoteWork(Work[Any]):
    """A handle of work that runs at a provider. Its result is what ``status`` says of it."""

    def __init__(self, job: RemoteJob, started: asyncio.Task[None], hold: Hold) -> None:
        """As :class:`Work`; requests to stop go on the books."""
        super().__init__(job, started)
        self._remote = job
        self._hold = hold

    async def stop(self) -> Reply:
        """Ask its provider to end it, and say what is known of the request. None of it is an end but ``ended``.

        ``accepted``: the provider has taken the request. ``refused``: it has not. ``not_supported``: it cannot be
        asked. ``unknown``: no answer came. ``ended``: its status shows an end by now; :attr:`outcome` says which.
        """
        await asyncio.shield(self._started)
        reply = await self._remote.ask()
        if reply != "ended":
            try:
                await self._hold.say(cmd.CancelWork, work_id=self.work_id, delivered=reply == "accepted")
            except Refused as error:
                if error.code != "unknown_work":
                    raise
        return reply


class Works:
    """Everything that one tenure has started and that has not been seen to end."""

    def __init__(self, hold: Hold) -> None:
        """Start with none."""
        self._hold = hold
        self._jobs: dict[str, Job] = {}
        self._starts: set[asyncio.Task[None]] = set()
        self._reports: set[asyncio.Task[None]] = set()
        self._booked: set[str] = set()
        self._reported: set[str] = set()
        self._retiring = False
        self._ending = False

    def spawn(
        self, work: Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]], policy: str | Policy, name: str
    ) -> Work[T]:
        """Own a coroutine."""
        try:
            chosen = self.admit(policy)
        except TenureError:
            if asyncio.iscoroutine(work):
                work.close()  # it will never be awaited, and says so otherwise
            raise
        name = name or getattr(work, "__qualname__", "coroutine")
        return self._start(CoroutineJob(work, work_id=new_id("w"), name=name, policy=chosen))

    def thread(self, function: Callable[..., T], args: tuple[Any, ...], policy: str | Policy, name: str) -> Work[T]:
        """Own a thread."""
        chosen = self.admit(policy)
        return self._start(
            ThreadJob(function, args, work_id=new_id("w"), name=name or function.__name__, policy=chosen)
        )

    def process(self, argv: tuple[str, ...], policy: str | Policy, name: str, **options: Any) -> Work[Any]:
        """Own a command in a process group of its own."""
        chosen = self.admit(policy)
        return self._start(ProcessJob(argv, work_id=new_id("w"), name=name or argv[0], policy=chosen, **options))

    def remote(self, provider: pv.Provider, reference: str, policy: str | Policy, name: str) -> RemoteWork:
        """Own what runs at a provider under its name for it."""
        if not pv.can(provider, "status"):
            raise Refused("misuse", f"{provider.name} has no status to ask for: its end could never be seen.")
        chosen = self.admit(policy)

        async def status() -> Outcome | None:
            found = await remote_end(provider, reference)
            if found is None:
                return None
            how, value = found
            failed = RemoteFailed(value or str(how)) if how is not WorkEnd.RETURNED else None
            return Outcome(how, value=None if failed else value, error=failed)

        job = RemoteJob(
            provider.name,
            reference,
            status=status,
            stop=partial(_stop, provider, reference) if pv.can(provider, "stop") else None,
            work_id=new_id("w"),
            name=name or f"{provider.name} {reference}",
            policy=chosen,
        )
        return RemoteWork(job, self._begin(job), self._hold)

    @property
    def running(self) -> bool:
        """Whether anything was not seen to end, helpers included."""
        return bool(self._starts) or bool(self._jobs)

    async def adopt(self, handler: Job) -> None:
        """Book what a handler has left running behind the handle's back, as work that was not seen to end."""
        self._jobs[handler.work_id] = handler
        handler.on_end(self._on_end)
        try:
            await self._hold.say(
                cmd.StartWork,
                work_id=handler.work_id,
                kind=WorkKind.COROUTINE,
                name=f"left running by {handler.name}",
                policy=handler.policy,
                locator=handler.locator,
            )
        except Refused:
            return  # counted as unseen then, as a helper is
        self._booked.add(handler.work_id)

    def request_end(self) -> None:
        """Ask everything to end, what is just being started included."""
        self._ending = True
        for job in list(self._jobs.values()):
            job.request_cancel()

    async def retire(self, besides: tuple[Job, ...] = ()) -> tuple[Retired, tuple[str, ...]]:
        """Ask everything to end and observe what does, within the policies' graces. Returns delivered requests too."""
        self._retiring = True
        self.request_end()
        if self._starts:
            await asyncio.wait(self._starts)
        delivered: list[str] = []

        async def note(job: Job, arrived: bool) -> None:  # noqa: FBT001 - the callback's shape
            if arrived and job.work_id in self._booked:
                delivered.append(job.work_id)

        jobs = {job.work_id: job for job in (*self._jobs.values(), *besides)}
        retired = await retire(list(jobs.values()), on_cancel=note)
        return retired, tuple(delivered)

    def ended(self, retired: Retired) -> tuple[cmd.Ended, ...]:
        """The booked works that were seen to end and not reported, for the release."""
        return tuple(
            cmd.Ended(work_id=work_id, how=outcome.how, result=result_body(outcome))
            for work_id, outcome in retired.ended.items()
            if work_id in self._booked and work_id not in self._reported
        )

    def stated(self, ended: tuple[cmd.Ended, ...]) -> None:
        """Note that the ledger has taken these ends. Before that they count as not reported."""
        self._reported.update(end.work_id for end in ended)

    def unseen_helpers(self, retired: Retired) -> int:
        """How many helpers were not seen to end."""
        return sum(1 for job in retired.unseen if job.work_id not in self._booked)

    def keep_watching(self) -> None:
        """After the tenure: report what ends later, one by one."""
        self._retiring = False
        for job in list(self._jobs.values()):
            if job.outcome is not None:
                self._on_end(job)

    async def reported(self, timeout: float) -> None:
        """Wait until running reports are in the ledger, ``timeout`` seconds at most."""
        await asyncio.sleep(0)  # an end that was just seen is told in the loop's next cycle
        if self._reports:
            await asyncio.wait(self._reports, timeout=timeout)

    def admit(self, policy: str | Policy) -> Policy:
        """The class under which a work may be started now.

        Raises:
            Refused: ``retiring``, ``misuse``, ``deadline_below_grace``. Fenced: the tenure is not valid any more.
        """
        self._hold.check_open()
        chosen = policy_of(policy, self._hold.graph)
        self._hold.settings.check_policy(chosen)
        return chosen

    def _start(self, job: Job) -> Work[Any]:
        return Work(job, self._begin(job))

    def _begin(self, job: Job) -> asyncio.Task[None]:
        task = background(self._book_and_start(job), name=f"start:{job.name}")
        self._starts.add(task)
        task.add_done_callback(self._starts.discard)
        return task

    async def _book_and_start(self, job: Job) -> None:
        """The books first: what runs without being on them could be forgotten."""
        if job.policy.booked:
            try:
                await self._hold.say(
                    cmd.StartWork,
                    work_id=job.work_id,
                    kind=job.kind,
                    name=job.name,
                    policy=job.policy,
                    locator=job.locator,
                )
            except TenureError:
                job.discard()
                raise
            self._booked.add(job.work_id)
        self._jobs[job.work_id] = job
        job.on_end(self._on_end)
        if self._ending:
            job.request_cancel()
        await job.start()
        if job.policy.booked and job.locator is not None and job.locator.group:
            await self._hold.say(cmd.LocateWork, work_id=job.work_id, locator=job.locator)

    def _on_end(self, job: Job) -> None:
        if self._retiring:
            return  # the release states it
        self._jobs.pop(job.work_id, None)
        if job.work_id not in self._booked or job.work_id in self._reported:
            return
        self._reported.add(job.work_id)
        task = background(self._report(job), name=f"report:{job.name}")
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def _report(self, job: Job) -> None:
        outcome = job.outcome
        if outcome is None:
            return
        seen_by = EvidenceKind.STATUS if job.kind is WorkKind.REMOTE else EvidenceKind.ENDED
        await report_end(self._hold, job.work_id, outcome.how, result_body(outcome), seen_by)


async def report_end(
    hold: Hold,
    work_id: str,
    how: WorkEnd,
    result: Body | None = None,
    evidence: EvidenceKind = EvidenceKind.ENDED,
) -> None:
    """Tell the ledger that a work was seen to end; one that is off the books already needs no telling."""
    try:
        await hold.report(
            cmd.EndWork, work_id=work_id, instance=hold.instance, how=how, result=result, evidence=evidence
        )
    except Refused as error:
        if error.code != "unknown_work":
            raise


def result_body(outcome: Outcome) -> Body | None:
    """What a work brought, for whoever owns the task next; ``None`` when it has no JSON form."""
    return body_of(outcome.value if outcome.error is None else {"error": words_of(outcome.error)})


async def _stop(provider: pv.Provider, reference: str) -> Reply:
    """Ask for the end of remote work. What is no yes is a no, and what is no answer is not known."""
    answer = await provider.stop(reference)  # type: ignore[attr-defined]  # optional, asked for before
    match answer:
        case pv.Accepted() | pv.Cancelled():
            return "accepted"
        case pv.Declined() | pv.Failed():
            return "refused"
        case _:
            return "unknown"
