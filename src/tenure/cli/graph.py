"""``tenure graph``: draws a routing graph, shows what its edges say, and makes one of a framework's agents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.options import json_option
from tenure.cli.problems import Misused
from tenure.cli.talk import emit, emit_json, plural, say
from tenure.protocol.graph import Graph

if TYPE_CHECKING:
    from tenure.graph.elements import Element, Elements

SVG, MERMAID, EDGES, TOML, SCHEMA = "svg", "mermaid", "edges", "toml", "schema"

_BY_SUFFIX = {".svg": SVG, ".mmd": MERMAID, ".toml": TOML}
_COLUMNS = ("from", "to", "kind", "trigger", "payload", "gate", "pick-up", "ack", "termination")


@click.command()
@click.argument("file", metavar="FILE", required=False, default="")
@click.option("--svg", "form", flag_value=SVG, help="Print SVG; needs the extra tenure[draw].")
@click.option("--mermaid", "form", flag_value=MERMAID, help="Print mermaid text; needs nothing.")
@click.option("--edges", "form", flag_value=EDGES, help="Print every edge with its four elements.")
@click.option("--toml", "form", flag_value=TOML, help="Print a graph file.")
@click.option("--schema", "form", flag_value=SCHEMA, help="Print the JSON Schema of graph files, for editors.")
@click.option("--from", "agent", metavar="MODULE:AGENT", default="", help="Read a framework's agents instead of FILE.")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write into this file instead of stdout."
)
@json_option('Print one object: "edges", with the elements that are defaults in "defaults".')
def graph(file: str, form: str | None, agent: str, output: Path | None, *, json: bool) -> int:
    """Draw a routing graph.

    FILE is a graph file (.toml, .yaml, .json) or a team in Python, as `tenure run` takes it. A graph with errors is
    drawn too, as far as it can be read.

    Without a form, the name of --output says it (.svg, .mmd, .toml). Without both, a terminal gets the edges and
    everything else SVG; with --from it is a graph file. In the table, (parentheses) mark a default.

    --from looks into agents of the OpenAI Agents SDK, Google ADK, LangGraph or Pydantic AI, without running them:
    module:agent, or path/to/file.py:agent. A transfer of theirs has no `because` yet; `tenure check` asks for it.
    """
    form = _form(form, output, from_agents=bool(agent), json=json)
    if form == SCHEMA:
        _put(_schema(), output)
        return 0
    if bool(file) == bool(agent):
        raise Misused("Name a FILE, or agents with --from.", code="usage", hint="see tenure graph --help")
    found, notes = _inferred(agent) if agent else (_read(file), ())
    if form == EDGES:
        _edges(found, output, json=json)
    else:
        _put({SVG: _svg, MERMAID: _mermaid, TOML: _toml}[form](found, notes), output, keep=form == TOML)
    for note in notes:
        say(f"note: {note}")
    _tell_errors(found)
    return 0


def _form(form: str | None, output: Path | None, *, from_agents: bool, json: bool) -> str:
    if json and form not in (None, EDGES):
        raise Misused(f"--json and --{form} exclude each other.", code="usage", hint="--json goes with --edges")
    if form is not None or json:
        return form or EDGES
    if output is not None and output.suffix.lower() in _BY_SUFFIX:
        return _BY_SUFFIX[output.suffix.lower()]
    if from_agents:
        return TOML
    if output is not None:
        hint = "add --svg, --mermaid, --edges or --toml, or a name that ends in .svg, .mmd or .toml"
        raise Misused(f"{output} does not say what to write.", code="usage", hint=hint)
    return EDGES if sys.stdout.isatty() else SVG


# --- where graphs come from -----------------------------------------------------------------------------------------


def _read(source: str) -> Graph:
    """The graph of a file, or of a team in Python."""
    from tenure.graph.reading import SUFFIXES, read
    from tenure.runtime.team import Team

    path = Path(source)
    if path.suffix.lower() not in SUFFIXES:
        team = _imported(source, "team")
        if isinstance(team, Team):
            return team.graph
        hint = "--from reads the agents of a framework"
        raise Misused(f"{source} is no Team: its type is {type(team).__name__}.", code="no_team", hint=hint)
    if not path.is_file():
        raise Misused(f"There is no graph file {path}.", code="no_graph", hint="name a file that exists")
    found = read(path)
    if found.graph is None:
        for problem in found.problems:
            say(f"{problem.file}:{problem.line}:{problem.column}: {problem.message}")
        raise Misused(f"{path} cannot be read as a graph.", code="no_graph", hint=f"tenure check {path}")
    return found.graph


def _inferred(spec: str) -> tuple[Graph, tuple[str, ...]]:
    from tenure.adapters.inferring import look_into
    from tenure.runtime.team import Team

    agent = _imported(spec, "")
    if isinstance(agent, Team):
        return agent.graph, ()
    found = look_into(agent, spec.rpartition(":")[2])
    return found.graph, found.notes


def _imported(spec: str, default: str) -> Any:
    """A value of a module or of a Python file."""
    from tenure.cli.teamfile import _add_to_path, _import_file, _import_module

    where, colon, attribute = spec.rpartition(":")
    if not colon:
        where, attribute = spec, default
    if not where or not attribute.isidentifier():
        hint = "write module:name or path/to/file.py:name"
        raise Misused(f"{spec!r} names nothing to import.", code="no_team", hint=hint)
    _add_to_path(Path.cwd())
    module = _import_file(Path(where)) if where.endswith(".py") else _import_module(where)
    try:
        return getattr(module, attribute)
    except AttributeError:
        hint = "name a variable at the top level of the file"
        raise Misused(f"{where} has no attribute {attribute!r}.", code="no_team", hint=hint) from None


# --- forms ----------------------------------------------------------------------------------------------------------


def _svg(graph: Graph, notes: tuple[str, ...]) -> bytes:
    del notes
    from tenure.graph.drawing import MOST_LABELS, svg, with_labels

    drawn = svg(graph)
    if not with_labels(graph):
        say(f"{len(graph.edges)} edges: beyond {MOST_LABELS}, their words stand in the titles only")
    return drawn


def _mermaid(graph: Graph, notes: tuple[str, ...]) -> bytes:
    del notes
    from tenure.graph.mermaid import beyond_limits, mermaid

    text = mermaid(graph)
    if beyond := beyond_limits(text, graph):
        say(f"mermaid draws this only where its limits are raised: {beyond}")
    return text.encode()


def _toml(graph: Graph, notes: tuple[str, ...]) -> bytes:
    from tenure.graph.writing import write_toml

    comments = "".join(f"# {line}\n" for note in notes for line in _wrapped(note))
    return f"{comments}{write_toml(graph)}".encode()


def _wrapped(note: str) -> list[str]:
    import textwrap

    return textwrap.wrap(note, 98, break_long_words=False, break_on_hyphens=False)


def _schema() -> bytes:
    import msgspec

    from tenure.graph.schema import schema

    return msgspec.json.format(msgspec.json.encode(schema()), indent=2) + b"\n"


def _put(content: bytes, output: Path | None, *, keep: bool = False) -> None:
    """Write to a file or to stdout. What a person goes on editing is never overwritten."""
    if output is None:
        emit(content.decode().removesuffix("\n"))
        return
    try:
        with output.open("xb" if keep else "wb") as opened:
            opened.write(content)
    except FileExistsError:
        hint = "name another file, or move it away"
        raise Misused(f"{output} is there already; nothing was written.", code="file_exists", hint=hint) from None
    except OSError as error:
        hint = "name a file that you may write"
        raise Misused(f"{output} cannot be written: {error.strerror}.", code="not_writable", hint=hint) from None
    say(f"wrote {output}")


def _tell_errors(graph: Graph) -> None:
    from tenure.graph.checking import errors

    count = len(errors(graph))
    if count:
        say(f"this graph has {plural(count, 'error')}, and no team can run with it; `tenure check` names them")


# --- the table of edges ---------------------------------------------------------------------------------------------


def _edges(graph: Graph, output: Path | None, *, json: bool) -> None:
    from tenure.graph.elements import elements

    found = elements(graph)
    if json and output is None:
        emit_json({"team": graph.team, "digest": graph.digest, "edges": found})
    elif json:
        import msgspec

        _put(msgspec.json.encode({"team": graph.team, "digest": graph.digest, "edges": found}) + b"\n", output)
    elif output is None and sys.stdout.isatty():
        _table(found)
    else:
        lines = ["\t".join(row) for row in (_COLUMNS, *map(_cells, found))]
        _put("".join(f"{line}\n" for line in lines).encode(), output)


def _cells(edge: Elements) -> tuple[str, ...]:
    def cell(name: Element, text: str) -> str:
        return f"({text})" if name in edge.defaults else text

    from tenure.graph.cast import printable

    return (
        printable(edge.source),
        printable(edge.target),
        str(edge.kind),
        cell("trigger", printable(edge.trigger) or "any"),
        cell("payload", printable(edge.payload) or "any"),
        cell("gate", str(edge.gate or "none")),
        cell("pickup_ms", _duration(edge.pickup_ms)),
        cell("ack_ms", _duration(edge.ack_ms)),
        cell("termination", ", ".join(edge.termination) or "none"),
    )


def _duration(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s"


def _table(found: list[Elements]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    for name in _COLUMNS:
        table.add_column(name, overflow="fold", no_wrap=name == "kind")
    for edge in found:
        table.add_row(*map(Text, _cells(edge)))  # as text: names are no markup
    Console().print(table)
