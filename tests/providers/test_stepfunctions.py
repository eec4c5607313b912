"""Executions of Step Functions as effects, against moto's server on loopback."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError
from moto.server import ThreadedMotoServer

from tenure import Accepted, Cancelled, Confirmed, Failed, Inconclusive, NotFound, NotSent
from tenure.errors import Refused
from tenure.providers.stepfunctions import UNSENT, StepFunctions, answer_of
from tenure.runtime.provider import can
from tests.runtime.harness import until

ROLE = "arn:aws:iam::123456789012:role/steps"
NOWHERE = "arn:aws:states:eu-west-1:123456789012:stateMachine:nowhere"
STATES: dict[str, dict[str, Any]] = {
    "pass": {"Type": "Pass", "End": True},
    "fail": {"Type": "Fail", "Error": "Broken", "Cause": "on purpose"},
    "wait": {"Type": "Wait", "Seconds": 60, "End": True},
}


def session() -> boto3.Session:
    return boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name="eu-west-1")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of the server, which really executes state machines."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    configure(f"http://{host}:{port}")
    yield f"http://{host}:{port}"
    server.stop()


def configure(address: str) -> None:
    from urllib.request import Request, urlopen

    body = json.dumps({"stepfunctions": {"execute_state_machine": True}}).encode()
    with urlopen(Request(f"{address}/moto-api/config", body, {"Content-Type": "application/json"})) as answer:
        assert answer.status == 201


class Machines:
    """State machines of one state, and providers of them."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.client = session().client("stepfunctions", endpoint_url=endpoint)
        self.arns = {name: self.made(name, state) for name, state in STATES.items()}

    def made(self, name: str, state: dict[str, Any], **options: Any) -> str:
        """Make a machine of one state; its ARN."""
        definition = json.dumps({"StartAt": "only", "States": {"only": state}})
        made = self.client.create_state_machine(name=name, definition=definition, roleArn=ROLE, **options)
        return str(made["stateMachineArn"])

    def provider(self, name: str) -> StepFunctions:
        return StepFunctions("steps", self.arns[name], session=session(), endpoint=self.endpoint)

    def count(self, name: str) -> int:
        return len(self.client.list_executions(stateMachineArn=self.arns[name])["executions"])


@pytest.fixture(scope="module")
def machines(endpoint: str) -> Iterator[Machines]:
    made = Machines(endpoint)
    yield made
    for arn in made.arns.values():
        running = made.client.list_executions(stateMachineArn=arn, statusFilter="RUNNING")["executions"]
        for execution in running:
            made.client.stop_execution(executionArn=execution["executionArn"])
    made.client.close()


async def ended(provider: StepFunctions, request: Any, key: str) -> Any:
    async def over() -> Any:
        answer = await provider.lookup(request, key=key)
        return None if isinstance(answer, Accepted) else answer

    return await until(over)


async def test_an_execution_that_succeeds_is_confirmed_with_its_output(machines: Machines) -> None:
    provider = machines.provider("pass")
    accepted = await provider.apply({"cents": 5}, key="success")
    assert isinstance(accepted, Accepted)
    assert await ended(provider, {"cents": 5}, "success") == Confirmed({"cents": 5}, reference=accepted.reference)


async def test_a_repeated_key_starts_nothing_while_it_runs_and_afterwards(machines: Machines) -> None:
    provider = machines.provider("pass")
    before = machines.count("pass")
    await provider.apply({"cents": 5}, key="twice")
    confirmed = await ended(provider, {"cents": 5}, "twice")
    assert await provider.apply({"cents": 5}, key="twice") == confirmed
    assert machines.count("pass") == before + 1
    waiting = machines.provider("wait")
    before = machines.count("wait")
    answers = [await waiting.apply({"cents": 5}, key="twice") for _ in range(2)]
    assert answers[0] == answers[1] == await waiting.lookup({"cents": 5}, key="twice")
    assert isinstance(answers[0], Accepted)
    assert machines.count("wait") == before + 1


async def test_an_execution_that_fails_has_failed(machines: Machines) -> None:
    provider = machines.provider("fail")
    await provider.apply({}, key="failure")
    answer = await ended(provider, {}, "failure")
    assert isinstance(answer, Failed)
    assert answer.reason.startswith("FAILED")


async def test_a_running_execution_is_cancelled_when_it_is_seen_aborted(machines: Machines) -> None:
    provider = machines.provider("wait")
    accepted = await provider.apply({}, key="cancel")
    assert isinstance(accepted, Accepted)
    assert await provider.cancel({}, key="cancel") in (accepted, Cancelled(accepted.reference))
    assert await ended(provider, {}, "cancel") == Cancelled(accepted.reference)


async def test_a_cancellation_of_what_has_succeeded_changes_nothing(machines: Machines) -> None:
    provider = machines.provider("pass")
    await provider.apply({}, key="late")
    confirmed = await ended(provider, {}, "late")
    assert isinstance(confirmed, Confirmed)
    assert await provider.cancel({}, key="late") == confirmed


async def test_what_was_not_started_is_not_found_and_not_final(machines: Machines) -> None:
    provider = machines.provider("pass")
    assert await provider.lookup({}, key="never") == NotFound(final=False)
    assert await provider.cancel({}, key="never") == NotFound(final=False)


async def test_another_request_under_the_same_key_does_nothing(machines: Machines) -> None:
    provider = machines.provider("wait")
    accepted = await provider.apply({"cents": 5}, key="other")
    for ask in (provider.apply, provider.lookup, provider.cancel):
        assert isinstance(await ask({"cents": 6}, key="other"), Inconclusive)
    assert await provider.lookup({"cents": 5}, key="other") == accepted


async def test_where_no_machine_is_nothing_is_sent(machines: Machines) -> None:
    provider = StepFunctions("steps", NOWHERE, session=session(), endpoint=machines.endpoint)
    with pytest.raises(NotSent, match="StateMachineDoesNotExist"):
        await provider.apply({}, key="k")


async def test_nothing_is_started_in_an_express_machine(machines: Machines) -> None:
    arn = machines.made("express", STATES["pass"], type="EXPRESS")
    provider = StepFunctions("steps", arn, session=session(), endpoint=machines.endpoint)
    for _ in range(2):
        with pytest.raises(NotSent, match="keeps no names"):
            await provider.apply({}, key="k")
    # The real service has no such list for an express machine; moto has one, and it is empty.
    assert machines.client.list_executions(stateMachineArn=arn)["executions"] == []


async def test_a_machine_that_is_gone_when_a_call_is_repeated_refuses_nothing(machines: Machines) -> None:
    arn = machines.made("brief", STATES["wait"])
    provider = StepFunctions("steps", arn, session=session(), endpoint=machines.endpoint)
    assert isinstance(await provider.apply({}, key="gone"), Accepted)
    machines.client.delete_state_machine(stateMachineArn=arn)
    with pytest.raises(ClientError, match="StateMachineDoesNotExist"):
        await provider.apply({}, key="gone")
    # moto forgets the execution with its machine; the real service ends it first, and keeps it.
    assert await provider.lookup({}, key="gone") == NotFound(final=False)


async def test_a_service_that_cannot_be_reached_has_heard_nothing() -> None:
    provider = StepFunctions("steps", NOWHERE, session=session(), endpoint="http://127.0.0.1:1")
    with pytest.raises(NotSent):
        await provider.apply({}, key="k")


async def test_without_credentials_nothing_is_sent(machines: Machines) -> None:
    provider = machines.provider("pass")
    await provider.apply({}, key="with credentials")
    before = machines.count("pass")
    provider._client()._request_signer._credentials = None
    with pytest.raises(NotSent, match="NoCredentialsError"):
        await provider.apply({}, key="without")
    assert machines.count("pass") == before


@pytest.mark.parametrize("kind", UNSENT)
async def test_what_fails_before_the_first_byte_of_a_start_is_not_sent(
    machines: Machines, kind: type[BotoCoreError]
) -> None:
    words = {"endpoint_url": "here", "error": "e", "provider": "p", "error_msg": "e", "cred_var": "v"}
    provider, sent = await failing(machines, kind(**words))
    with pytest.raises(NotSent):
        await provider.apply({}, key="unsent")
    assert sent == ["StartExecution"]


async def test_a_read_that_takes_too_long_leaves_a_doubt(machines: Machines) -> None:
    provider, sent = await failing(machines, ReadTimeoutError(endpoint_url="here"))
    with pytest.raises(ReadTimeoutError):
        await provider.apply({}, key="doubt")
    assert sent == ["StartExecution"]


async def failing(machines: Machines, error: Exception) -> tuple[StepFunctions, list[str]]:
    """A provider whose next start fails, and what it sent by then."""
    provider = machines.provider("pass")
    await provider.apply({}, key="a start that works")  # the machine is known to be a standard one
    sent: list[str] = []

    def fail(model: Any, **_: Any) -> None:
        sent.append(model.name)
        raise error

    provider._client().meta.events.register("before-call.sfn", fail)
    return provider, sent


async def test_a_service_that_hangs_up_leaves_a_doubt_and_is_asked_once(machines: Machines) -> None:
    """The machine is described; what is asked next is cut."""
    heard: list[bytes] = []
    host, _, port = machines.endpoint.removeprefix("http://").rpartition(":")

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        answers: asyncio.Task[None] | None = None

        async def pass_on() -> None:
            while got := await there.read(65536):
                writer.write(got)
                await writer.drain()

        answers = asyncio.create_task(pass_on())
        while sent := await reader.read(65536):
            heard.append(sent)
            if b"StartExecution" in sent:
                break
            back.write(sent)
            await back.drain()
        answers.cancel()
        for each in (back, writer):
            each.close()
            with contextlib.suppress(OSError):
                await each.wait_closed()

    async with await asyncio.start_server(carry, "127.0.0.1", 0) as server:
        here = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        provider = StepFunctions("steps", machines.arns["pass"], session=session(), endpoint=here)
        with pytest.raises(BotoCoreError, match="onnection"):
            await provider.apply({}, key="k")
    assert sum(b"AWSStepFunctions.StartExecution" in each for each in heard) == 1


def test_what_a_description_shows() -> None:
    shown = {
        status: answer_of({"executionArn": "a", "status": status}) for status in ("TIMED_OUT", "PENDING_REDRIVE", "?")
    }
    assert shown == {
        "TIMED_OUT": Failed("TIMED_OUT"),
        "PENDING_REDRIVE": Accepted("a"),
        "?": Inconclusive("Its status is ?."),
    }


def test_keys_count_in_the_machine_and_only_a_machine_will_do() -> None:
    assert StepFunctions("steps", f"{NOWHERE}:live").key_scope == NOWHERE
    with pytest.raises(Refused, match="no ARN"):
        StepFunctions("steps", "arn:aws:states:eu-west-1:123456789012:activity:pack")


def test_it_can_be_cancelled_but_neither_sealed_nor_undone() -> None:
    provider = StepFunctions("steps", NOWHERE)
    names = ("lookup", "cancel", "seal", "compensate", "lookup_compensation")
    assert [can(provider, each) for each in names] == [True, True, False, False, False]
    assert provider.idempotent_for == 90 * 24 * 3600
