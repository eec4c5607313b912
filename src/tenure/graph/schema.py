"""The JSON Schema of a graph file, for editors: TOML, YAML and JSON have the same."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

from tenure.protocol import graph as parts
from tenure.protocol.graph import Graph, Part

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """The schema, with the words of the reference at each field."""
    found = msgspec.json.schema(Graph)
    kinds = {kind.__name__: kind for _, kind in inspect.getmembers(parts, inspect.isclass) if issubclass(kind, Part)}
    for name, definition in found["$defs"].items():
        if name not in kinds:
            continue
        words = attributes_of(kinds[name])
        encoded = {one.encode_name: one.name for one in msgspec.structs.fields(kinds[name])}
        for field, value in definition.get("properties", {}).items():
            if encoded[field] in words:
                value["description"] = words[encoded[field]]
    return {"$schema": DRAFT, "title": "Tenure routing graph", **found}


_NAMES = re.compile(r"(?:^|(?<=\. ))((?:[a-z_]+, )*[a-z_]+): ")


def attributes_of(kind: type) -> dict[str, str]:
    """What a Struct's docstring says of each of its fields."""
    text = " ".join(inspect.cleandoc(kind.__doc__ or "").partition("Attributes:")[2].split())
    pieces = _NAMES.split(text)
    told = zip(pieces[1::2], pieces[2::2], strict=True)
    return {name: said.strip() for names, said in told for name in names.split(", ")}
