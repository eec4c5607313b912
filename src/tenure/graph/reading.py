"""Reading a graph from a file: TOML, YAML or JSON. Whatever is wrong with it is a finding with its place."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tenure.graph.findings import Finding, Where
from tenure.graph.places import Places, places_of_json, places_of_toml, places_of_yaml
from tenure.protocol.graph import Graph

SUFFIXES = (".toml", ".yaml", ".yml", ".json")


class Read(Struct, frozen=True, kw_only=True):
    """What was read.

    Attributes:
        graph: ``None`` when the file is none. places: where each part stands. file: its name, as it was given.
        problems: why it is none.
    """

    graph: Graph | None
    places: Places
    file: str
    problems: tuple[Finding, ...] = ()


def read(path: Path) -> Read:
    """Read a file, by its suffix."""
    file = str(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        return _failed(file, f"It cannot be read: {error.strerror or error}.")
    return parse(content, path.suffix.lower(), file)


def parse(content: bytes, suffix: str, file: str = "") -> Read:
    """Read a text of the kind that a suffix names."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return _failed(file, f"It is not UTF-8: {error.reason}.", line=line)
    if suffix not in SUFFIXES:
        return _failed(file, f"{suffix or 'no suffix'!r} is none of {', '.join(SUFFIXES)}.")
    reader = {".toml": _toml, ".json": _json}.get(suffix, _yaml)
    try:
        value, places, twice = reader(text)
    except _Unreadable as error:
        return _failed(file, error.message, line=error.line, column=error.column)
    problems = [*twice, *_shape(value)]
    graph = None if problems else msgspec.convert(value, Graph)
    return Read(graph=graph, places=places, file=file, problems=tuple(_placed(one, places, file) for one in problems))


class _Unreadable(Exception):
    """A text that has no such syntax."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


def _failed(file: str, message: str, *, line: int = 1, column: int = 1) -> Read:
    finding = Finding(code="unreadable", message=message, file=file, line=line, column=column)
    return Read(graph=None, places=Places({}), file=file, problems=(finding,))


def _placed(finding: Finding, places: Places, file: str) -> Finding:
    line, column = places.of(finding.where)
    return msgspec.structs.replace(finding, file=file, line=line, column=column)


# --- syntax ---------------------------------------------------------------------------------------------------------

_Parsed = tuple[Any, Places, list[Finding]]
_AT = re.compile(r"\(at line (\d+), column (\d+)\)$")


def _toml(text: str) -> _Parsed:
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        at = _AT.search(said)
        ends = (text.count("\n") + 1, len(text) - text.rfind("\n"))
        line, column = (int(at[1]), int(at[2])) if at else ends
        raise _Unreadable(f"{_AT.sub('', said).removesuffix(' (at end of document)').strip()}.", line, column) from None
    return value, places_of_toml(text.encode()), []


def _json(text: str) -> _Parsed:
    import json  # noqa: PLC0415 - its errors have a line and a column; the decoder of the project has neither

    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice.extend(dict.fromkeys(name for name in names if names.count(name) > 1))
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise _Unreadable(f"{error.msg}.", error.lineno, error.colno) from None
    except RecursionError:
        raise _Unreadable("It is nested too deeply.") from None
    return value, places_of_json(text.encode()), [_twice(name) for name in twice]


def _yaml(text: str) -> _Parsed:
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ImportError:
        raise _Unreadable("YAML needs an extra: pip install 'tenure[yaml]'. TOML and JSON need nothing.") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise _Unreadable(f"{error.problem or error.context}.", *at) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _Unreadable(f"{error}.") from None
    if root is None:
        return {}, Places({}), []
    return value, places_of_yaml(root), [_twice(name, where) for name, where in _yaml_twice(root, ())]


def _yaml_twice(node: Any, where: Where) -> Iterator[tuple[str, Where]]:
    """Keys that stand twice in one mapping; the loader takes the last of them and says nothing."""
    if node.id == "mapping":
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                yield name, (*where, name)
            seen.add(name)
            yield from _yaml_twice(value, (*where, name))
    elif node.id == "sequence":
        for number, element in enumerate(node.value):
            yield from _yaml_twice(element, (*where, number))


def _twice(name: str, where: Where = ()) -> Finding:
    return Finding(code="unreadable", message=f"The key {name!r} stands twice.", where=where)


# --- shape ----------------------------------------------------------------------------------------------------------

_PATH = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")


def _shape(value: Any) -> list[Finding]:
    """Every part of a value that has not the shape of its part of a graph: all of them, not only the first."""
    if not isinstance(value, dict):
        return [_misshapen(f"A graph is a table, not {type(value).__name__}.", ())]
    if not value:
        return [_misshapen("It is empty.", ())]
    hints = msgspec.structs.fields(Graph)
    types = {one.encode_name: one.type for one in hints}
    problems: list[Finding] = []
    for name, part in value.items():
        if name not in types:
            problems.append(_unknown(name, list(types), (name,)))
        elif name in ("agents", "tools", "policies") and isinstance(part, dict):
            inner = types[name].__args__[1]
            for key, one in part.items():
                problems += _converted(one, inner, (name, str(key)))
        elif name == "edges" and isinstance(part, list):
            for number, one in enumerate(part):
                problems += _converted(one, types[name].__args__[0], (name, number))
        else:
            problems += _converted(part, types[name], (name,))
    if "team" not in value:
        problems.append(_misshapen('It does not name its team: write team = "…".', ()))
    return problems


def _converted(value: Any, kind: Any, where: Where) -> list[Finding]:
    """What is wrong with one part; its unknown fields all at once."""
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Struct):
        names = [one.encode_name for one in msgspec.structs.fields(kind)]
        unknown = [name for name in value if name not in names]
        if unknown:
            known = {name: one for name, one in value.items() if name in names}
            found = [_unknown(str(name), names, (*where, str(name))) for name in unknown]
            return found + _converted(known, kind, where)
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        said = _PATH.match(str(error))
        what, path = (said["what"], said["path"] or "$") if said else (str(error), "$")
        return [_misshapen(f"{_worded(what, kind, path)}.", (*where, *_steps(path)))]
    return []


def _steps(path: str) -> Where:
    return tuple(name or int(number) for name, number in _STEP.findall(path) if number != "...")


def _worded(what: str, kind: Any, path: str) -> str:
    """A validation error with the values that would have been allowed."""
    allowed = _allowed(kind, _steps(path))
    return f"{what}; allowed: {', '.join(allowed)}" if "enum value" in what and allowed else what


def _allowed(kind: Any, steps: Where) -> list[str]:
    """The values of the enumeration or literal that stands at a path inside a type."""
    for step in steps:
        if not (isinstance(kind, type) and issubclass(kind, Struct)):
            break
        kind = next((one.type for one in msgspec.structs.fields(kind) if one.encode_name == step), None)
    found: list[str] = []
    pending = [kind]
    while pending:
        one = pending.pop()
        values = getattr(one, "__members__", None)
        if values is not None:
            found += [str(value) for value in values.values()]
        elif isinstance(one, str):
            found.append(one)
        else:
            pending += [inner for inner in getattr(one, "__args__", ()) if inner is not type(None)]
    return sorted(found)


def _unknown(name: str, known: list[str], where: Where) -> Finding:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(known)}."
    return _misshapen(f"There is no field {name!r} here; {hint}", where)


def _misshapen(message: str, where: Where) -> Finding:
    return Finding(code="unreadable", message=message, where=where)
