"""The provider: requests are sent, land, are lost; answers arrive, late or never; a reconciler looks and seals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from tenure.protocol import commands as cmd
from tenure.protocol.outside import Effect
from tenure.protocol.vocabulary import EffectState, EvidenceKind, Purpose
from tenure.testing.explore.commands import NOTE, ROOT
from tenure.testing.explore.scope import Scope
from tenure.testing.explore.world import ANSWERED, FLYING, READY, Call, Key, World

Raw = tuple[str, World, cmd.Command | None]

RECONCILER = "reconciler"
"""An instance that owns nothing and never dies."""


def outside_moves(scope: Scope, world: World) -> Iterator[Raw]:
    """Everything that can happen to open effects and to requests on their way."""
    for call in world.calls:
        if call.purpose is Purpose.APPLY:
            yield from _apply_moves(scope, world, call)
        else:
            yield from _look_moves(world, call)
    for effect in world.effects.values():
        yield from _further_calls(scope, world, effect)


def next_outside(scope: Scope, world: World) -> Iterator[int]:
    """Moments at which something outside becomes possible or impossible."""
    outside = scope.outside
    if outside.limit_ms:
        for call in world.calls:
            if call.state == FLYING:
                yield call.at + outside.limit_ms
        for effect in world.effects.values():
            if effect.dead_at and not effect.state.settled:
                yield effect.dead_at + outside.limit_ms
    for key in world.keys.values():
        yield key.until


def _replaced(world: World, call: Call, *new: Call) -> tuple[Call, ...]:
    return (*(other for other in world.calls if other is not call), *new)


def _outcome(call: Call, state: EffectState, evidence: EvidenceKind, *, not_found: bool = False) -> cmd.RecordOutcome:
    return cmd.RecordOutcome(
        command_id="x",
        root_id=ROOT,
        task_id=call.task_id,
        effect_id=call.effect_id,
        attempt=call.n,
        instance=call.instance,
        epoch=call.epoch,
        state=state,
        evidence=evidence,
        not_found=not_found,
    )


def _apply_moves(scope: Scope, world: World, call: Call) -> Iterator[Raw]:
    name = f"request {call.n} of {call.effect_id}"
    if call.state == READY:
        sent = world.but(calls=_replaced(world, call, replace(call, state=FLYING, at=world.now)))
        yield f"{call.instance} sends {name}", sent, None
        unsent = world.but(calls=_replaced(world, call))
        command = _outcome(call, EffectState.ABSENT, EvidenceKind.NOT_SENT)
        yield f"{call.instance} did not send {name}", unsent, command
        return
    if call.state == FLYING:
        for answer, keys in landings(scope, world, call):
            landed = replace(call, state=ANSWERED, answer=answer)
            heard = (landed,) if world.up(call.instance) else ()
            yield f"{name} lands: {answer}", world.but(calls=_replaced(world, call, *heard), keys=keys), None
        if scope.outside.limit_ms:
            # Without a limit, a lost request cannot be told from one that is on its way for ever.
            yield f"{name} is lost", world.but(calls=_replaced(world, call)), None
    if call.state == ANSWERED and call.answer != "sealed":
        state = EffectState.CONFIRMED if call.answer == "confirmed" else EffectState.REFUSED
        heard_of = world.but(calls=_replaced(world, call))
        yield f"the answer to {name} arrives", heard_of, _outcome(call, state, EvidenceKind.RESPONSE)
    if world.up(call.instance) and world.effects[call.effect_id].state is EffectState.INTENDED:
        yield f"{name} times out", world, _outcome(call, EffectState.IN_DOUBT, EvidenceKind.NONE)


def landings(scope: Scope, world: World, call: Call) -> Iterator[tuple[str, dict[tuple[str, int], Key]]]:
    """What the provider may do with a request: repeat its answer, bounce off a seal, apply it, refuse it."""
    name = (call.intent, call.generation)
    key = world.keys.get(name, Key())
    window = scope.outside.window_ms
    if key.sealed:
        yield "sealed", world.keys
        return
    if key.result and world.now < key.until:
        yield key.result, world.keys
        return
    until = world.now + window if window else 0
    applied = Key((*key.applied_by, call.effect_id), "confirmed", until)
    yield "confirmed", {**world.keys, name: applied}
    if scope.outside.refuses:
        yield "refused", {**world.keys, name: Key(key.applied_by, "refused", until)}


def _look_moves(world: World, call: Call) -> Iterator[Raw]:
    """A look-up or a seal is made, and what it showed arrives; by then it may be old."""
    name = f"{call.purpose} {call.n} of {call.effect_id}"
    if call.state == READY:
        key = world.keys.get((call.intent, call.generation), Key())
        answer, keys = key.result or "nothing", world.keys
        if call.purpose is Purpose.SEAL and not key.result:
            answer = "sealed"
            keys = {**keys, (call.intent, call.generation): Key(key.applied_by, "", 0, sealed=True)}
        seen = replace(call, state=ANSWERED, answer=answer)
        yield f"{name} shows: {answer}", world.but(calls=_replaced(world, call, seen), keys=keys), None
        return
    heard = world.but(calls=_replaced(world, call))
    if call.answer == "nothing":
        bold = _outcome(call, EffectState.ABSENT, EvidenceKind.NOT_FOUND_AFTER_DEATH)
        yield f"{name}: nothing found, claimed as absent", heard, bold
        meek = _outcome(call, EffectState.IN_DOUBT, EvidenceKind.NONE, not_found=True)
        yield f"{name}: nothing found", heard, meek
        wrong = _outcome(call, EffectState.ABSENT, EvidenceKind.LOOKUP)
        yield f"{name}: nothing found, taken for a proof", heard, wrong
    elif call.answer == "sealed":
        yield f"{name}: sealed", heard, _outcome(call, EffectState.ABSENT, EvidenceKind.SEALED)
    else:
        state = EffectState.CONFIRMED if call.answer == "confirmed" else EffectState.REFUSED
        yield f"{name}: {call.answer}", heard, _outcome(call, state, EvidenceKind.LOOKUP)


def _further_calls(scope: Scope, world: World, effect: Effect) -> Iterator[Raw]:
    """The owner calls again; a reconciler looks up or seals; a person attests."""
    base: dict[str, Any] = {"command_id": "x", "root_id": ROOT, "task_id": effect.task_id}
    named: dict[str, Any] = {**base, "effect_id": effect.effect_id, "version": effect.version}
    if world.left("calls"):
        spent = world.but(spend="calls")
        tenure = world.tasks[effect.task_id].tenure
        if tenure is not None and world.up(tenure.instance):
            again = cmd.AttemptEffect(**named, purpose=Purpose.APPLY, instance=tenure.instance, epoch=tenure.epoch)
            yield f"{tenure.instance} calls again for {effect.effect_id}", spent, again
        if scope.outside.window_ms:
            retry = cmd.AttemptEffect(**named, purpose=Purpose.APPLY, instance=RECONCILER)
            yield f"a reconciler calls again for {effect.effect_id}", spent, retry
        if scope.outside.finds:
            look = cmd.AttemptEffect(**named, purpose=Purpose.LOOKUP, instance=RECONCILER)
            yield f"a look-up of {effect.effect_id} begins", spent, look
        if scope.outside.seals:
            seal = cmd.AttemptEffect(**named, purpose=Purpose.SEAL, instance=RECONCILER)
            yield f"a seal of {effect.effect_id} begins", spent, seal
        old = cmd.AttemptEffect(**{**named, "version": effect.version - 1}, purpose=Purpose.LOOKUP, instance=RECONCILER)
        yield f"a look-up of {effect.effect_id} begins from an old version", spent, old
    if world.left("attests"):
        word = cmd.Attest(**named, by="person:operator", body=NOTE)
        yield f"a person attests {effect.effect_id}", world.but(spend="attests"), word
