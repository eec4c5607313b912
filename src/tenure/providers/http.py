"""HTTP with ``Idempotency-Key``: which answer of a service is which evidence.

================================================  =========================================================
the service                                       the evidence
================================================  =========================================================
2xx                                               ``Confirmed``; 202 of a job ``Accepted``, of none ``Inconclusive``
a status that refuses (:data:`REFUSALS`)          ``Declined``: it was not done
one of :data:`AHEAD` to a repeat                  ``Inconclusive``: the request before may have been done
409: a request with the key is in flight          waited for, then asked again; at last ``Inconclusive``
422: the key has met another request              ``Inconclusive``: nothing of this one, a person has to look
429 and 503                                       sent again after ``Retry-After`` where the key allows it
another status, a time-out, a dropped connection  ``Inconclusive``, or raised as it is: it proves nothing
no connection                                     ``NotSent``: no byte of the request has left
================================================  =========================================================

Needs the extra ``http``.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

import httpx2
import stamina
from msgspec import Struct

from tenure.errors import Refused
from tenure.runtime import provider as pv
from tenure.runtime.provider import Answer, Provider

REFUSALS = frozenset({400, 401, 402, 403, 404, 405, 406, 410, 411, 413, 414, 415, 451})
"""Statuses by which a service says that it has not done what it was asked for."""

AHEAD = frozenset({400, 401, 403, 404, 405, 406, 411, 413, 414, 415})
"""Refusals that a service, or what stands before it, may give before it has looked for the key. After a request whose
fate is not known they say nothing of that one: a token may have expired since, a route be gone."""

OTHER_REQUEST = 422
"""The status for a key that was used with another request."""
MET_ANOTHER = "422: the key was used with another request; what became of that one must be seen"

LATER = frozenset({409, 429, 503})
"""Statuses after which the same request, under the same key, may get another answer."""

TRIES = 4
"""How often a request is sent under one key within one call, where the service answers that it is too early."""
LONGEST_WAIT = 5.0
FIRST_WAIT = 0.1

UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
"""Raised before a connection is there to write to: names, TCP and TLS come before the first byte of a request."""

PLACE = re.compile(r"\{(\w+)\}")

Judge = Callable[[int, Any], "Answer | None"]
"""Says what an answer of the service means (status, decoded body); ``None`` leaves it to the rules above."""


Method = Callable[..., Awaitable[Answer]]


class Endpoint(Struct, frozen=True):
    """One request of the service. ``path`` may name ``{key}``, ``{reference}`` and fields of the effect's request."""

    path: str
    method: str = "POST"


class Offers(Struct, frozen=True, kw_only=True):
    """What the service offers besides the request that acts. What is ``None`` the provider does not have."""

    lookup: Endpoint | None = None
    cancel: Endpoint | None = None
    compensate: Endpoint | None = None
    lookup_compensation: Endpoint | None = None
    seal: Endpoint | None = None


class Keys(Struct, frozen=True, kw_only=True):
    """How the service treats keys.

    Attributes:
        kept_for, undo_kept_for: seconds for which a repeated key of ``apply``, or of ``compensate``, is answered
            from the record; 0 when it is not.
        scope: where a key counts; the base URL by default. header: in which it stands.
    """

    kept_for: float = 0
    undo_kept_for: float = 0
    scope: str = ""
    header: str = "Idempotency-Key"


class Reading(Struct, frozen=True, kw_only=True):
    """How its answers are read.

    Attributes:
        reference: field that names the effect there. job: 202 means that a job was taken on.
        refusals: statuses by which the service itself refuses, also a repeat; by default those of :data:`REFUSALS`, and
            of a repeat not those of :data:`AHEAD`.
        judge: reads answers that need more than a status.
    """

    reference: str = "id"
    job: bool = False
    refusals: frozenset[int] | None = None
    judge: Judge | None = None


class Http(Provider):
    """A service that takes requests with a key in a header.

    ============  =====================================================================================
    idempotent    with ``Keys(kept_for=…)``: the service answers a repeated key from its record
    queryable     with ``Offers(lookup=…)``; 404 is "not found", which proves nothing by itself
    cancellable   with ``Offers(cancel=…)``; only a ``judge`` can tell that the end was seen
    reversible    with ``Offers(compensate=…)``, under a key of its own
    ============  =====================================================================================

    Args:
        name: of the provider. base: URL before every path. apply: the request that acts, or its path.
        offers, keys, reading: see there. headers: sent along with every request. timeout: seconds for one request.
        in_flight_limit: see :class:`Provider`.
    """

    def __init__(
        self,
        name: str,
        base: str,
        apply: Endpoint | str,
        *,
        offers: Offers | None = None,
        keys: Keys | None = None,
        reading: Reading | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 20,
        in_flight_limit: float = 0,
    ) -> None:
        """Nothing is connected before the first request.

        Raises:
            Refused: ``misuse`` for jobs looked up without a ``judge``: a status does not tell whether one ended.
        """
        offers, keys, reading = offers or Offers(), keys or Keys(), reading or Reading()
        if reading.job and offers.lookup and reading.judge is None:
            raise Refused("misuse", f"{name}: how a job stands is in the body; give a judge that reads it.")
        self.name = name
        self.idempotent_for = keys.kept_for
        self.undo_idempotent_for = keys.undo_kept_for
        self.in_flight_limit = in_flight_limit
        self.key_scope = keys.scope or base
        self._base = base.rstrip("/")
        self._apply = Endpoint(apply) if isinstance(apply, str) else apply
        self._header = keys.header
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._reading = reading
        self._met_another: set[str] = set()
        self._client: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # What the service does not offer is not there: the runtime asks for the method.
        self.lookup = self._looking(offers.lookup)
        self.lookup_compensation = self._looking(offers.lookup_compensation)
        self.cancel = self._asking(offers.cancel)
        self.compensate = self._undoing(offers.compensate)
        self.seal = self._sealing(offers.seal)

    async def apply(self, request: Any, *, key: str, repeat: bool | None = None) -> Answer:
        """Ask for it under its key. Where nobody says whether it is a ``repeat``, and keys are kept, it may be one."""
        return await self._act(self._apply, request, key, "", again=self.idempotent_for > 0, repeat=repeat)

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    # --- the optional methods -----------------------------------------------------------------------------------

    def _undoing(self, endpoint: Endpoint | None) -> Method | None:
        async def call(request: Any, *, key: str, reference: str = "", repeat: bool | None = None) -> Answer:
            again = self.undo_idempotent_for > 0
            return await self._act(endpoint, request, key, reference, again=again, repeat=repeat)

        return call if endpoint else None

    def _asking(self, endpoint: Endpoint | None) -> Method | None:
        async def call(request: Any, *, key: str, reference: str = "") -> Answer:
            response = await self._send(endpoint, request, key, reference)
            # That the request to end it was taken is no end.
            return self._judged(response) or pv.Inconclusive(f"answered {response.status_code}")

        return call if endpoint else None

    def _looking(self, endpoint: Endpoint | None) -> Method | None:
        @stamina.retry(on=httpx2.TransportError, attempts=3, timeout=self._timeout)
        async def get(request: Any, key: str, reference: str) -> httpx2.Response:
            return await self._send(endpoint, request, key, reference)

        async def call(request: Any, *, key: str, reference: str = "") -> Answer:
            if key in self._met_another:
                return pv.Inconclusive(MET_ANOTHER)  # what is found under it is of that request
            response = await get(request, key, reference)
            judged = self._judged(response)
            if judged is not None:
                return judged
            if response.status_code == httpx2.codes.NOT_FOUND:
                return pv.NotFound()
            return self._positive(response) or pv.Inconclusive(f"answered {response.status_code}")

        return call if endpoint else None

    def _sealing(self, endpoint: Endpoint | None) -> Method | None:
        async def call(request: Any, *, key: str, reference: str = "") -> Answer:
            response = await self._send(endpoint, request, key, reference)
            judged = self._judged(response)
            if judged is not None:
                return judged
            return pv.Sealed() if response.is_success else pv.Inconclusive(f"answered {response.status_code}")

        return call if endpoint else None

    # --- requests -----------------------------------------------------------------------------------------------

    async def _act(
        self, endpoint: Endpoint | None, request: Any, key: str, reference: str, *, again: bool, repeat: bool | None
    ) -> Answer:
        """Send a request that changes something, again only where the key makes that safe."""
        if key in self._met_another:
            return pv.Inconclusive(MET_ANOTHER)
        wait = FIRST_WAIT
        for attempt in range(1, TRIES + 1):
            try:
                response = await self._send(endpoint, request, key, reference, headers={self._header: key})
            except UNSENT as error:
                if attempt > 1:
                    raise  # this one has not left, and the one before has
                raise pv.NotSent(f"{type(error).__name__}: {error}") from error
            if response.status_code not in LATER or not again or attempt == TRIES:
                first = attempt == 1 and not (again if repeat is None else repeat)
                return self._answer(response, key, first=first)
            await asyncio.sleep(min(_retry_after(response) or wait, LONGEST_WAIT))
            wait *= 2
        raise AssertionError

    async def _send(
        self,
        endpoint: Endpoint | None,
        request: Any,
        key: str,
        reference: str,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """One request, with the same bytes each time: the body is canonical, so a repeat is recognised as one.

        The key stands in the header of what acts under it alone; in that of another request, it would stand for both.
        """
        if endpoint is None:
            raise Refused("misuse", f"{self.name} does not offer this.")
        path = _filled(endpoint.path, request, key=key, reference=reference)
        headers = {**self._headers, **(headers or {})}
        content = None
        if endpoint.method not in ("GET", "HEAD", "DELETE"):
            content = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
            headers["Content-Type"] = "application/json"
        client = await self._connected()
        return await client.request(endpoint.method, self._base + path, content=content, headers=headers)

    async def _connected(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            # It reads certificates from files when it is made. It follows no redirect: a redirected write would be
            # another request, somewhere else.
            self._client = await asyncio.to_thread(httpx2.AsyncClient, timeout=self._timeout, follow_redirects=False)
            self._loop = loop
        return self._client

    # --- answers ------------------------------------------------------------------------------------------------

    def _answer(self, response: httpx2.Response, key: str, *, first: bool) -> Answer:
        judged = self._judged(response) or self._positive(response)
        if judged is not None:
            return judged
        status = response.status_code
        if status == OTHER_REQUEST:
            self._met_another.add(key)
            return pv.Inconclusive(MET_ANOTHER)
        refusals = self._reading.refusals
        if refusals is None:
            refusals = REFUSALS if first else REFUSALS - AHEAD
        if status in refusals:
            return pv.Declined(f"answered {status}", _body(response))
        return pv.Inconclusive(f"answered {status}")

    def _positive(self, response: httpx2.Response) -> Answer | None:
        if not response.is_success:
            return None
        body = _body(response)
        named = body.get(self._reading.reference) if isinstance(body, dict) else None
        reference = "" if named is None else str(named)
        if response.status_code == httpx2.codes.ACCEPTED:
            # It will be done, or not: only of a job is it known how to ask.
            return pv.Accepted(reference, body) if self._reading.job else None
        return pv.Confirmed(body, reference)

    def _judged(self, response: httpx2.Response) -> Answer | None:
        judge = self._reading.judge
        return judge(response.status_code, _body(response)) if judge else None


def _filled(path: str, request: Any, *, key: str, reference: str) -> str:
    """A path with its places filled. No field of the request passes for the key or the reference.

    Raises:
        NotSent: a place has no value, or one that would lead to another path (``.``, ``..`` and none at all).
    """
    names = {**(request if isinstance(request, dict) else {}), "key": key, "reference": reference}

    def value(place: re.Match[str]) -> str:
        text = str(names.get(place[1], ""))
        if text in ("", ".", ".."):
            raise pv.NotSent(f"The path {path} names {place[1]!r}, which is {text!r} here.")
        return quote(text, safe="")

    return PLACE.sub(value, path)


def _body(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return response.text


def _retry_after(response: httpx2.Response) -> float:
    """Seconds of ``Retry-After``; 0 where it names none, or a date."""
    try:
        return max(float(response.headers.get("Retry-After", "0")), 0)
    except ValueError:
        return 0
