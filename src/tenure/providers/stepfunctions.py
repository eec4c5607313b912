"""An execution of an AWS Step Functions state machine as an effect. Extra: ``aws``."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
)

from tenure.errors import Refused
from tenure.protocol.body import text_digest
from tenure.runtime.content import canonical, words_of
from tenure.runtime.jobs.aside import aside
from tenure.runtime.provider import (
    Accepted,
    Answer,
    Cancelled,
    Confirmed,
    Declined,
    Failed,
    Inconclusive,
    NotFound,
    NotSent,
    Provider,
)

NINETY_DAYS = 90 * 24 * 3600.0
"""Seconds for which the service keeps a closed execution, and with it its name."""

ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1})
"""One call is one request: after a hidden repeat, "no connection" would not mean that nothing was sent."""

UNSENT = (
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
)
"""Errors before the first byte of a request: no connection was made, or there was nothing to sign it with."""

REFUSALS = frozenset({"InvalidArn", "InvalidExecutionInput", "InvalidName"})
"""Errors by which the service says that it started nothing for this request, never did and never will. That a machine
does not exist is none of them: it may have existed when an earlier request with this key was sent."""

ARN_PARTS = 7


class StepFunctions(Provider):
    """Executions of one *standard* state machine, each with a name that is derived from its key.

    Declares: *idempotent* for as long as the service keeps an execution (90 days unless the account has a shorter
    time), *queryable*, *cancellable*; not sealable, not reversible.

    Evidence, all of it from ``DescribeExecution`` or the answer of ``StartExecution``: ``Accepted`` is an execution
    that runs, with its ARN as the reference; ``Confirmed`` one that succeeded, with its output; ``Failed`` one that
    failed or timed out; ``Cancelled`` one that was aborted. So a state machine that has done something must undo it
    before it fails, or be one that can be trusted to have done nothing. ``NotFound`` is never final. ``NotSent`` says
    that no connection was made, that there are no credentials, or that the machine was not seen to be a standard one.
    Any other error, but for a refusal of the request itself, leaves the effect in doubt.

    An express state machine keeps no names, so nothing is started in one. The type is asked for once, which needs the
    permission ``states:DescribeStateMachine``.

    The request is the execution's input. An execution of this name with another input is ``Inconclusive``.

    Args:
        name: name of the provider. machine: ARN of the state machine; an alias or version may follow.
        session: credentials and region; by default those of the environment. endpoint: another address of the service.
        kept_for: seconds for which the account keeps closed executions.

    Raises:
        Refused: ``misuse`` for what is no ARN of a state machine.
    """

    def __init__(
        self,
        name: str,
        machine: str,
        *,
        session: boto3.Session | None = None,
        endpoint: str | None = None,
        kept_for: float = NINETY_DAYS,
    ) -> None:
        parts = machine.split(":")
        if len(parts) < ARN_PARTS or parts[2] != "states" or parts[5] != "stateMachine":
            raise Refused("misuse", f"{machine!r} is no ARN of a state machine.")
        self.name = name
        self.machine = machine
        # Names count in the machine, whichever alias or version starts the execution.
        self.key_scope = ":".join(parts[:ARN_PARTS])
        self.idempotent_for = kept_for
        self._executions = ":".join([*parts[:5], "execution", parts[6]])
        self._region = parts[3]
        self._session = session
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._made: Any = None
        self._standard = False

    async def apply(self, request: Any, *, key: str) -> Answer:
        """Start the execution, or say what became of the one that has its name.

        Raises:
            NotSent: no connection could be made, or the machine is none that keeps names. ClientError, BotoCoreError:
                anything else; it may have started.
        """
        return await aside(lambda: self._started(request, key))

    async def lookup(self, request: Any, *, key: str) -> Answer:
        """Describe the execution."""
        return await aside(lambda: self._described(request, key))

    async def cancel(self, request: Any, *, key: str) -> Answer:
        """Ask for the end of an execution that runs, and describe it: only an aborted one is cancelled."""
        return await aside(lambda: self._stopped(request, key))

    def _client(self) -> Any:
        """The client, which threads may share; making one they may not."""
        with self._lock:
            if self._made is None:
                session = self._session or boto3.Session()
                self._made = session.client(
                    "stepfunctions", region_name=self._region, endpoint_url=self._endpoint, config=ONCE
                )
            return self._made

    def _arn(self, key: str) -> str:
        return f"{self._executions}:{text_digest(key)}"

    def _safe_client(self) -> Any:
        """A client, once the machine was seen to be one that starts a name once.

        Raises:
            NotSent: it was not. Whatever failed, nothing was asked to start.
        """
        try:
            client = self._client()
            if not self._standard:
                # An alias cannot be described; a type is the machine's, and for ever.
                found = client.describe_state_machine(stateMachineArn=self.key_scope, includedData="METADATA_ONLY")
                self._standard = found["type"] == "STANDARD"
        except Exception as error:
            raise NotSent(words_of(error)) from error
        if not self._standard:
            raise NotSent("The state machine is not of the type STANDARD: it keeps no names.")
        return client

    def _started(self, request: Any, key: str) -> Answer:
        client = self._safe_client()
        try:
            started = client.start_execution(
                stateMachineArn=self.machine, name=text_digest(key), input=canonical(request).decode()
            )
        except UNSENT as error:
            raise NotSent(words_of(error)) from error
        except ClientError as error:
            code = _code(error)
            if code == "ExecutionAlreadyExists":
                return self._described(request, key)
            if code in REFUSALS:
                return Declined(words_of(error))
            raise
        return Accepted(started["executionArn"])

    def _described(self, request: Any, key: str) -> Answer:
        try:
            found = self._client().describe_execution(executionArn=self._arn(key))
        except ClientError as error:
            if _code(error) == "ExecutionDoesNotExist":
                return NotFound()
            raise
        given = found.get("input")
        if given is None or json.loads(given) != json.loads(canonical(request)):
            return Inconclusive("Another request is on record under this key, or its input is not shown.")
        return answer_of(found)

    def _stopped(self, request: Any, key: str) -> Answer:
        before = self._described(request, key)
        if not isinstance(before, Accepted):
            return before
        self._client().stop_execution(executionArn=before.reference, cause="cancelled by the owner of its task")
        return self._described(request, key)


def answer_of(found: Mapping[str, Any]) -> Answer:
    """What the description of an execution shows."""
    arn = str(found["executionArn"])
    match found["status"]:
        case "RUNNING" | "PENDING_REDRIVE":
            return Accepted(arn)
        case "SUCCEEDED":
            output = found.get("output")
            return Confirmed(None if output is None else json.loads(output), reference=arn)
        case "FAILED" | "TIMED_OUT" as status:
            reason = ": ".join(filter(None, (status, found.get("error"), found.get("cause"))))
            return Failed(reason)
        case "ABORTED":
            return Cancelled(arn)
        case status:
            return Inconclusive(f"Its status is {status}.")


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
