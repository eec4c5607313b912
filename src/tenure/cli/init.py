"""``tenure init``: a small team that runs."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from tenure.cli.problems import Misused
from tenure.cli.talk import emit

FILES = ("team.py", "tasks.jsonl", "README.md")


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=".")
def init(folder: Path) -> int:
    """Write a small team into FOLDER (the current one by default): two agents, a handoff, an effect, some input.

    Nothing is overwritten: when one of the files is there already, none is written.
    """
    there = [name for name in FILES if (folder / name).exists()]
    if there:
        hint = "name another folder, or move them away"
        raise Misused(f"{folder} has {', '.join(there)} already; nothing was written.", code="file_exists", hint=hint)
    template = resources.files("tenure.cli") / "template"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / name).write_bytes((template / name).read_bytes())
    except OSError as error:
        hint = "name a folder that you may write to"
        raise Misused(f"{folder} cannot be written: {error.strerror}.", code="not_writable", hint=hint) from None
    emit("\n".join(f"wrote {folder / name}" for name in FILES))
    into = "" if folder == Path() else f"cd {folder} && "
    emit(f"next: {into}tenure run team.py --input tasks.jsonl && tenure verify")
    return 0
