"""``python -m tenure.testing.explore``: every scope, every mutant, one line each; 1 on any violation or escape."""

from __future__ import annotations

import signal
import sys
import threading
import time

import click
import msgspec

from tenure.testing.explore.mutants import MUTANTS, Mutant
from tenure.testing.explore.parallel import Caught, run_all
from tenure.testing.explore.scope import Scope
from tenure.testing.explore.scopes import scopes
from tenure.testing.explore.search import Result

INTERRUPTED = 130


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--scope", "names", multiple=True, help="Only this scope (may be repeated); without mutants.")
@click.option("--wide", is_flag=True, help="The long form: more than a million states.")
@click.option("--mutants/--no-mutants", default=None, help="Try the mutants too (default: unless scopes are named).")
@click.option("--processes", type=click.IntRange(min=1), default=None, help="Worker processes; default: one per CPU.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object at the end instead of lines.")
def main(names: tuple[str, ...], *, wide: bool, mutants: bool | None, processes: int | None, as_json: bool) -> None:
    """Visit every reachable state of named scopes and check the design's invariants in each."""
    small = {scope.name: scope for scope in scopes()}
    chosen = [scope for scope in scopes(wide=wide) if not names or scope.name in names]
    unknown = sorted(set(names) - small.keys())
    if unknown:
        raise click.UsageError(f"No scope {', '.join(unknown)}; there are {', '.join(small)}.")
    tried = [(mutant, small[mutant.scope]) for mutant in MUTANTS] if mutants or (mutants is None and not names) else []
    sys.exit(_run(chosen, tried, processes or 0, as_json=as_json))


def _run(chosen: list[Scope], tried: list[tuple[Mutant, Scope]], processes: int, *, as_json: bool) -> int:
    began = time.perf_counter()
    results: list[Result] = []
    caught: list[Caught] = []
    interrupted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda _number, _frame: interrupted.set())
    try:
        _progress(0, len(chosen), 0, len(tried))
        for done in run_all(chosen, tried, processes, interrupted):
            if isinstance(done, int):
                print(f"{done} states so far", file=sys.stderr)
                continue
            if isinstance(done, Result):
                results.append(done)
            else:
                caught.append(done)
            _progress(len(results), len(chosen), len(caught), len(tried))
            if not as_json:
                say(done)
    finally:
        signal.signal(signal.SIGINT, before)
    seconds = time.perf_counter() - began
    return conclude(results, caught, seconds, interrupted=interrupted.is_set(), as_json=as_json)


def _progress(done: int, of: int, tried: int, of_mutants: int) -> None:
    print(f"{done} of {of} scopes, {tried} of {of_mutants} mutants", file=sys.stderr)


def say(done: Result | Caught) -> None:
    """Print what became of a scope or of a mutant."""
    if isinstance(done, Caught):
        how = f"ESCAPED (seen: {done.by or 'nothing'} {done.what})" if done.escaped else f"caught by {done.by}"
        print(f"mutant  {done.mutant}: {how}, in {done.scope} after {done.states} states, {done.seconds:.1f} s")
        return
    end = "complete" if done.complete else "stopped by a violation" if done.found else "stopped before its end"
    print(
        f"scope   {done.scope}: {done.states} states, {done.transitions} transitions, {done.refused} refused, "
        f"depth {done.depth}, {done.seconds:.1f} s, {end}, violations {int(done.found is not None)}\n"
        f"        bounds: {done.bounds}"
    )
    if done.found is not None:
        print(f"        {done.found.invariant}: {done.found.what}")
        for line in done.found.timeline:
            print(f"        {line}")


def conclude(results: list[Result], caught: list[Caught], seconds: float, *, interrupted: bool, as_json: bool) -> int:
    """Print the sum of everything; the exit code: 1 for a violation or an escape, 130 after Ctrl-C."""
    violations = sum(result.found is not None for result in results)
    escaped = [mutant.mutant for mutant in caught if mutant.escaped]
    states = sum(result.states for result in results)
    transitions = sum(result.transitions for result in results)
    summary = {
        "states": states,
        "transitions": transitions,
        "violations": violations,
        "mutants": len(caught),
        "escaped": escaped,
        "seconds": round(seconds, 1),
        "interrupted": interrupted,
    }
    if as_json:
        whole = {**summary, "scopes": results, "mutant_results": caught}
        print(msgspec.json.encode(whole).decode())
    else:
        print(
            f"{states} states and {transitions} transitions in {len(results)} scopes, {violations} violations; "
            f"{len(caught) - len(escaped)} of {len(caught)} mutants caught; {seconds:.0f} s"
        )
    if interrupted:
        return INTERRUPTED
    return 1 if violations or escaped else 0


if __name__ == "__main__":
    main()
