"""``tenure attest``: a person's word on an effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import click

from tenure.cli.options import json_option, read_ledger_option, with_ledger
from tenure.cli.problems import Misused
from tenure.cli.talk import emit, emit_json, when
from tenure.errors import Refused
from tenure.protocol.vocabulary import Finding

if TYPE_CHECKING:
    from tenure.ledger import Ledger
    from tenure.protocol.outside import Effect


@click.command()
@click.argument("effect_id", metavar="EFFECT")
@click.option(
    "--finding",
    required=True,
    type=click.Choice([finding.value for finding in Finding]),
    help="It is there outside, it is not, or it was undone.",
)
@click.option(
    "--version",
    required=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Version of the effect that you have seen; `tenure effects` has it.",
)
@click.option("--by", required=True, metavar="WHO", help="Who has found it; stands in the task's events.")
@click.option("--reason", required=True, metavar="TEXT", help="What was found, and how; kept with the evidence.")
@click.option("--retry", is_flag=True, help="With absent: the owner of the task may make it happen once more.")
@click.option("--task", "task_id", default="", metavar="TASK", help="Its task: found faster in a large ledger.")
@read_ledger_option
@json_option("Print one object.")
def attest(
    effect_id: str,
    finding: str,
    version: int,
    by: str,
    reason: str,
    task_id: str,
    url: str,
    *,
    retry: bool,
    json: bool,
) -> int:
    """Tell what a person has found out about an EFFECT that nothing else can settle.

    It settles the effect as `attested`. It is bound to the version that was seen: when the effect has changed since,
    nothing is recorded, and the command says what has changed. Evidence that comes later and says otherwise makes a
    visible dispute.

    --retry takes the place of a look-up, and of no other proof: every process that may still send the request must have
    been observed dead, and its in-flight limit be over.
    """
    for option, value in (("--by", by), ("--reason", reason)):
        if not value.strip():
            raise Misused(f"{option} is empty.", code="usage", hint="say who has found what, and how")

    async def work(ledger: Ledger) -> Effect:
        from tenure.cli.effectlines import find_effect
        from tenure.runtime.handle import TaskHandle

        effect = await find_effect(ledger, effect_id, task_id)
        handle = TaskHandle(ledger, effect.task_id)
        try:
            await handle.attest(
                effect_id, version=version, by=by, words={"reason": reason}, finding=Finding(finding), retry=retry
            )
        except Refused as error:
            await _explain(ledger, error, effect, version)
        return await find_effect(ledger, effect_id, effect.task_id)

    effect = with_ledger(url, work)
    if json:
        emit_json(
            {
                "ledger": url,
                "effect_id": effect_id,
                "task_id": effect.task_id,
                "state": str(effect.state),
                "finding": effect.finding,
                "granted": effect.granted,
                "version": effect.version,
            }
        )
    else:
        more = "; the owner of the task may make it happen once more" if effect.granted else ""
        emit(f"{effect_id} of {effect.task_id} is {effect.state} as {effect.finding}{more}")
    return 0


async def _explain(ledger: Ledger, error: Refused, effect: Effect, version: int) -> NoReturn:
    """A refusal with what is to be known for the next step."""
    from tenure.cli.effectlines import find_effect, story_of

    detail, follow = error.detail, ""
    now = await find_effect(ledger, effect.effect_id, effect.task_id)
    if error.code == "version_conflict":
        steps = [step for step in (await story_of(ledger, now)).steps if step.version > version]
        changed = "; ".join(f"version {step.version}, {when(step.at)}: {step.what}" for step in steps)
        detail = f"{detail} It is {now.state}. {changed}".strip()
        follow = f"look at it again, and name version {now.version} if your finding still holds"
        if version > now.version:
            follow = f"it never had that version; `tenure effects {now.effect_id}` has the present one"
    elif error.code == "attempt_unsafe":
        detail, follow = await _still_sending(ledger, detail, now)
    elif error.code == "wrong_phase":
        follow = f"`tenure effects {now.effect_id}` has its evidence"
    raise Refused(error.code, detail, **({**error.facts, "next": follow} if follow else error.facts)) from None


async def _still_sending(ledger: Ledger, detail: str, effect: Effect) -> tuple[str, str]:
    if not effect.senders:
        over = effect.dead_at + effect.in_flight_ms
        if effect.dead_at:
            return detail, f"repeat it after {when(over)}; or attest without --retry"
        return detail, "attest without --retry"
    instances = {each.instance_id: each for each in await ledger.instances()}
    places = []
    for sender in effect.senders:
        known = instances.get(sender)
        places.append(f"{sender} (pid {known.pid} on {known.host})" if known is not None else sender)
    hosts = sorted({instances[sender].host for sender in effect.senders if sender in instances})
    where = f" on {', '.join(hosts)}" if hosts else " on its host"
    follow = f"end that process; a worker or `tenure reconcile`{where} notes its death; or attest without --retry"
    return f"To be observed dead first: {', '.join(places)}.", follow
