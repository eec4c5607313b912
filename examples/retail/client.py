"""A small async client of the retail service that says exactly as much as it knows about a write.

Four things can become of a write, and they are four types:

- the service answered: `Applied`, `Refused`, `InFlight` or `Sealed` is returned;
- the request provably never left: `NotSent` is raised;
- the request may have been acted on, and nobody here knows: `OutcomeUnknown` is raised;
- the request was no valid one, and nothing was done: `Misuse` is raised.

A coroutine that is cancelled while it waits for an answer leaves its write as unknown as a time-out does.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Mapping
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote

import httpx2
import msgspec

from examples.retail.rules import Changes, Record

T = TypeVar("T")

PAUSE = 0.1  # s before a read is repeated; doubled each time
NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
"""What is raised before a byte of the request is written. Everything else may come after."""


class RetailError(Exception):
    """Something else than an answer to the question; the subclass says what is known about the request."""


class NotSent(RetailError):
    """No connection was made: the service cannot have acted on the request."""


class OutcomeUnknown(RetailError):
    """The request may have been acted on: it timed out, its connection broke, or the answer was a 5xx."""


class Misuse(RetailError):
    """The service turned the request away as no valid one and did nothing: wrong arguments, key of another call."""


class NotFound(RetailError):
    """The service answered that there is no such record or namespace."""


class Applied(msgspec.Struct, frozen=True):
    """The write is on the books, by this call or by an earlier one with the same key (`repeated`)."""

    reference: str
    result: Record
    """The order, or the user, after the write."""
    repeated: bool = False


class Refused(msgspec.Struct, frozen=True):
    """The rules forbid the write; nothing changed, and the key gives this answer for good."""

    reference: str
    reason: str
    repeated: bool = False


class InFlight(msgspec.Struct, frozen=True):
    """A call with this key is being acted on at this moment; ask again later."""


class Sealed(msgspec.Struct, frozen=True):
    """The key was sealed before anything came under it; nothing was or will be done under it."""


class Known(msgspec.Struct, frozen=True):
    """What the service has on record under a key.

    `absent` alone proves nothing: the call may still be on its way. `absent` and `sealed` proves that the write was
    not done and never will be.
    """

    key: str
    state: Literal["applied", "refused", "absent", "in_flight"]
    sealed: bool = False
    reference: str | None = None
    operation: str | None = None
    reason: str | None = None
    result: Record | None = None


class Application(msgspec.Struct, frozen=True):
    """One real change of the books: `digest` is that of operation and arguments, `at` ms since the Unix epoch."""

    number: int
    ns: str
    key: str
    operation: str
    digest: str
    at: int


class RetailClient:
    """Talks to one service. Use it as an async context manager, or call `close`."""

    def __init__(self, url: str, *, timeout: float = 5.0) -> None:
        """`url` as the service printed it; `timeout` in seconds for each step of a request."""
        # Proxies of the environment are for the outside world, not for a service on this machine.
        self._http = httpx2.AsyncClient(base_url=url, timeout=timeout, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def open_namespace(self, ns: str, *, attempts: int = 1) -> None:
        """Make the namespace, a copy of the data of its own, unless it exists; may be repeated freely."""
        await self._repeat(attempts, "PUT", f"/ns/{ns}")

    async def read(self, ns: str, tool: str, arguments: Mapping[str, str], *, attempts: int = 1) -> Any:
        """Return what a read gives: an id for ``find_user_…``, a record for ``get_…``, names and ids for ``list_…``.

        Raises:
            NotFound: there is no such user, order, product, item or namespace.
            NotSent, OutcomeUnknown: no answer, `attempts` times in a row.
            Misuse: no such read, or other arguments.
        """
        answer = await self._repeat(attempts, "GET", f"/ns/{ns}/reads/{tool}", params=dict(arguments))
        return _decode(answer, dict[str, Any])["result"]

    async def write(
        self, ns: str, operation: str, arguments: Mapping[str, Any], key: str
    ) -> Applied | Refused | InFlight | Sealed:
        """Ask for one write under its idempotency key, once: whether to ask again is the caller's decision.

        Raises:
            NotSent, OutcomeUnknown, Misuse, NotFound: see their own texts.
        """
        path, headers = f"/ns/{ns}/writes/{operation}", {"Idempotency-Key": key}
        answer = await self._send("POST", path, json=dict(arguments), headers=headers)
        if answer.status_code == httpx2.codes.CONFLICT:
            return InFlight()
        if answer.status_code == httpx2.codes.LOCKED:
            return Sealed()
        _check(answer)
        fields = _decode(answer, dict[str, Any])
        fields["repeated"] = answer.headers.get("idempotent-replayed") == "true"
        return _convert(fields, Applied) if fields.get("outcome") == "applied" else _convert(fields, Refused)

    async def lookup(self, ns: str, key: str) -> Known:
        """Return what is on record under `key`."""
        answer = await self._send("GET", _key_path(ns, key))
        return _decode(_check(answer), Known)

    async def seal(self, ns: str, key: str) -> Known:
        """Make sure that nothing new is done under `key`, and return what was done before; may be repeated freely."""
        answer = await self._send("POST", _key_path(ns, key) + "/seal")
        return _decode(_check(answer), Known)

    async def changes(self, ns: str) -> Changes:
        """Return the orders and users that differ from the data."""
        return _decode(_check(await self._send("GET", f"/ns/{ns}/changes")), Changes)

    async def log(self, ns: str | None = None) -> list[Application]:
        """Return every real change of the books, oldest first: of one namespace or of all."""
        answer = _check(await self._send("GET", "/log" if ns is None else f"/ns/{ns}/log"))
        return _decode(answer, dict[str, list[Application]])["applications"]

    async def status(self) -> dict[str, Any]:
        """Return the service's own counts."""
        return _decode(_check(await self._send("GET", "/status")), dict[str, Any])

    async def set_faults(self, faults: Mapping[str, Any]) -> None:
        """Replace every fault of the service; ``{}`` ends them all, an outage too."""
        _check(await self._send("PUT", "/faults", json=dict(faults)))

    async def _repeat(self, attempts: int, method: str, path: str, **request: Any) -> httpx2.Response:
        """Send what may be sent twice, until there is an answer."""
        for left in reversed(range(attempts)):
            try:
                return _check(await self._send(method, path, **request))
            except (NotSent, OutcomeUnknown):
                if not left:
                    raise
                await asyncio.sleep(PAUSE * 2 ** (attempts - 1 - left))
        raise ValueError("attempts must be at least 1")

    async def _send(self, method: str, path: str, **request: Any) -> httpx2.Response:
        try:
            answer = await self._http.request(method, path, **request)
        except NEVER_SENT as error:
            raise NotSent(f"{method} {path}: {error!r}") from error
        except httpx2.TransportError as error:
            raise OutcomeUnknown(f"{method} {path}: {error!r}") from error
        if answer.is_server_error:
            # Even a 503: this service means "nothing done", but whatever stands in between may say the same.
            raise OutcomeUnknown(f"{method} {path}: answered {answer.status_code}")
        return answer


def _key_path(ns: str, key: str) -> str:
    return f"/ns/{ns}/writes/{quote(key, safe='')}"


def _check(answer: httpx2.Response) -> httpx2.Response:
    if answer.is_success:
        return answer
    text = _decode(answer, dict[str, Any]).get("message", answer.text)
    if answer.status_code == httpx2.codes.NOT_FOUND:
        raise NotFound(text)
    raise Misuse(text)


def _decode(answer: httpx2.Response, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.content, type=shape)
    except msgspec.DecodeError as error:
        raise OutcomeUnknown(
            f"answered {answer.status_code} with something else than was asked for: {error}"
        ) from error


def _convert(fields: dict[str, Any], shape: type[T]) -> T:
    try:
        return msgspec.convert(fields, shape)
    except msgspec.ValidationError as error:
        raise OutcomeUnknown(f"answered with something else than was asked for: {error}") from error
