"""The output of a command, read without pause and kept within a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Pipes(asyncio.SubprocessProtocol):
    """Reads both output streams and keeps the end of each.

    Attributes:
        code: the leader's exit code once it was counted, minus the signal's number if one killed it.
        open: number of output streams that some process still holds open.
        stdout, stderr: the last ``keep`` bytes of each. dropped: how many bytes before those were not kept.
    """

    def __init__(self, keep: int, stir: Callable[[], None]) -> None:
        self.code: int | None = None
        self.open = 2
        self.dropped = 0
        self._keep = keep
        self._stir = stir
        self._kept = {1: bytearray(), 2: bytearray()}
        self._transport: asyncio.SubprocessTransport | None = None

    @property
    def stdout(self) -> bytes:
        """The end of the output."""
        return bytes(self._kept[1])

    @property
    def stderr(self) -> bytes:
        """The end of the error output."""
        return bytes(self._kept[2])

    def feed(self, data: bytes | None) -> None:
        """Write this to the command's input and close it. What the command does not read is lost with it."""
        pipe = self._transport.get_pipe_transport(0) if self._transport is not None else None
        if data is not None and isinstance(pipe, asyncio.WriteTransport):
            pipe.write(data)
            pipe.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The command runs (called by asyncio)."""
        if isinstance(transport, asyncio.SubprocessTransport):
            self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Output came (called by asyncio)."""
        kept = self._kept[fd]
        kept += data
        excess = len(kept) - self._keep
        if excess > 0:
            del kept[:excess]
            self.dropped += excess

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio names it
        """Nobody holds this pipe any more (called by asyncio)."""
        if fd in self._kept:
            self.open -= 1
            self._stir()

    def process_exited(self) -> None:
        """The leader was counted (called by asyncio)."""
        if self._transport is not None:
            self.code = self._transport.get_returncode()
            self._stir()
