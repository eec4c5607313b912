"""The reference pages show each state, transition, event, command, reason and error: they are made from them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs._ext import machines as drawn
from docs._ext import records
from tenure.errors import CODES
from tenure.protocol import commands, decisions, evidence
from tenure.protocol.events import EVENT_TYPES
from tenure.protocol.vocabulary import EvidenceKind, Reason

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["state-machines", "events", "commands", "decisions", "reasons", "errors"]


@pytest.mark.parametrize("name", drawn.BEGINNINGS)
def test_every_state_and_transition_of_a_table_is_in_its_diagram_and_in_its_table(name: str) -> None:
    diagram, table = drawn.diagram(name).splitlines(), drawn.table(name)
    for state, row in drawn._table(name).items():
        assert any(f" {state} -->" in line for line in diagram)
        if not row:
            assert f"    {state} --> [*]" in diagram
            assert re.search(rf"^\| `{state}` \|.* final \|$", table, re.MULTILINE)
        for step in row:
            target, label = (row[step], f": {step}") if hasattr(row, "items") else (step, "")
            assert f"    {state} --> {target}{label}" in diagram
            by = f".*`{re.escape(step)}`.*" if label else ""
            assert re.search(rf"^\| `{state}` \|{by} `{target}` \|$", table, re.MULTILINE)
    assert len(diagram) == 2 + len(drawn.moves(name)) + len(drawn.finals(name)), "and nothing else is"


@pytest.mark.parametrize("name", drawn.EVIDENCE)
def test_every_kind_of_evidence_is_listed_with_what_it_can_show(name: str) -> None:
    table = drawn.page(name)
    for kind, targets in getattr(evidence, name).items():
        line = next(line for line in table.splitlines() if line.startswith(f"| `{kind}` |"))
        assert set(re.findall(r"`(\w+)`", line)) == {str(kind), *map(str, targets)}


@pytest.mark.parametrize("name", drawn.EVIDENCE)
def test_every_table_of_evidence_is_on_its_page(name: str) -> None:
    assert f"```{{machine}} {name}\n```" in (DOCS / "reference" / "evidence.md").read_text()


def test_every_kind_of_evidence_is_explained_on_its_page() -> None:
    page = (DOCS / "reference" / "evidence.md").read_text().partition("## What each kind")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == sorted(EvidenceKind)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference pages as text, built by Sphinx with warnings as errors."""
    source, output = tmp_path_factory.mktemp("pages"), tmp_path_factory.mktemp("text")
    (source / "index.md").write_text("# Pages\n\n```{toctree}\n" + "\n".join(PAGES) + "\n```\n")
    for name in PAGES:
        (source / f"{name}.md").write_text((DOCS / "reference" / f"{name}.md").read_text())
    extensions = "extensions=myst_parser,docs._ext.machines,docs._ext.records"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-C", "-D", extensions, "-b", "text"]
    subprocess.run([*command, str(source), str(output)], check=True, cwd=DOCS.parent)
    return output


def text_of(built: Path, name: str) -> str:
    return (built / f"{name}.txt").read_text()


def test_the_page_of_the_machines_shows_each_of_them(built: Path) -> None:
    page = text_of(built, "state-machines")
    for name in drawn.BEGINNINGS:
        for line in drawn.diagram(name).splitlines():
            assert line.strip() in page


TAGS = {
    "events": [str(kind.__struct_config__.tag) for kind in EVENT_TYPES],
    "commands": [str(kind.__struct_config__.tag) for kind in commands.Command.__args__],
    "decisions": [str(kind.__struct_config__.tag) for kind in decisions.Decision.__args__],
    "reasons": [str(reason) or "(empty)" for reason in Reason],
    "errors": list(CODES),
}


@pytest.mark.parametrize("name", TAGS)
def test_a_page_lists_everything_that_there_is(built: Path, name: str) -> None:
    page = text_of(built, name)
    assert [tag for tag in TAGS[name] if f'"{tag}"' not in page] == []


def test_a_record_is_shown_with_its_meaning_and_its_fields() -> None:
    shown = records.entry(commands.Decline)
    assert "## `decline`" in shown
    assert "Turn a claimed or open offer down." in shown
    assert "| `detail` | `Body \\| None` | `None` |" in shown
    assert "| `reason` | `Reason` | `'declined'` |" in shown


def test_every_reason_has_a_meaning() -> None:
    assert set(records.MEANINGS) == set(Reason)
