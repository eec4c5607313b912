"""Scopes and mutants on several processes, with progress, and an end when asked."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing.synchronize import Event
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenure.testing.explore.mutants import Mutant, in_force
from tenure.testing.explore.scope import Scope
from tenure.testing.explore.search import Result, explore

POLL_SECONDS = 0.25
"""How often the parent looks whether it was interrupted."""

QUIET_SECONDS = 5.0
"""How long nothing is said while everything is still at work."""


class Caught(Struct, frozen=True, kw_only=True):
    """What became of a mutant. ``by``: the invariant that caught it; empty when it got away."""

    mutant: str
    invariant: str
    scope: str
    states: int
    by: str
    what: str
    seconds: float

    @property
    def escaped(self) -> bool:
        """Whether nothing, or another invariant than the one that it breaks, has caught it."""
        return self.by != self.invariant


class Wire:
    """What a worker process shares with its parent: the wish to stop, and a count of the states seen by all."""

    stop: Event | None = None
    states: Any = None
    told: tuple[str, int] = ("", 0)

    @classmethod
    def tell(cls, scope: str, states: int) -> bool:
        """Add to the count what is new; whether to stop."""
        if cls.stop is None:
            return False
        before = cls.told[1] if cls.told[0] == scope and cls.told[1] <= states else 0
        cls.told = (scope, states)
        with cls.states.get_lock():
            cls.states.value += states - before
        return cls.stop.is_set()


def _begin(stop: Event, states: Any) -> None:
    # The parent alone reacts to Ctrl-C; it asks its workers to stop between two states.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Wire.stop, Wire.states = stop, states


def run_scope(scope: Scope) -> Result:
    """Explore one scope, until told to stop."""
    return explore(scope, Wire.tell)


def run_mutant(mutant: Mutant, scope: Scope) -> Caught:
    """Explore one scope with a mistake in the core, up to the states that the mutant allows."""
    try:
        with in_force(mutant):
            result = explore(replace(scope, most=mutant.within), Wire.tell)
    except ValueError as error:
        # The core has changed where the mistake was to be put: nothing was tried, and nothing may look caught.
        return Caught(
            mutant=mutant.name,
            invariant=mutant.invariant,
            scope=scope.name,
            states=0,
            by="",
            what=str(error),
            seconds=0.0,
        )
    found = result.found
    return Caught(
        mutant=mutant.name,
        invariant=mutant.invariant,
        scope=scope.name,
        states=result.states,
        by=found.invariant if found else "",
        what=found.what if found else "",
        seconds=result.seconds,
    )


def run_all(
    scopes: Sequence[Scope],
    mutants: Sequence[tuple[Mutant, Scope]],
    processes: int,
    interrupted: threading.Event,
) -> Iterator[Result | Caught | int]:
    """Run everything, yielding each result as it is ready, until ``interrupted`` is set.

    While nothing is ready for some seconds, the number of states seen so far is yielded. An interruption lets the
    workers stop between two states, so that what they have seen until then still comes out.
    """
    context = multiprocessing.get_context("spawn")
    stop, states = context.Event(), context.Value("q", 0)
    jobs: list[tuple[Any, ...]] = [(run_scope, scope) for scope in scopes]
    jobs += [(run_mutant, mutant, scope) for mutant, scope in mutants]
    spoke = time.monotonic()
    with ProcessPoolExecutor(processes or os.cpu_count() or 1, context, _begin, (stop, states)) as pool:
        waiting = {pool.submit(*job) for job in jobs}
        while waiting:
            done, waiting = wait(waiting, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for one in done:
                yield one.result()
            if interrupted.is_set() and not stop.is_set():
                stop.set()
                waiting = {future for future in waiting if not future.cancel()}
            elif time.monotonic() - spoke >= QUIET_SECONDS:
                spoke = time.monotonic()
                yield states.value
