"""Where in a file each part of a graph stands: line and column, both from 1, in characters.

Every builder walks a file once, without recursion: files of any size cost time in proportion to it, and files of any
depth no stack. Lines end at a line feed, as editors and the parsers of TOML and JSON count them.
"""

from __future__ import annotations

import bisect
import re
import tomllib
from array import array
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import msgspec
import tree_sitter
import tree_sitter_json
import tree_sitter_toml

from tenure.graph.findings import Where

Place = tuple[int, int]
"""Line and column, from 1."""

Branch = dict[str | int, tuple[Place, "Branch"]]
"""What stands in a table or a list: by key or position, its place and what stands in it."""

Fault = tuple[Place, str]
"""What a parser takes and should not: a key that stands twice, of which it keeps the last."""

_KEYS = frozenset({"bare_key", "quoted_key", "dotted_key"})
_STATEMENTS = frozenset({"pair", "table", "table_array_element"})


class Places:
    """Places of keys and of the elements of lists, by their path."""

    def __init__(self, inside: Branch, root: Place = (1, 1)) -> None:
        """Made by :func:`places_of_toml` and its siblings."""
        self._inside, self._root = inside, root

    def of(self, where: Where) -> Place:
        """The place of a path, or of the nearest part around it that stands in the file."""
        place, inside = self._root, self._inside
        for step in where:
            if step not in inside:
                break
            place, inside = inside[step]
        return place


class _Lines:
    """Columns of tree-sitter count bytes; people count characters."""

    def __init__(self, content: bytes) -> None:
        self._lines = content.split(b"\n")
        self._before: dict[int, array[int] | None] = {}

    def place(self, node: tree_sitter.Node) -> Place:
        row, column = node.start_point
        if row not in self._before:
            line = self._lines[row]
            # One pass over a line, however many keys stand in it: a file may be one line only.
            begins = (byte & 0xC0 != 0x80 for byte in line)  # noqa: PLR2004 - UTF-8: not the rest of a character
            self._before[row] = None if line.isascii() else array("I", accumulate(begins, initial=0))
        before = self._before[row]
        return row + 1, (column if before is None else before[column]) + 1


def _parsed(language: object, content: bytes) -> tree_sitter.Node:
    return tree_sitter.Parser(tree_sitter.Language(language)).parse(content).root_node


def _parts(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    """The children that are no punctuation and no comment."""
    return [child for child in node.children if child.is_named and child.type != "comment"]


# --- TOML -----------------------------------------------------------------------------------------------------------


def places_of_toml(content: bytes) -> Places:
    """Places in a TOML file, as far as it can be read."""
    lines, tree = _Lines(content), Branch()
    for node in _parsed(tree_sitter_toml.language(), content).children:
        if node.type == "pair":
            _toml_pair(node, tree, lines)
        elif node.type in _STATEMENTS:
            branch = _toml_table(node, tree, lines)
            for child in node.children:
                if child.type == "pair":
                    _toml_pair(child, branch, lines)
    return Places(tree)


def statement_of_toml(content: bytes, line: int, column: int) -> Place:
    """Where the key/value pair or the header begins that ends at a place: the parser names ends, people see keys."""
    row = content.split(b"\n")[line - 1]
    before = len(row.decode(errors="replace")[: column - 1].encode())
    point = (line - 1, max(before - 1, 0))
    node = _parsed(tree_sitter_toml.language(), content).descendant_for_point_range(point, point)
    while node is not None and node.type not in _STATEMENTS:
        node = node.parent
    key = next((child for child in node.children if child.type in _KEYS), None) if node is not None else None
    return (line, column) if key is None else _Lines(content).place(key)


def _toml_table(node: tree_sitter.Node, branch: Branch, lines: _Lines) -> Branch:
    """A table, or the next element of an array of tables; a key in between means the newest element of its array."""
    header = next((child for child in node.children if child.type in _KEYS), None)
    keys = [] if header is None else list(_toml_keys(header))
    for number, key in enumerate(keys, 1):
        place = lines.place(key)
        _, branch = branch.setdefault(_toml_name(key), (place, {}))
        if number == len(keys) and node.type == "table_array_element":
            branch[len(branch)] = (place, {})
        if len(branch) - 1 in branch:
            _, branch = branch[len(branch) - 1]
    return branch


def _toml_pair(node: tree_sitter.Node, branch: Branch, lines: _Lines) -> None:
    pending = [(node, branch)]
    while pending:
        node, branch = pending.pop()
        parts = _parts(node)
        if node.type == "pair" and len(parts) > 1:
            for key in _toml_keys(parts[0]):
                _, branch = branch.setdefault(_toml_name(key), (lines.place(key), {}))
            pending.append((parts[1], branch))
        elif node.type == "inline_table":
            pending += [(child, branch) for child in reversed(parts)]
        elif node.type == "array":
            for number, element in enumerate(parts):
                branch[number] = (lines.place(element), {})
                pending.append((element, branch[number][1]))


def _toml_keys(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """The simple keys of a key: a dotted one nests to the left."""
    later = [node]
    while later:
        node = later.pop()
        if node.type == "dotted_key":
            later += [child for child in reversed(node.children) if child.type in _KEYS]
        else:
            yield node


def _toml_name(node: tree_sitter.Node) -> str:
    text = (node.text or b"").decode(errors="replace")
    if node.type != "quoted_key":
        return text
    try:
        return next(iter(tomllib.loads(f"{text} = 0")))
    except tomllib.TOMLDecodeError:
        return text


# --- JSON -----------------------------------------------------------------------------------------------------------


def places_of_json(content: bytes) -> tuple[Places, list[Fault]]:
    """Places in a JSON file that can be read, and its keys that stand twice."""
    lines, faults, tree = _Lines(content), list[Fault](), Branch()
    roots = _parts(_parsed(tree_sitter_json.language(), content))
    pending = [(node, tree) for node in roots]
    while pending:
        node, branch = pending.pop()
        if node.type == "object":
            for pair in _parts(node):
                key, value = _parts(pair)
                name, place = msgspec.json.decode(key.text or b"", type=str), lines.place(key)
                if name in branch:
                    faults.append((place, f"The key {name!r} stands twice."))
                branch[name] = (place, {})
                pending.append((value, branch[name][1]))
        elif node.type == "array":
            for number, element in enumerate(_parts(node)):
                branch[number] = (lines.place(element), {})
                pending.append((element, branch[number][1]))
    return Places(tree, lines.place(roots[0]) if roots else (1, 1)), faults


# --- YAML -----------------------------------------------------------------------------------------------------------

_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


class Marks:
    """Places of a YAML text by the index of a character: the parser's own lines end at more than line feeds."""

    def __init__(self, text: str) -> None:
        """Find the line feeds, once."""
        self._ends = [found.end() for found in re.finditer("\n", text)]

    def place(self, mark: Any) -> Place:
        """The place of a mark, or of anything else with an index."""
        row = bisect.bisect_right(self._ends, mark.index)
        return row + 1, mark.index - (self._ends[row - 1] if row else 0) + 1


def places_of_yaml(root: Any, marks: Marks) -> tuple[Places, list[Fault]]:
    """Places in a YAML file, from the node that ``yaml.compose`` has made of it, and its keys that cannot stay.

    An alias stands where its anchor does: each node is walked once, however often it is used, also inside itself.
    """
    branches, faults, merges = {id(root): Branch()}, list[Fault](), list[tuple[int, Branch, Any]]()
    pending = [root]
    while pending:
        node = pending.pop()
        branch, table = branches[id(node)], node.id == "mapping"
        for number, part in enumerate(node.value if node.id in ("mapping", "sequence") else ()):
            key, value = part if table else (part, part)
            if id(value) not in branches:
                branches[id(value)] = {}
                pending.append(value)
            name, place = (key.value if table else number), marks.place(key.start_mark)
            if table and key.tag == _MERGE:
                merges.append((key.start_mark.index, branch, value))
            elif table and (fault := _yaml_fault(key, branch)):
                faults.append((place, fault))
            if isinstance(name, str | int):
                branch[name] = (place, branches[id(value)])
    for _, branch, value in sorted(merges, key=lambda one: one[0]):
        for base in value.value if value.id == "sequence" else [value]:
            for name, found in branches[id(base)].items():
                branch.setdefault(name, found)
    return Places(branches[id(root)], marks.place(root.start_mark)), faults


def _yaml_fault(key: Any, branch: Branch) -> str:
    """Why a key cannot stay: the loader takes the last of two and says nothing, and reads ``on`` as true."""
    if key.tag != _TEXT:
        return f"A key is not text but {key.tag.rpartition(':')[2]}; write it in quotes."
    return f"The key {key.value!r} stands twice." if key.value in branch else ""
