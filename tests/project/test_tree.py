"""Rules about the files themselves."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = [".ci", "bench", "changes.d", "docs", "examples", "src", "tests"]
LEFT_BEHIND = {"__pycache__", "_build"}
MODULE_LINES = 450
README = (ROOT / "README.md").read_text()
PREFIX = "python3 -m venv .uv && .uv/bin/pip install -q uv && .uv/bin/uv run --frozen "

# Written so that no pattern matches itself.
FOREIGN = {
    "a path of one machine": r"(?<![\w.~-])/(?:hom[e]|Use[r]s|roo[t]|wor[k]|far[m])/[\w.]",
    "a registry's host": r"p[y]pi\.org|p[y]thonhosted|registry\.n[p]mjs",
    "how it is made instead of what it is": (
        r"(?i)\b(?:c[e]o|steering.rep[o]|developers?.?.?sessio[n]|before-sto[p]|shared/hook[s]|sub[a]gents?)\b"
    ),
    "a debt": r"\b(?:TOD[O]|FIXM[E]|XX[X])\b",
}


def texts() -> list[Path]:
    """Every text file of the project, the lock apart (it names hosts by its nature)."""
    files = [file for file in ROOT.iterdir() if file.is_file() and file.suffix in {"", ".md", ".py", ".toml", ".yaml"}]
    for folder in FOLDERS:
        files += [file for file in (ROOT / folder).rglob("*") if file.is_file() and file.suffix not in {".png", ".ico"}]
    ours = (file for file in files if not LEFT_BEHIND & set(file.parts))
    return sorted(file for file in ours if not file.name.startswith(".coverage") and ".db" not in file.suffix)


def modules() -> list[Path]:
    return sorted((ROOT / "src").rglob("*.py"))


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", modules(), ids=name_of)
def test_module_is_short_enough_to_read(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= MODULE_LINES


@pytest.mark.parametrize("file", texts(), ids=name_of)
def test_text_speaks_of_the_project_alone(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    found = {what: match[0] for what, pattern in FOREIGN.items() if (match := re.search(pattern, text))}
    assert found == {}


@pytest.mark.parametrize("name", ["run", "test"])
def test_readme_command_is_one_line_that_works_on_a_bare_python(name: str) -> None:
    block = re.search(rf"<!-- {name}:begin -->\n```sh\n(.*?)```\n<!-- {name}:end -->", README, re.DOTALL)
    assert block is not None
    (command,) = block[1].splitlines()
    assert command.startswith(PREFIX)


@pytest.mark.parametrize("fragment", sorted((ROOT / "changes.d").glob("*.md")), ids=name_of)
def test_changelog_fragment_is_of_a_known_kind(fragment: Path) -> None:
    assert fragment.name == "README.md" or re.fullmatch(
        r"(\d+|\+[\w-]+)\.(added|changed|fixed|removed)(\.\d+)?\.md", fragment.name
    )
