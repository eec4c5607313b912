"""A TCP relay that stands before a real system and makes faults on the way to it: plain TCP, HTTP as it comes.

::

    class MyBench(Bench):
        async def __aenter__(self) -> Self:
            self.proxy = await Proxy("127.0.0.1", self.port_of_the_system).__aenter__()
            return self

        async def __aexit__(self, *raised: object) -> None:
            await self.proxy.__aexit__(*raised)

        def provider(self) -> Provider:
            return MyProvider(f"http://127.0.0.1:{self.proxy.port}")

        def fault(self, fault: Fault) -> AbstractAsyncContextManager[Struck]:
            return self.proxy.fault(fault)

Only requests that act meet a fault; look-ups pass. For another protocol than HTTP say how its messages are told apart
(``split``), which of them act (``acts``), and which bytes are its error (``error``).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Self

from tenure.testing.providers.bench import FAULTS, Fault, Struck

CHUNK = 65536
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
DELIVERY_SECONDS = 5.0
"""Longest wait, when a fault is over, for the system to answer what it has got."""


def http_message(buffer: bytes) -> int:
    """Length of the HTTP/1.1 request that the buffer begins with; 0 when it is not complete yet."""
    head, end, body = buffer.partition(b"\r\n\r\n")
    if not end:
        return 0
    fields = [line.partition(b":") for line in head.lower().split(b"\r\n")[1:]]
    headers = {name.strip(): value.strip() for name, _, value in fields}
    before = len(head) + len(end)
    if b"chunked" in headers.get(b"transfer-encoding", b""):
        chunks = _chunks(body)
        return before + chunks if chunks else 0
    length = before + int(headers.get(b"content-length", b"0"))
    return length if len(buffer) >= length else 0


def _chunks(body: bytes) -> int:
    """Length of a chunked body without trailers; 0 when it is not complete yet."""
    at = 0
    while (end := body.find(b"\r\n", at)) >= 0:
        size = int(body[at:end].partition(b";")[0], 16)
        at = end + 2 + size + 2
        if len(body) < at:
            return 0
        if not size:
            return at
    return 0


def http_acts(message: bytes) -> bool:
    """Whether an HTTP request may change anything, by its method."""
    return message.split(b" ", 1)[0] not in {b"GET", b"HEAD", b"OPTIONS"}


def line(buffer: bytes) -> int:
    """Length of the line that the buffer begins with, its end included; 0 when it is not complete yet."""
    return buffer.find(b"\n") + 1


class Proxy:
    """A relay to one address. Enter it; then it listens at ``host`` and ``port``."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        split: Callable[[bytes], int] = http_message,
        acts: Callable[[bytes], bool] = http_acts,
        error: bytes = UNAVAILABLE,
        whole: bool = False,
    ) -> None:
        """Stand before the system at this address.

        Args:
            host, port: of the system. split: length of the first complete message in a buffer, 0 when there is none.
            acts: whether a message is one at which the system acts. error: what it answers when it fails.
            whole: what is delivered twice is all that the connection has carried, not only the message that acts.
        """
        self.target = (host, port)
        self.host, self.port = "127.0.0.1", 0
        self.split, self.acts, self.error, self.whole = split, acts, error, whole
        self.weather = _Weather(None)
        self._links: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._linked, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Stop listening, and end all connections."""
        if self._server is not None:
            self._server.close()
        for link in set(self._links):
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    @asynccontextmanager
    async def fault(self, fault: Fault) -> AsyncIterator[Struck]:
        """Let every request that acts meet a fault. On leaving, what was held back is delivered.

        Raises:
            ValueError: one that is not made on the way, but in the system.
        """
        if fault not in FAULTS:
            raise ValueError(f"{fault!r} is not made on the way to the system; the bench must make it there.")
        weather = self.weather = _Weather(fault)
        if fault is Fault.UNREACHABLE:
            await self.__aexit__()
            weather.struck.strike()
        try:
            yield weather.struck
        finally:
            self.weather = _Weather(None)
            weather.over.set()
            if fault is Fault.UNREACHABLE:
                await self.__aenter__()
            if weather.deliveries:
                await asyncio.wait(weather.deliveries, timeout=DELIVERY_SECONDS)

    async def _linked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it."""
        task = asyncio.current_task()
        if task is not None:
            self._links.add(task)
            task.add_done_callback(self._links.discard)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await _Link(self, reader, writer).serve()
        writer.transport.abort()


class _Weather:
    """A fault while it lasts, and what it has met."""

    def __init__(self, fault: Fault | None) -> None:
        self.fault = fault
        self.struck = Struck()
        self.over = asyncio.Event()
        self.deliveries: list[asyncio.Future[None]] = []


class _Link:
    """One connection of a client, and that to the system which belongs to it."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.proxy, self.reader, self.writer = proxy, reader, writer
        self.met = _Weather(None)
        self.carried = b""
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def serve(self) -> None:
        """Relay both ways."""
        back, forth = await asyncio.open_connection(*self.proxy.target)
        down = asyncio.create_task(self._down(back))
        try:
            await self._up(forth)
            if self.met.fault is not None:
                # The client is gone; what it has sent is still to be delivered, and answered to nobody.
                await asyncio.wait({down, self.answered}, return_when=asyncio.FIRST_COMPLETED)
            else:
                forth.write_eof()
                await down
        finally:
            down.cancel()
            forth.transport.abort()
            await asyncio.gather(down, return_exceptions=True)
            self._answer()

    async def _up(self, forth: asyncio.StreamWriter) -> None:
        """What the client sends, message by message."""
        buffer = b""
        with contextlib.suppress(ConnectionError):
            while data := await self.reader.read(CHUNK):
                buffer += data
                while length := self.proxy.split(buffer):
                    message, buffer = buffer[:length], buffer[length:]
                    await self._forward(message, forth)
        forth.write(buffer)

    async def _forward(self, message: bytes, forth: asyncio.StreamWriter) -> None:
        self.carried += message
        if self.proxy.weather.fault is not None and self.proxy.acts(message):
            self.met = self.proxy.weather
            self.answered = asyncio.get_running_loop().create_future()
            self.met.deliveries.append(self.answered)
            self.met.struck.strike()
        if self.met.fault is Fault.HELD_UP:
            await self.met.over.wait()
        forth.write(message)
        await forth.drain()
        if self.met.fault is Fault.TWICE and not self.met.over.is_set():
            again = asyncio.create_task(self._again(self.carried if self.proxy.whole else message))
            self.met.deliveries.append(again)
            await again

    async def _again(self, data: bytes) -> None:
        """Deliver it once more, on a connection of its own, and wait for an answer."""
        reader, writer = await asyncio.open_connection(*self.proxy.target)
        try:
            writer.write(data)
            if self.proxy.whole:
                writer.write_eof()
            while await reader.read(CHUNK) and self.proxy.whole:
                pass  # until the system ends it
        finally:
            writer.transport.abort()

    async def _down(self, back: asyncio.StreamReader) -> None:
        """What the system answers."""
        while data := await back.read(CHUNK):
            fault = self.met.fault
            if fault is Fault.SLOW_ANSWER:
                self._answer()
                await self.met.over.wait()
            if fault is Fault.LOST_ANSWER:
                self.writer.transport.abort()
            else:
                self.writer.write(self.proxy.error if fault is Fault.ERROR_AFTER else data)
                with contextlib.suppress(ConnectionError):
                    await self.writer.drain()
            self._answer()
            if fault in (Fault.LOST_ANSWER, Fault.ERROR_AFTER):
                break
        self.writer.close()

    def _answer(self) -> None:
        if not self.answered.done():
            self.answered.set_result(None)
