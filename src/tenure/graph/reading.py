"""Reading a graph from a file: TOML, YAML or JSON. Whatever is wrong with it is a finding with its place."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenure.graph.findings import Finding
from tenure.graph.places import (
    Fault,
    Marks,
    Place,
    Places,
    places_of_json,
    places_of_toml,
    places_of_yaml,
    statement_of_toml,
)
from tenure.graph.shape import misfit, misshapen
from tenure.protocol.graph import Graph, read_graph

SUFFIXES = (".toml", ".yaml", ".yml", ".json")

SCHEMA_KEY = "$schema"
"""A file may name its schema for an editor, as JSON has no comment to do so; it is no part of the graph."""


class Read(Struct, frozen=True, kw_only=True):
    """What was read.

    Attributes:
        graph: ``None`` when the file is none. places: where each part stands. file: its name, as it was given.
        problems: why it is none, in the order of their places.
    """

    graph: Graph | None
    places: Places
    file: str
    problems: tuple[Finding, ...] = ()


def read(path: Path) -> Read:
    """Read a file, by its suffix. Nothing is raised: a file that cannot be read is a problem too."""
    file = str(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        return _failed(file, f"It cannot be read: {error.strerror or error}.")
    except ValueError as error:  # a name that the system cannot have
        return _failed(file, f"It cannot be read: {error}.")
    return parse(content, path.suffix, file)


def parse(content: bytes | str, suffix: str, file: str = "") -> Read:
    """Read a text of the kind that a suffix names: ``.toml``, ``.yaml``, ``.yml`` or ``.json``."""
    suffix = suffix.lower()
    if suffix not in SUFFIXES:
        return _failed(file, f"The suffix {suffix!r} is none of {', '.join(SUFFIXES)}.")
    reader = {".toml": _toml, ".json": _json}.get(suffix, _yaml)
    try:
        value, places, faults = reader(_text(content))
    except _Unreadable as error:
        return _failed(file, error.message, error.place)
    if isinstance(value, dict):
        value = {name: part for name, part in value.items() if name != SCHEMA_KEY}
    graph, problems, said = _graph(value)
    told = [_at(place, misfit(message), file) for place, message in faults]
    told += [_at(places.of(one.where), one, file) for one in problems]
    told.sort(key=lambda one: (one.line, one.column))
    if graph is None and not told:
        return _failed(file, said)
    return Read(graph=None if told else graph, places=places, file=file, problems=tuple(told))


class _Unreadable(Exception):
    """A text that has no such syntax."""

    def __init__(self, message: str, place: Place = (1, 1)) -> None:
        super().__init__(message)
        self.message, self.place = message, place


def _failed(file: str, message: str, place: Place = (1, 1)) -> Read:
    return Read(graph=None, places=Places({}), file=file, problems=(_at(place, misfit(message), file),))


def _at(place: Place, finding: Finding, file: str) -> Finding:
    return replace(finding, file=file, line=place[0], column=place[1])


def _graph(value: Any) -> tuple[Graph | None, list[Finding], str]:
    """A value as a graph, or what is wrong with it: part by part, and in the words of whoever turned it away."""
    try:
        graph = msgspec.convert(value, Graph)
        said = "It cannot be kept as it is."
        # What cannot be kept: an infinite number, half of a character, more than 64 bits.
        if read_graph(graph.content) == graph and not (_LARGE.search(graph.content) and [*misshapen(value, Graph)]):
            return graph, [], ""
    except (msgspec.ValidationError, UnicodeEncodeError, OverflowError) as error:
        said = f"{error}."
    return None, list(misshapen(value, Graph)), said


# --- syntax ---------------------------------------------------------------------------------------------------------

_Parsed = tuple[Any, Places, list[Fault]]

_AT = re.compile(r" \(at line (\d+), column (\d+)\)$")
_AT_THE_END = " (at end of document)"
_BYTE = re.compile(r" \(byte (\d+)\)$")
_LARGE = re.compile(rb"\d{19}")
_DIGITS = re.compile(r"\d[\d_]{4300,}")
_ONLY_PYTHON = re.compile(
    r"\bNaN\b|-?\bInfinity\b"
    r"|\\u[dD][89abAB]\w\w(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]\w\w)\\u[dD][c-fC-F]\w\w"
)
"""What the decoder of the standard library takes and JSON does not have: three numbers, and halves of characters."""

_TOO_DEEP = "It is nested too deeply."
_TOO_LONG = "It has a number with too many digits."


def _text(content: bytes | str) -> str:
    try:
        text = content.decode() if isinstance(content, bytes) else content
        text.encode()
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        raise _Unreadable(f"It is not UTF-8: {error.reason}.", _place(before, len(before))) from None
    except UnicodeEncodeError as error:
        raise _Unreadable(f"It is not UTF-8: {error.reason}.", _place(error.object, error.start)) from None
    text = text.removeprefix("\ufeff")  # the byte order mark of some editors
    if not text.strip():
        raise _Unreadable("It is empty.")
    return text


def _place(text: str, index: int) -> Place:
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _toml(text: str) -> _Parsed:
    try:
        return tomllib.loads(text), places_of_toml(text.encode()), []
    except tomllib.TOMLDecodeError as error:
        said, at = str(error), _AT.search(str(error))
        place = (int(at[1]), int(at[2])) if at else _place(text, len(text))
        if said.startswith(("Cannot ", "Duplicate ")):  # told at its end, and meant is what begins before
            place = statement_of_toml(text.encode(), *place)
        raise _Unreadable(f"{_AT.sub('', said).removesuffix(_AT_THE_END)}.", place) from None
    except RecursionError:
        raise _Unreadable(_TOO_DEEP) from None
    except ValueError:
        raise _too_long(text) from None


def _json(text: str) -> _Parsed:
    content = text.encode()
    try:
        value = msgspec.json.decode(content)
    except RecursionError:
        raise _Unreadable(_TOO_DEEP) from None
    except ValueError as error:
        raise _no_json(text, str(error)) from None
    return value, *places_of_json(content)


def _no_json(text: str, said: str) -> _Unreadable:
    """Why a text is no JSON: the standard library's decoder is slower and takes more, but says where it stops."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return _Unreadable(f"{error.msg}.", (error.lineno, error.colno))
    except RecursionError:
        return _Unreadable(_TOO_DEEP)
    except ValueError:
        return _too_long(text)
    if (found := _ONLY_PYTHON.search(text)) is not None:
        said = "Half of a surrogate pair is no text." if found[0][0] == "\\" else f"{found[0]} is no value of JSON."
        return _Unreadable(said, _place(text, found.start()))
    at = _BYTE.search(said)
    before = text.encode()[: int(at[1])].decode(errors="ignore") if at else ""
    return _Unreadable(f"{_BYTE.sub('', said).partition(' - at ')[0]}.", _place(text, len(before)))


def _too_long(text: str) -> _Unreadable:
    found = _DIGITS.search(text)
    return _Unreadable(_TOO_LONG, _place(text, found.start() if found else 0))


def _yaml(text: str) -> _Parsed:
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ImportError:
        raise _Unreadable("YAML needs an extra: pip install 'tenure[yaml]'. TOML and JSON need nothing.") from None
    marks = Marks(text)
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)  # three times as fast, where it was built
        root = loader.get_single_node()
        if root is None:
            return {}, Places({}), []
        places, faults = places_of_yaml(root, marks)
        # After the places: a merge is resolved by rewriting the node.
        return loader.construct_document(root), places, faults
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = marks.place(mark) if mark is not None else (1, 1)
        raise _Unreadable(f"{error.problem or error.context}.", place) from None
    except yaml.reader.ReaderError as error:
        place = _place(text, max(text.find(chr(error.character)), 0))
        raise _Unreadable(f"{error.reason}.", place) from None
    except RecursionError:
        raise _Unreadable(_TOO_DEEP) from None
    except ValueError as error:  # a date that is none, a number that is too long
        raise (_too_long(text) if _DIGITS.search(text) else _Unreadable(f"{error}.")) from None
