"""What is wrong with the shape of a value that should be a graph: everything, part by part, not only the first."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from tenure.graph.findings import Finding, Where

_LARGEST = 2**63
"""Whole numbers are kept in 64 bits, with a sign."""

_BARE = re.compile(r"[A-Za-z0-9_*-]+")


def misshapen(value: Any, kind: Any, where: Where = ()) -> Iterator[Finding]:
    """Findings for every part of a value that has not the shape of its part of a type."""
    kind = _said(kind, value)
    inner = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Struct) and isinstance(value, dict):
        yield from _of_struct(value, kind, where)
    elif get_origin(kind) is dict and isinstance(value, dict):
        for name, part in value.items():
            yield from misshapen(part, inner[1], (*where, str(name)))
    elif get_origin(kind) is tuple and isinstance(value, list):
        for number, part in enumerate(value):
            yield from misshapen(part, inner[0], (*where, number))
    else:
        yield from _of_value(value, kind, where)


def _said(kind: Any, value: Any) -> Any:
    """A type without its ``None``, where a value is said: what was meant is then no choice any more."""
    if value is None or get_origin(kind) not in (Union, UnionType):
        return kind
    others = [one for one in get_args(kind) if one is not NoneType]
    return others[0] if len(others) == 1 else kind


@cache
def _fields(kind: type[Struct]) -> dict[str, FieldInfo]:
    return {one.encode_name: one for one in fields(kind)}


def _of_struct(value: dict[Any, Any], kind: type[Struct], where: Where) -> Iterator[Finding]:
    known, meant = _fields(kind), set[str]()
    for name, part in value.items():
        if name in known:
            yield from misshapen(part, known[name].type, (*where, name))
            continue
        close = _close(str(name), known)
        meant.update(close)
        hint = f"did you mean {close[0]!r}?" if close else f"known there: {', '.join(known)}."
        yield misfit(f"There is no field {str(name)!r} in {dotted(where)}; {hint}", (*where, str(name)))
    for name, field in known.items():
        if field.default is NODEFAULT and field.default_factory is NODEFAULT and name not in {*value, *meant}:
            yield misfit(f"The field {name!r} is missing in {dotted(where)}.", where)


def _of_value(value: Any, kind: Any, where: Where) -> Iterator[Finding]:
    try:
        found = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        what = str(error)
        allowed = _allowed(kind)
        if allowed:
            close = _close(value, allowed) if isinstance(value, str) else []
            what = f"{what}; allowed: {', '.join(allowed)}" + "".join(f"; did you mean {one!r}?" for one in close)
        yield misfit(f"{dotted(where)}: {what}".removesuffix("?") + ("?" if what.endswith("?") else "."), where)
        return
    if isinstance(found, float) and not math.isfinite(found):
        yield misfit(f"{dotted(where)}: {found} is no number that can be kept.", where)
    elif isinstance(found, int) and not -_LARGEST <= found < _LARGEST:
        yield misfit(f"{dotted(where)}: the number has more than 64 bits.", where)
    elif isinstance(found, str) and not found.isascii() and any("\ud800" <= one <= "\udfff" for one in found):
        yield misfit(f"{dotted(where)}: half of a surrogate pair is no text.", where)


def _allowed(kind: Any) -> list[str]:
    """The values of an enumeration or a literal."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(one.value) for one in kind]
    return [str(one) for one in get_args(kind)] if get_origin(kind) is Literal else []


def _close(name: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, list(known), n=1)


def dotted(where: Where) -> str:
    """A place in words: ``edges[3].because``, ``agents."order desk"``."""
    said = ""
    for step in where:
        if isinstance(step, int):
            said += f"[{step}]"
        else:
            said += f".{step}" if _BARE.fullmatch(step) else f".{msgspec.json.encode(step).decode()}"
    return said.removeprefix(".") or "the graph"


def misfit(message: str, where: Where = ()) -> Finding:
    """A finding that keeps a file from being a graph."""
    return Finding(code="unreadable", message=message, where=where)
