"""The statements of the SQLite backend, by name, from the files in ``tenure/ledger/sql``."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def statements(group: str) -> dict[str, str]:
    """Every statement of ``sql/<group>.sql`` by its name."""
    text = (files("tenure.ledger") / "sql" / f"{group}.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)[1:]
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


@cache
def migrations() -> tuple[str, ...]:
    """The schema's migrations in order; the first makes version 1."""
    folder = files("tenure.ledger") / "sql" / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((folder / name).read_text(encoding="utf-8") for name in names)
