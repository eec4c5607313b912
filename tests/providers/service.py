"""A real HTTP service with a store of idempotency keys, on loopback, in a thread; it can be told to misbehave."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


class Service:
    """Takes payments, keeps keys, gives refunds.

    Attributes:
        faults: what to do with the next requests, one each: ``slow`` (acts, answers too late), ``500`` (acts, says
            500), ``409``, ``429``, ``503`` (not done, too early), other 4xx (turned away before the key is looked
            at), ``302`` (elsewhere), ``null`` (acts, names no id).
        payments, refunds: what has happened, by key. taken, refunded: the same in order, requests and references.
        seen: (method, path, key, body) of every request.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.payments: dict[str, Any] = {}
        self.taken: list[Any] = []
        self.refunded: list[str] = []
        self.refunds: dict[str, Any] = {}
        self.sealed: set[str] = set()
        self.seen: list[tuple[str, str, str, bytes]] = []
        self.port = 0
        self.release = threading.Event()

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/payments", self.pay, methods=["POST"]),
                Route("/payments/{key}", self.look, methods=["GET"]),
                Route("/payments/{key}/refund", self.refund, methods=["POST"]),
                Route("/refunds/{key}", self.look_refund, methods=["GET"]),
                Route("/jobs", self.job, methods=["POST"]),
                Route("/keys/{key}", self.seal, methods=["PUT"]),
            ]
        )

    async def _note(self, request: Request) -> tuple[str, Any, str]:
        body = await request.body()
        key = request.headers.get("Idempotency-Key", "")
        self.seen.append((request.method, request.url.path, key, body))
        return key, json.loads(body) if body else None, self.faults.pop(0) if self.faults else ""

    async def pay(self, request: Request) -> Response:
        return await self._write(request, self.payments)

    async def refund(self, request: Request) -> Response:
        reference = request.path_params["key"]
        if reference.removeprefix("pay-") not in self.payments:
            return Response("no such payment", 404)
        before = len(self.refunds)
        answer = await self._write(request, self.refunds)
        if len(self.refunds) > before:
            self.refunded.append(reference)
        return answer

    async def _write(self, request: Request, store: dict[str, Any]) -> Response:
        key, wanted, fault = await self._note(request)
        if fault in ("409", "429", "503"):
            return Response("too early", int(fault), {"Retry-After": "0.01"})
        if fault.startswith("4"):
            return Response("at the door", int(fault))
        if fault == "302":
            return Response("", 302, {"Location": "/payments"})
        if key in self.sealed:
            return JSONResponse({"why": "sealed"}, 410)
        if key and key in store and store[key] != wanted:
            return JSONResponse({"why": "another request"}, 422)
        if isinstance(wanted, dict) and wanted.get("cents", 0) > 100_000:
            return JSONResponse({"why": "limit"}, 402)
        if store is self.payments and (key not in store or not key):
            self.taken.append(wanted)
        store[key] = wanted
        if fault == "500":
            return Response("oops", 500)
        if fault == "slow":
            await asyncio.to_thread(self.release.wait, 5)
        return JSONResponse({"id": None if fault == "null" else f"pay-{key}"}, 201)

    async def look(self, request: Request) -> Response:
        return await self._look(request, self.payments)

    async def look_refund(self, request: Request) -> Response:
        return await self._look(request, self.refunds)

    async def _look(self, request: Request, store: dict[str, Any]) -> Response:
        _, _, fault = await self._note(request)
        key = request.path_params["key"]
        if fault:
            return Response("oops", 500)
        return JSONResponse({"id": f"pay-{key}"}) if key in store else Response("", 404)

    async def job(self, request: Request) -> Response:
        await self._note(request)
        return JSONResponse({"id": "job-1"}, 202)

    async def seal(self, request: Request) -> Response:
        await self._note(request)
        key = request.path_params["key"]
        if key in self.payments:
            return JSONResponse({"id": f"pay-{key}"}, 409)
        self.sealed.add(key)
        return JSONResponse({}, 200)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving() -> Iterator[Service]:
    """A service that listens."""
    service = Service()
    listening = socket.create_server(("127.0.0.1", 0))
    service.port = listening.getsockname()[1]
    config = uvicorn.Config(service.app(), log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.release.set()
        server.should_exit = True
        thread.join(10)
        listening.close()


@contextmanager
def breaking(*, after_reading: bool) -> Iterator[int]:
    """A server that hangs up: once it has read the request, or at once. Gives its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def hang_up() -> None:
        listening.settimeout(0.05)
        while not stop.is_set():
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                continue
            with connection:
                if after_reading:
                    connection.settimeout(2)
                    connection.recv(65536)

    thread = threading.Thread(target=hang_up, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        stop.set()
        thread.join(5)
        listening.close()
