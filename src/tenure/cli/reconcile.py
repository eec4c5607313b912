"""``tenure reconcile``: look after open effects now, with the providers of a team."""

from __future__ import annotations

import click

from tenure.cli.options import json_option


@click.command()
@click.argument("team", metavar="TEAM")
@click.option(
    "--effect", "effect_ids", multiple=True, metavar="EFFECT", help="Only this one; may be given several times."
)
@click.option("--all-open", is_flag=True, help="Also those whose next check is not due yet.")
@click.option("--limit", type=click.IntRange(min=1), default=None, help="Most effects to look after. [default: all]")
@click.option("--dry-run", is_flag=True, help="Say what would be tried for each; call nobody, write nothing.")
@click.option(
    "--ledger",
    "url",
    metavar="URL",
    envvar="TENURE_LEDGER",
    default="",
    show_envvar=True,
    help="Ledger to reconcile instead of the team's own: sqlite:///FILE.",
)
@json_option("End with one JSON object on stdout.")
def reconcile(
    team: str,
    effect_ids: tuple[str, ...],
    limit: int | None,
    url: str,
    *,
    all_open: bool,
    dry_run: bool,
    json: bool,
) -> int:
    """Look once after each effect that is due, with the providers that TEAM names.

    TEAM is module:attribute, path/to/team.py (attribute team) or path/to/team.py:attribute. Workers do the same all the
    time; this does it now, for effects of every team in the ledger. Several at once do not get in each other's way.

    First, processes of this host that have died are noted: what their death proves counts. Then each effect is looked
    up; what its task still wants is called again where that cannot act twice; else its key is sealed; what is to be
    undone is undone. Where nothing is left to try, a person is asked. Residual work that is seen to have ended is
    taken off the books. See the page "Reconcile" of the how-to guides.

    The first Ctrl-C or SIGTERM begins no further look and lets those that have begun end. The second one stops at once;
    a call that was in flight is in the ledger, and somebody looks again after the next check. Exit code: 0 when no
    effect in the ledger needs anybody, 1 when some do, 4 when the ledger went away, 130 after a signal. A dry run has 0
    when there is nothing to do, and 1 otherwise.
    """
    from tenure.cli.options import open_existing
    from tenure.cli.problems import Misused
    from tenure.cli.reconciling import Errand
    from tenure.cli.stopping import run_stoppable
    from tenure.cli.teamfile import load

    if effect_ids and all_open:
        raise Misused("--effect and --all-open exclude each other.", code="usage", hint="leave one of them out")
    loaded = load(team).team
    if not loaded.providers:
        hint = "name them where the team is made: Team(…, providers=[payments])"
        raise Misused(f"Team {loaded.name!r} names no providers.", code="no_providers", hint=hint)
    ledger = open_existing(url or loaded.ledger_url)
    loaded.use_ledger(ledger)
    errand = Errand(loaded, ledger, effect_ids=effect_ids, all_open=all_open, limit=limit, as_json=json)
    work = errand.plan if dry_run else errand.run
    return run_stoppable(work, first="no further look begins; a second signal stops at once")
