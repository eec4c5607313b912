"""Where in a file each part of a graph stands: line and column, both from 1, in characters."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import msgspec
import tree_sitter
import tree_sitter_json
import tree_sitter_toml

from tenure.graph.findings import Where

Place = tuple[int, int]

_KEYS = frozenset({"bare_key", "quoted_key", "dotted_key"})


class Places:
    """Places of keys and of the elements of lists, by their path."""

    def __init__(self, found: dict[Where, Place]) -> None:
        """Made by :func:`places_of_toml` and its siblings."""
        self._found = found

    def of(self, where: Where) -> Place:
        """The place of a path, or of the nearest part around it that stands in the file."""
        while where and where not in self._found:
            where = where[:-1]
        return self._found.get(where, (1, 1))


class _Lines:
    """Columns of tree-sitter count bytes; people count characters."""

    def __init__(self, content: bytes) -> None:
        self._lines = content.split(b"\n")

    def place(self, node: tree_sitter.Node) -> Place:
        row, column = node.start_point
        return row + 1, len(self._lines[row][:column].decode(errors="replace")) + 1


def _parsed(language: object, content: bytes) -> tree_sitter.Node:
    return tree_sitter.Parser(tree_sitter.Language(language)).parse(content).root_node


# --- TOML -----------------------------------------------------------------------------------------------------------


def places_of_toml(content: bytes) -> Places:
    """Places in a TOML file, as far as it can be read."""
    lines, found, counts = _Lines(content), dict[Where, Place](), dict[Where, int]()
    for node in _parsed(tree_sitter_toml.language(), content).children:
        if node.type == "pair":
            _toml_pair(node, (), lines, found)
        elif node.type in ("table", "table_array_element"):
            _toml_table(node, lines, found, counts)
    return Places(found)


def _toml_table(node: tree_sitter.Node, lines: _Lines, found: dict[Where, Place], counts: dict[Where, int]) -> None:
    """A table, or the next element of an array of tables; a key in between means the newest element of its array."""
    header = next((child for child in node.children if child.type in _KEYS), None)
    if header is None:
        return
    where: Where = ()
    keys = list(_toml_keys(header))
    for number, key in enumerate(keys, 1):
        name = _toml_name(key)
        where = (*where, name)
        found.setdefault(where, lines.place(key))
        last = number == len(keys)
        if last and node.type == "table_array_element":
            counts[where] = counts.get(where, -1) + 1
        if where in counts:
            where = (*where, counts[where])
            found.setdefault(where, lines.place(key))
    for child in node.children:
        if child.type == "pair":
            _toml_pair(child, where, lines, found)


def _toml_pair(node: tree_sitter.Node, prefix: Where, lines: _Lines, found: dict[Where, Place]) -> None:
    named = [child for child in node.children if child.is_named and child.type != "comment"]
    if len(named) < 2:  # noqa: PLR2004 - a key and its value
        return
    where = prefix
    for key in _toml_keys(named[0]):
        where = (*where, _toml_name(key))
        found.setdefault(where, lines.place(key))
    _toml_value(named[1], where, lines, found)


def _toml_value(node: tree_sitter.Node, where: Where, lines: _Lines, found: dict[Where, Place]) -> None:
    if node.type == "inline_table":
        for child in node.children:
            if child.type == "pair":
                _toml_pair(child, where, lines, found)
    elif node.type == "array":
        elements = (child for child in node.children if child.is_named and child.type != "comment")
        for number, element in enumerate(elements):
            found[*where, number] = lines.place(element)
            _toml_value(element, (*where, number), lines, found)


def _toml_keys(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """The simple keys of a key: a dotted one nests to the left."""
    if node.type != "dotted_key":
        yield node
        return
    for child in node.children:
        if child.type in _KEYS:
            yield from _toml_keys(child)


def _toml_name(node: tree_sitter.Node) -> str:
    text = (node.text or b"").decode(errors="replace")
    if node.type != "quoted_key":
        return text
    try:
        return next(iter(tomllib.loads(f"{text} = 0")))
    except tomllib.TOMLDecodeError:
        return text


# --- JSON and YAML --------------------------------------------------------------------------------------------------


def places_of_json(content: bytes) -> Places:
    """Places in a JSON file, as far as it can be read."""
    lines, found = _Lines(content), dict[Where, Place]()
    for node in _parsed(tree_sitter_json.language(), content).children:
        _json_value(node, (), lines, found)
    return Places(found)


def _json_value(node: tree_sitter.Node, where: Where, lines: _Lines, found: dict[Where, Place]) -> None:
    found.setdefault(where, lines.place(node))
    if node.type == "object":
        for pair in node.children:
            named = [child for child in pair.children if child.is_named and child.type != "comment"]
            if pair.type == "pair" and len(named) > 1:
                inside = (*where, _json_name(named[0]))
                found.setdefault(inside, lines.place(named[0]))
                _json_value(named[1], inside, lines, found)
    elif node.type == "array":
        elements = (child for child in node.children if child.is_named and child.type != "comment")
        for number, element in enumerate(elements):
            _json_value(element, (*where, number), lines, found)


def _json_name(node: tree_sitter.Node) -> str:
    try:
        return str(msgspec.json.decode(node.text or b'""'))
    except msgspec.DecodeError:
        return ""


def places_of_yaml(root: Any) -> Places:
    """Places in a YAML file, from the node that ``yaml.compose`` has made of it."""
    found: dict[Where, Place] = {}
    _yaml_value(root, (), found, frozenset())
    return Places(found)


def _yaml_value(node: Any, where: Where, found: dict[Where, Place], inside: frozenset[int]) -> None:
    """One node; ``inside`` holds those around it, for an alias may lead back into itself."""
    found.setdefault(where, (node.start_mark.line + 1, node.start_mark.column + 1))
    if id(node) in inside:
        return
    inside |= {id(node)}
    if node.id == "mapping":
        for key, value in node.value:
            below = (*where, str(key.value))
            found.setdefault(below, (key.start_mark.line + 1, key.start_mark.column + 1))
            _yaml_value(value, below, found, inside)
    elif node.id == "sequence":
        for number, element in enumerate(node.value):
            _yaml_value(element, (*where, number), found, inside)
