"""One complete handoff, command by command: submit, own, transfer, acknowledge and own, complete.

The bodies have the size that real ones have (a payload of about 700 bytes), the ids the length of the runtime's. What
a caller would have at hand anyway (encoded bodies and their digests) is made before any clock starts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec
from msgspec import Struct

from tenure.protocol import commands as cmd
from tenure.protocol.body import Body
from tenure.protocol.decisions import CompleteWith, TransferTo
from tenure.protocol.payload import Fact, Payload
from tenure.protocol.settings import DAY, Settings
from tenure.protocol.state import Candidate

STEPS = ("submit", "own", "transfer", "acknowledge", "complete")
"""The commands of one handoff in order; each is one durable step."""

SENDER, RECEIVER = "triage", "billing"
INSTANCES = {SENDER: "i-00000000000000000001", RECEIVER: "i-00000000000000000002"}
GOAL = "Refund order A17 of customer-07 if the rules allow it, and tell the customer what was decided."
CONSTRAINTS = ("Never refund more than was paid.", "Above 50 EUR a person decides.")

SETTINGS = Settings(pickup_ms=DAY)
"""Offers that outlive the longest benchmark; everything else as it comes."""


class Ready(Struct, frozen=True):
    """A handoff whose bodies are encoded: what the caller of each step starts from."""

    task_id: str
    payload: Body
    digest: str
    handover: Body
    handover_digest: str
    result: Body


def task_id(n: int, series: str = "") -> str:
    """The ``n``-th id of a series: as long as the runtime's, and as scattered."""
    return "t-" + hashlib.sha256(f"{series}|{n}".encode()).hexdigest()[:20]


def command_id(task: str, step: int) -> str:
    """Id of a task's command."""
    return f"c-{task[2:-1]}{step}"


def ready(task: str) -> Ready:
    """Encode what one handoff needs."""
    payload, handover = _payload(task, "", 0), _payload(task, f"h-{task[2:]}", 1)
    result = Body(msgspec.json.encode({"refunded": 4200, "reference": "r-" + task[2:]}), task[2:14] * 2)
    return Ready(task, payload, payload.digest, handover, handover.digest, result)


def _payload(task: str, handoff_id: str, hop: int) -> Body:
    payload = Payload(
        task_id=task,
        handoff_id=handoff_id,
        hop=hop,
        goal=GOAL,
        trigger="classification",
        summary="The customer returned the kettle of order A17; the parcel was scanned at the depot on Monday.",
        constraints=CONSTRAINTS,
        decisions=("The return is within 30 days.",),
        done=(Fact(id="f-1", what="looked the order up", outcome="done", reference="A17", by=SENDER),),
        data={"order": "A17", "cents": 4200, "customer": "customer-07", "items": ["kettle", "filter"]},
    )
    return Body(msgspec.json.encode(payload), task[2:14] * 2)


def _submit(job: Ready, epoch: int) -> cmd.Command:
    del epoch
    task = job.task_id
    return cmd.Submit(
        command_id=command_id(task, 0),
        root_id=task,
        task_id=task,
        candidates=(Candidate(agent=SENDER),),
        payload=job.payload,
        settings=SETTINGS,
    )


def _acknowledge(job: Ready, epoch: int, step: int, agent: str, digest: str) -> cmd.Command:
    return cmd.Acknowledge(
        command_id=command_id(job.task_id, step),
        root_id=job.task_id,
        task_id=job.task_id,
        epoch=epoch,
        agent=agent,
        instance=INSTANCES[agent],
        digest=digest,
    )


def _transfer(job: Ready, epoch: int) -> cmd.Command:
    handoff_id = f"h-{job.task_id[2:]}"
    decision = TransferTo(handoff_id=handoff_id, candidates=(Candidate(agent=RECEIVER),), payload=job.handover)
    return _retire(job, epoch, 2, SENDER, decision)


def _retire(job: Ready, epoch: int, step: int, agent: str, decision: TransferTo | CompleteWith) -> cmd.Command:
    return cmd.Retire(
        command_id=command_id(job.task_id, step),
        root_id=job.task_id,
        task_id=job.task_id,
        epoch=epoch,
        instance=INSTANCES[agent],
        decision=decision,
        quiet=True,
    )


COMMANDS: tuple[Callable[[Ready, int], cmd.Command], ...] = (
    _submit,
    lambda job, epoch: _acknowledge(job, epoch, 1, SENDER, job.digest),
    _transfer,
    lambda job, epoch: _acknowledge(job, epoch, 3, RECEIVER, job.handover_digest),
    lambda job, epoch: _retire(job, epoch, 4, RECEIVER, CompleteWith(result=job.result)),
)
"""What makes each step's command of a job and the task's epoch (the one in the receipt before it)."""
