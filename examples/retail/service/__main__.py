"""Start the service: ``python examples/retail/service/__main__.py --data FILE --database FILE`` from anywhere.

Prints one JSON line, ``{"url": "http://127.0.0.1:PORT"}``, once it listens. Ends on SIGTERM, on SIGINT, and with the
process named by ``--with-parent``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT) not in sys.path:
    # Run as a file, Python puts this folder first, where `app` and `store` would be found under a second name.
    sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent)]

import msgspec  # noqa: E402 - the project's own modules need the path above
import uvicorn  # noqa: E402

from examples.retail.service.app import Service, build  # noqa: E402
from examples.retail.service.connection import DroppableProtocol  # noqa: E402
from examples.retail.service.faults import Faults  # noqa: E402
from examples.retail.service.store import Store, StoreError  # noqa: E402

GRACE = 1  # s that requests have to end by themselves when the service is told to stop
POLL = 0.2  # s between two looks at the parent, where the system cannot tell of its end


class Server(uvicorn.Server):
    """Uvicorn's server; before it waits for its requests to end, it cuts their delays short."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop in order."""
        self._service.stopping.set()
        await super().shutdown(sockets)


async def serve(service: Service, listener: socket.socket, parent: int | None) -> None:
    """Serve until a signal, or until `parent` has ended."""
    config = uvicorn.Config(
        build(service),
        http=DroppableProtocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE,
    )
    server = Server(config, service)
    # Before the line below invites anybody to stop us: uvicorn's own handlers come later, and it raises the signal once
    # more when it has stopped, for whoever handled it before.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    watch = asyncio.create_task(_stop_after(server, parent)) if parent is not None else None
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    await server.serve(sockets=[listener])
    if watch is not None:
        watch.cancel()


async def _stop_after(server: uvicorn.Server, parent: int) -> None:
    await _ended(parent)
    server.should_exit = True


async def _ended(pid: int) -> None:
    """Return when the process has ended, a zombie included where the system can tell."""
    try:
        if sys.platform == "linux":
            descriptor = os.pidfd_open(pid)
            over = asyncio.Event()
            asyncio.get_running_loop().add_reader(descriptor, over.set)
            await over.wait()
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
        else:
            while True:
                os.kill(pid, 0)
                await asyncio.sleep(POLL)
    except ProcessLookupError:
        return


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the loopback address; port 0 takes a free one."""
    # The protocol said in full: asyncio turns Nagle's delay (40 ms per answer) off only where it sees TCP named.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(256)
    except OSError:
        listener.close()
        raise
    return listener


def main(arguments: list[str] | None = None) -> int:
    """Run the service; 0 after an ordered stop, 2 when it cannot start."""
    parser = argparse.ArgumentParser(prog="retail-service", description="The retail service of the example.")
    parser.add_argument("--data", type=Path, required=True, help="products, users and orders (JSON)")
    parser.add_argument("--database", type=Path, required=True, help="the service's SQLite file; made when missing")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--faults", default="{}", help="what to do badly (JSON)")
    parser.add_argument("--with-parent", type=int, metavar="PID", help="stop when this process has ended")
    options = parser.parse_args(arguments)
    try:
        faults = msgspec.json.decode(options.faults, type=Faults)
        store = Store(options.database, options.data)
        with contextlib.ExitStack() as undo:
            undo.callback(store.close)
            listener = listen(options.port)
            undo.pop_all()
    except (StoreError, OSError, msgspec.DecodeError) as error:
        print(f"retail-service: {error}", file=sys.stderr)
        return 2
    asyncio.run(serve(Service(store, faults), listener, options.with_parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
