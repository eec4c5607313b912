"""The HTTP face of the service. Every path and every answer is described in `examples/retail/service/API.md`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from examples.retail.rules import BadArgumentsError, Books, check_arguments
from examples.retail.service.faults import FaultPlan, Faults
from examples.retail.service.store import Conflict, Known, NotFound, Sealed, Store, Written

P = ParamSpec("P")
T = TypeVar("T")
Read = Callable[[Store, Books, dict[str, str]], Any]

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
KEY = re.compile(r"[!-.0-~]{1,200}")  # printable ASCII without blank or slash: it stands in a path and in a header
DROP = "retail.drop"
"""Where the connection's way of ending without an answer stands in the scope (put there by `connection.py`)."""


class BadRequest(Exception):
    """The request is not one that this service understands; the text says what would be."""


class Json(Response):
    """A JSON answer, encoded by msgspec, structs included."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode `content`."""
        return msgspec.json.encode(content)


class Dropped(Response):
    """No answer at all: the connection is closed as a crash or a cut cable would close it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - nothing is sent
        """Close the connection, and wait until the server has seen that: else it would answer 500 itself."""
        scope[DROP]()
        while (await receive())["type"] != "http.disconnect":
            pass


class Service:
    """One running service: its store, its faults, and which keys are being acted on."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self.store = store
        self.plan = FaultPlan(faults)
        self.in_flight: Counter[tuple[str, str]] = Counter()
        self.requests: Counter[str] = Counter()
        self.stopping = asyncio.Event()
        # One thread: the store is used by one at a time, and the loop stays free while a commit waits for the disk.
        self._thread = ThreadPoolExecutor(1, "store")

    async def ask(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method of the store in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(function, *args, **kwargs))

    def close(self) -> None:
        """Let the store finish what it is doing and close it."""
        self._thread.submit(self.store.close).result()
        self._thread.shutdown()

    async def strikes(self, kind: str, arrival: str) -> bool:
        """Draw a fault without a duration, and count it durably when it happens."""
        struck = self.plan.strikes(kind, arrival)
        if struck:
            await self.ask(self.store.count, f"fault.{kind}")
        return struck

    async def wait(self, kind: str, arrival: str) -> None:
        """Draw a delay, count it durably, and sit it out; it is cut short when the service stops."""
        if seconds := self.plan.seconds(kind, arrival):
            await self.ask(self.store.count, f"fault.{kind}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), seconds)

    # Reads and writes of a namespace: everything that faults apply to

    async def open_namespace(self, request: Request) -> Response:
        """``PUT /ns/{ns}``."""
        ns = _name(request)
        created = await self.ask(self.store.open_namespace, ns)
        return Json({"ns": ns, "created": created})

    async def read(self, request: Request) -> Response:
        """``GET /ns/{ns}/reads/{tool}?…``."""
        tool = request.path_params["tool"]
        if tool not in READS:
            raise BadRequest(f"no read is called {tool!r}; there are {', '.join(READS)}")
        names, function = READS[tool]
        arguments = dict(request.query_params)
        if set(arguments) != set(names):
            raise BadRequest(f"{tool} takes {', '.join(names) or 'no arguments'}")
        arrival = self.plan.arrive(f"{request.url.path}?{request.url.query}")
        result = await self.ask(lambda: function(self.store, self.store.books(_name(request)), arguments))
        await self.wait("slow", arrival)
        return Json({"result": result})

    async def write(self, request: Request) -> Response:
        """``POST /ns/{ns}/writes/{operation}`` with ``Idempotency-Key``."""
        ns, operation = _name(request), request.path_params["operation"]
        key = _key(request.headers.get("idempotency-key", ""))
        arguments = _decode(await request.body(), dict[str, Any])
        check_arguments(operation, arguments)
        if self.in_flight[ns, key]:
            return Json({"error": "in_flight", "message": "a call with this key is being acted on"}, 409)
        arrival = self.plan.arrive(f"{ns}/{key}")
        self.in_flight[ns, key] += 1
        try:
            await self.wait("late", arrival)
            if self.stopping.is_set():
                return Json({"error": "down", "message": "stopping; nothing was done"}, 503)
            refusal = "the service was told to refuse" if self.plan.strikes("refuse", arrival) else None
            outcome = await self.ask(self.store.write, ns, key, operation, arguments, refusal=refusal)
        finally:
            del self.in_flight[ns, key]
        await self.wait("slow", arrival)
        if await self.strikes("lose", arrival):
            return Dropped()
        return _answer(outcome)

    async def lookup(self, request: Request) -> Response:
        """``GET /ns/{ns}/writes/{key}``."""
        return await self._known(request, self.store.lookup)

    async def seal(self, request: Request) -> Response:
        """``POST /ns/{ns}/writes/{key}/seal``."""
        return await self._known(request, self.store.seal)

    async def _known(self, request: Request, ask: Callable[[str, str], Known]) -> Response:
        ns, key = _name(request), _key(request.path_params["key"])
        arrival = self.plan.arrive(f"{request.method} {ns}/{key}")
        # Before the store is asked: a call that ends in between has then either its record, or is called in flight.
        in_flight = bool(self.in_flight[ns, key])
        known = await self.ask(ask, ns, key)
        if known.state == "absent" and not known.sealed and in_flight:
            known = msgspec.structs.replace(known, state="in_flight")
        await self.wait("slow", arrival)
        return Json(known)

    # What a check and an operator ask: no faults here

    async def changes(self, request: Request) -> Response:
        """``GET /ns/{ns}/changes``."""
        return Json(await self.ask(self.store.changes, _name(request)))

    async def log(self, request: Request) -> Response:
        """``GET /ns/{ns}/log`` and ``GET /log``."""
        ns = _name(request) if "ns" in request.path_params else None
        return Json({"applications": await self.ask(self.store.log, ns)})

    async def status(self, _request: Request) -> Response:
        """``GET /status``."""
        totals = await self.ask(self.store.totals)
        running = {
            "pid": os.getpid(),
            "in_flight": self.in_flight.total(),
            "down_for": self.plan.down_left(),
            "requests": dict(self.requests),
            "faults": self.plan.faults,
        }
        return Json(running | totals)

    async def set_faults(self, request: Request) -> Response:
        """``PUT /faults``: replaces every fault, and ends an outage."""
        self.plan = FaultPlan(_decode(await request.body(), Faults))
        return Json(self.plan.faults)


def build(service: Service) -> Starlette:
    """Make the application of a service; it closes the service when it stops."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        service.close()

    def route(path: str, method: str, handler: Callable[[Request], Any], *, control: bool = False) -> Route:
        async def endpoint(request: Request) -> Response:
            service.requests[handler.__name__] += 1
            if not control and service.plan.is_down(service.plan.arrive(f"{method} {request.url.path}")):
                await service.ask(service.store.count, "fault.down")
                return Json({"error": "down", "message": "out of service; nothing was done"}, 503)
            response: Response = await handler(request)
            return response

        return Route(path, endpoint, methods=[method])

    routes = [
        route("/ns/{ns}", "PUT", service.open_namespace),
        route("/ns/{ns}/reads/{tool}", "GET", service.read),
        route("/ns/{ns}/writes/{operation}", "POST", service.write),
        route("/ns/{ns}/writes/{key}", "GET", service.lookup),
        route("/ns/{ns}/writes/{key}/seal", "POST", service.seal),
        route("/ns/{ns}/changes", "GET", service.changes, control=True),
        route("/ns/{ns}/log", "GET", service.log, control=True),
        route("/log", "GET", service.log, control=True),
        route("/status", "GET", service.status, control=True),
        route("/faults", "PUT", service.set_faults, control=True),
    ]
    handlers: dict[Any, Any] = {
        BadRequest: partial(_error, status=400, code="bad_request"),
        BadArgumentsError: partial(_error, status=400, code="bad_request"),
        NotFound: partial(_error, status=404, code="not_found"),
    }
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


async def _error(_request: Request, error: Exception, *, status: int, code: str) -> Response:
    return Json({"error": code, "message": str(error)}, status)


def _answer(outcome: Written | Conflict | Sealed) -> Response:
    match outcome:
        case Written(answer=answer, repeated=repeated):
            return Json(answer, headers={"idempotent-replayed": "true" if repeated else "false"})
        case Conflict(operation=operation):
            message = f"the key stands for another call, of {operation}"
            return Json({"error": "key_conflict", "message": message}, 422)
        case Sealed():
            return Json({"error": "sealed", "message": "the key was sealed; nothing was or will be done under it"}, 423)


def _name(request: Request) -> str:
    ns: str = request.path_params["ns"]
    if not NAME.fullmatch(ns):
        raise BadRequest("a namespace is 1 to 64 letters, digits, dots, hyphens and underscores")
    return ns


def _key(key: str) -> str:
    if not KEY.fullmatch(key):
        raise BadRequest(
            "an idempotency key (header Idempotency-Key) is 1 to 200 printable characters without / or blank"
        )
    return key


def _decode(body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body: {error}") from error


def _get(records: Any, name: str, what: str) -> Any:
    if name not in records:
        raise NotFound(f"there is no {what} {name}")
    return records[name]


def _by_email(store: Store, _books: Books, arguments: dict[str, str]) -> str:
    found = store.user_ids(arguments["email"])
    return _only(found)


def _by_name_zip(store: Store, books: Books, arguments: dict[str, str]) -> str:
    namesakes = store.namesakes(arguments["first_name"], arguments["last_name"])
    return _only([name for name in namesakes if books.users[name]["address"]["zip"] == arguments["zip"]])


def _only(found: list[str]) -> str:
    if not found:
        raise NotFound("there is no such user")
    return found[0]


def _item(_store: Store, books: Books, arguments: dict[str, str]) -> Any:
    for product in books.products.values():
        if arguments["item_id"] in product["variants"]:
            return product["variants"][arguments["item_id"]]
    raise NotFound(f"there is no item {arguments['item_id']}")


READS: dict[str, tuple[tuple[str, ...], Read]] = {
    "find_user_id_by_email": (("email",), _by_email),
    "find_user_id_by_name_zip": (("first_name", "last_name", "zip"), _by_name_zip),
    "get_item_details": (("item_id",), _item),
    "get_order_details": (("order_id",), lambda _, books, given: _get(books.orders, given["order_id"], "order")),
    "get_product_details": (
        ("product_id",),
        lambda _, books, given: _get(books.products, given["product_id"], "product"),
    ),
    "get_user_details": (("user_id",), lambda _, books, given: _get(books.users, given["user_id"], "user")),
    "list_all_product_types": (
        (),
        lambda _, books, __: {record["name"]: name for name, record in sorted(books.products.items())},
    ),
}
"""Every read: name -> (its arguments, its function)."""
