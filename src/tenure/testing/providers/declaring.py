"""Rules of what a provider declares: what it says it has is there, and the bench tells the truth."""

from __future__ import annotations

import inspect
import math

from tenure.runtime.provider import can
from tenure.testing.providers.base import Rules
from tenure.testing.providers.bench import Bench
from tenure.testing.providers.case import Case
from tenure.testing.providers.truth import NOTHING

SECONDS = ("idempotent_for", "in_flight_limit", "undo_idempotent_for")
METHODS = ("apply", "lookup", "seal", "cancel", "compensate", "lookup_compensation")


class DeclarationRules(Rules):
    """What is declared, by attributes and by methods."""

    async def test_what_is_declared_is_there(self, bench: Bench) -> None:
        provider, again = bench.provider(), bench.provider()
        assert provider is not again, "The bench gives the same provider twice; each must be a fresh one."
        assert provider.name, "It has no name."
        for name in ("name", "key_scope", *SECONDS):
            assert getattr(provider, name) == getattr(again, name), f"{name} differs between two providers."
        for name in SECONDS:
            value = getattr(provider, name)
            good = isinstance(value, int | float) and 0 <= value < math.inf
            assert good, f"{name} is {value!r}: no seconds."
        undoes = can(provider, "compensate")
        assert undoes or not provider.undo_idempotent_for, "It declares undo_idempotent_for and cannot undo."
        assert undoes or not can(provider, "lookup_compensation"), "It looks up undoings and cannot undo."
        for name in METHODS:
            method = getattr(provider, name, None)
            assert method is None or callable(method), f"{name} is no method."
            if method is not None:
                key = inspect.signature(method).parameters.get("key")
                assert key is not None, f"{name} does not take the key by its name."

    async def test_the_same_request_has_the_same_intent_and_another_has_another(self, bench: Bench) -> None:
        provider, again = bench.provider(), bench.provider()
        first, other = provider.intent_key(bench.request(1)), provider.intent_key(bench.request(2))
        assert first == again.intent_key(bench.request(1)), "One request has two intents."
        assert first != other, "Two requests have one intent; or the bench's requests do not differ."

    async def test_the_bench_counts_nothing_before_anything_was_done(self, bench: Bench) -> None:
        case = Case(bench)
        assert await case.settled() == NOTHING, "Nothing was done, and the bench counts it."
