"""The help texts in docs/reference/cli.md. Write them anew with ``uv run python -m tests.cli.help_pages``."""

from __future__ import annotations

import re
from pathlib import Path

import click

from tenure.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
BLOCK = re.compile(r"<!-- help: (?P<name>tenure[ a-z]*) -->\n```text\n(?P<text>.*?)```\n", re.DOTALL)


def help_texts() -> dict[str, str]:
    """The help of every command, 100 columns wide."""
    root = click.Context(app, info_name="tenure", terminal_width=100, **app.context_settings)
    texts = {"tenure": app.get_help(root)}
    for name, command in app.commands.items():
        texts[f"tenure {name}"] = command.get_help(
            click.Context(command, parent=root, info_name=name, terminal_width=100)
        )
    return {name: f"{text}\n" for name, text in texts.items()}


def shown_texts() -> dict[str, str]:
    """The help texts as the page has them."""
    return {found["name"]: found["text"] for found in BLOCK.finditer(PAGE.read_text())}


def rewrite() -> None:
    """Put the present help into the page's blocks."""
    texts = help_texts()

    def present(found: re.Match[str]) -> str:
        return f"<!-- help: {found['name']} -->\n```text\n{texts[found['name']]}```\n"

    PAGE.write_text(BLOCK.sub(present, PAGE.read_text()))


if __name__ == "__main__":
    rewrite()
