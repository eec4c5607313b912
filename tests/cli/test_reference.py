"""The reference has the help of every command as it is, and every exit code."""

from __future__ import annotations

import click

from tenure.cli import app, problems
from tenure.errors import Fenced, OutcomeUnknown, Refused, Unavailable
from tests.cli.help_pages import PAGE, help_texts, shown_texts


def test_every_help_text_stands_in_the_reference_as_it_is() -> None:
    hint = "write them anew: uv run python -m tests.cli.help_pages"
    assert shown_texts() == help_texts(), hint


def test_every_option_has_a_help_text() -> None:
    options = [
        (name, parameter.name, parameter.help)
        for name, command in app.commands.items()
        for parameter in command.params
        if isinstance(parameter, click.Option)
    ]
    assert len(options) > 20
    assert [each for each in options if not each[2]] == []


def test_every_reading_command_can_print_json() -> None:
    for name in ("tasks", "show", "events", "effects", "verify", "erase", "run", "reconcile", "attest"):
        assert "--json" in {option for parameter in app.commands[name].params for option in parameter.opts}


def test_every_exit_code_stands_in_the_reference() -> None:
    families = {family.exit_code for family in (Refused, Fenced, Unavailable, OutcomeUnknown)}
    own = {problems.FOUND, problems.USAGE, problems.SOFTWARE, problems.INTERRUPTED, problems.CLOSED}
    assert len(families | own) == 9
    text = PAGE.read_text()
    assert [code for code in sorted({0, *families, *own}) if f"| {code} |" not in text] == []
