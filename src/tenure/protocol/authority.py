"""Grants: which tools an agent may use for effects, and up to which numbers. They only ever get narrower.

A grant is the name of a tool, with limits in brackets where there are any: ``refund``, ``refund(cents<=5000)``. ``*``
grants every tool. An authority is a tuple of grants, of at most one per tool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from tenure.errors import Refused

ANY = "*"
"""The grant of every tool."""

_GRANT = re.compile(r"(?P<tool>[^()\s]+)(?:\((?P<limits>[^()]+)\))?")
_LIMIT = re.compile(r"\s*(?P<name>[A-Za-z_][\w.]*)\s*<=\s*(?P<most>-?\d+(?:\.\d+)?)\s*")

Limits = dict[str, int | float]


@cache
def parse(grant: str) -> tuple[str, tuple[tuple[str, int | float], ...]]:
    """The tool of a grant, and its limits in order of their names.

    Raises:
        Refused: ``invalid`` for a text that is no grant.
    """
    found = _GRANT.fullmatch(grant)
    if found is None:
        raise Refused("invalid", f"{grant!r} is no grant; write tool or tool(field<=number).")
    limits: Limits = {}
    for part in (found["limits"] or "").split(","):
        if not part:
            continue
        limit = _LIMIT.fullmatch(part)
        if limit is None:
            raise Refused("invalid", f"{part.strip()!r} in {grant!r} is no limit; write field<=number.")
        most = float(limit["most"]) if "." in limit["most"] else int(limit["most"])
        limits[limit["name"]] = min(most, limits.get(limit["name"], most))
    return found["tool"], tuple(sorted(limits.items()))


def grant_of(tool: str, limits: Mapping[str, int | float]) -> str:
    """A grant in its one canonical form."""
    inside = ",".join(f"{name}<={most}" for name, most in sorted(limits.items()))
    return f"{tool}({inside})" if inside else tool


def tools_of(authority: tuple[str, ...]) -> frozenset[str]:
    """The names of the tools in an authority."""
    return frozenset(parse(grant)[0] for grant in authority)


def within(asked: tuple[str, ...], held: tuple[str, ...]) -> tuple[str, ...]:
    """The part of an authority that another one covers: tools of both, each with the lower of its limits."""
    if held in (asked, (ANY,)):
        return asked
    mine, theirs = _table(asked), _table(held)
    found = []
    for tool in mine if ANY not in mine else theirs:
        one, other = _limits(mine, tool), _limits(theirs, tool)
        if one is None or other is None:
            continue
        both = {name: min(one.get(name, most), other.get(name, most)) for name, most in (one | other).items()}
        found.append(grant_of(tool, both))
    return tuple(found)


def limits_for(authority: tuple[str, ...], tool: str) -> Limits | None:
    """The limits under which an authority grants a tool; ``None`` when it does not."""
    if authority == (ANY,):
        return {}
    return _limits(_table(authority), tool)


def beyond(limits: Limits, request: Any) -> str:
    """Why a request is not within limits, in words; empty when it is.

    A limited field that is missing, or is no number, is beyond every limit: nothing can be said for it.
    """
    for name, most in limits.items():
        value = _field(request, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"{name} is limited to {most}, and the request names no number for it"
        if not value <= most:
            return f"{name} is {value}, the limit is {most}"
    return ""


def _field(request: Any, name: str) -> Any:
    """A field of a request; a dot leads into a nested one."""
    for part in name.split("."):
        request = request.get(part) if isinstance(request, dict) else None
    return request


def _table(authority: tuple[str, ...]) -> dict[str, Limits]:
    return {tool: dict(limits) for tool, limits in map(parse, authority)}


def _limits(table: dict[str, Limits], tool: str) -> Limits | None:
    return table.get(tool, table.get(ANY))
