"""The JSON Schema of a graph file, for editors: TOML, YAML and JSON have the same."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from tenure.graph.reading import SCHEMA_KEY
from tenure.protocol import graph as parts
from tenure.protocol.graph import Budgets, Deadlines, Fallback, Graph, Oscillation, Part, PolicyNode, Turns
from tenure.protocol.settings import Limits, Policy, Settings

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_RENAMED = {
    "tree_delegations": "delegations",
    "person": "fallback",
    "failure": "on_failure",
    "lost": "on_lost",
    "ack_timeout": "on_ack_timeout",
    "unanswered": "on_unanswered",
}
"""Fields of a graph that the settings know by another name, as in :meth:`tenure.protocol.graph.Graph.settings`."""

_ENDS = {"source": "The agent that hands over.", "target": "The agent that receives; * as that of a delegation is any."}


def schema() -> dict[str, Any]:
    """The schema, with the words of the docstrings at each field, and the defaults that are filled in later."""
    found = msgspec.json.schema(Graph)
    for name, kind in kinds().items():
        definition = found["$defs"][name]
        definition["description"] = _summary(kind)
        for field in fields(kind):
            value = definition["properties"][field.encode_name]
            if words := described(kind, field.name):
                value["description"] = words
            filled = default_of(kind, field.name)
            if filled is not None and value.get("default", 0) in (None, ""):
                value["default"] = filled
    told = {"type": "string", "description": "The schema of this file, for editors; no part of the graph."}
    found["$defs"]["Graph"]["properties"][SCHEMA_KEY] = told
    return {"$schema": DRAFT, "title": "Tenure routing graph", **found}


def kinds() -> dict[str, type[Part]]:
    """The Structs of which a graph consists, by name."""
    found = inspect.getmembers(parts, lambda one: inspect.isclass(one) and issubclass(one, Part) and one is not Part)
    return dict(found)


def default_of(kind: type[Part], name: str) -> Any:
    """What holds where a field is not said, filled in from the settings; ``None`` when only the graph can tell."""
    field = next(one for one in fields(kind) if one.name == name)
    source = _source(kind, name)
    if source is not None and field.default in (None, ""):
        return getattr(source(), _RENAMED.get(name, name))
    if field.default_factory is not NODEFAULT:
        return msgspec.to_builtins(field.default_factory())
    return None if field.default is NODEFAULT else msgspec.to_builtins(field.default)


def _source(kind: type[Part], name: str) -> type[Settings | Limits] | None:
    """Where the default of a field stands that the graph leaves open."""
    if kind is Budgets:
        return Limits if name in ("depth", "tree_delegations", "agents") else Settings
    return Settings if kind in (Turns, Oscillation, Fallback, Deadlines) else None


def described(kind: type[Part], name: str) -> str:
    """What the docstrings say of a field: those of what it is short for first, then those of its own Struct."""
    if name in _ENDS:
        return _ENDS[name]
    source: type[Struct] | None = Policy if kind is PolicyNode else _source(kind, name)
    theirs = attributes_of(source).get(_RENAMED.get(name, name), "") if source else ""
    field = next(one for one in fields(kind) if one.name == name)
    words = theirs or attributes_of(kind).get(name, "") or _summary(field.type)
    filled = default_of(kind, name) if _source(kind, name) else None
    return words if filled in (None, "") else f"{words} {filled!r} unless it is said here or in the team's settings."


def _summary(kind: Any) -> str:
    """What a docstring says before it comes to the fields; nothing for what is no class of this project."""
    if not isinstance(kind, type) or not kind.__module__.startswith("tenure."):
        return ""
    return _plain((kind.__doc__ or "").partition("Attributes:")[0])


_NAMES = re.compile(r"(?:^|(?<=\. ))((?:[a-z_]+, )*[a-z_]+): ")
_ROLE = re.compile(r":[a-z]+:`~?(?:[\w.]*\.)?(\w+)`")


def attributes_of(kind: type) -> dict[str, str]:
    """What a Struct's docstring says of each of its fields."""
    text = _plain(inspect.cleandoc(kind.__doc__ or "").partition("Attributes:")[2])
    pieces = _NAMES.split(text)
    told = zip(pieces[1::2], pieces[2::2], strict=True)
    return {name: said.strip() for names, said in told for name in names.split(", ")}


def _plain(text: str) -> str:
    """Words of a docstring without its markup, in one line; a file cannot say ``None``, it leaves out."""
    words = _ROLE.sub(r"\1", " ".join(text.split())).replace("`", "")
    return re.sub(r"(^|\. )None\b", r"\1Leaving it out", words).replace("None", "leaving it out")
