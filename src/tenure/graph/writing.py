"""A graph as a readable team.toml: what was not said is not written, edges keep their order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tenure.protocol.graph import Graph

WIDE = 100
"""Longer lists are written with one element a line."""


def write_toml(graph: Graph) -> str:
    """The text of a file from which the same graph is read."""
    said: dict[str, Any] = msgspec.json.decode(graph.content)
    return "\n".join(_table((), said)).strip() + "\n"


def _table(path: tuple[str, ...], table: dict[str, Any]) -> Iterator[str]:
    """A table: its plain values first, then the tables inside it."""
    plain = {name: value for name, value in table.items() if not _nests(value)}
    if path and (plain or not table):
        yield ""
        yield f"[{'.'.join(map(_key, path))}]"
    for name, value in plain.items():
        yield f"{_key(name)} = {_value(value)}"
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _table((*path, name), value)
        elif _nests(value):
            for element in value:
                yield ""
                yield f"[[{'.'.join(map(_key, (*path, name)))}]]"
                for key, one in element.items():
                    yield f"{_key(key)} = {_value(one)}"


def _nests(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict) for one in value))


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if not isinstance(value, list):
        return msgspec.json.encode(value).decode()
    inside = [_value(one) for one in value]
    line = f"[{', '.join(inside)}]"
    return line if len(line) <= WIDE else "[\n" + "".join(f"  {one},\n" for one in inside) + "]"


def _text(text: str) -> str:
    """A basic string. JSON's escapes are TOML's, but for DEL, which TOML does not take as it is."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
