"""Scopes and mutants on several processes, with progress, and an end when asked."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.synchronize import Event
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenure.testing.explore.mutants import Mutant, in_force
from tenure.testing.explore.scope import Scope
from tenure.testing.explore.search import Result, explore


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


class Stop:
    """Set in every process when the search shall end early."""

    event: Event | None = None

    @classmethod
    def asked(cls, _scope: str, _states: int) -> bool:
        """Whether to stop."""
        return cls.event is not None and cls.event.is_set()


def _begin(event: Event) -> None:
    # The parent alone reacts to Ctrl-C; it asks its workers to stop between two states.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Stop.event = event


def run_scope(scope: Scope) -> Result:
    """Explore one scope, until told to stop."""
    return explore(scope, Stop.asked)


def run_mutant(mutant: Mutant, scope: Scope) -> Caught:
    """Explore one scope with a mistake in the core, up to the states that the mutant allows."""
    try:
        with in_force(mutant):
            result = explore(replace(scope, most=mutant.within), Stop.asked)
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
    scopes: Sequence[Scope], mutants: Sequence[tuple[Mutant, Scope]], processes: int = 0
) -> Generator[Result | Caught, None, None]:
    """Run everything, yielding each result as it is ready; closing the iterator stops the rest."""
    context = multiprocessing.get_context("spawn")
    event = context.Event()
    jobs: list[tuple[Any, ...]] = [(run_scope, scope) for scope in scopes]
    jobs += [(run_mutant, mutant, scope) for mutant, scope in mutants]
    pool = ProcessPoolExecutor(processes or os.cpu_count() or 1, context, _begin, (event,))
    try:
        waiting = [pool.submit(*job) for job in jobs]
        for done in as_completed(waiting):
            yield done.result()
    finally:
        event.set()
        pool.shutdown(cancel_futures=True)
