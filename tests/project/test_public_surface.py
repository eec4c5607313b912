"""``tenure.__all__`` is the public face: complete, documented, and cheap to import."""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tenure

ROOT = Path(__file__).parents[2]
NAMES = sorted(set(tenure.__all__) - {"__version__"})

# Each of these is needed by one command, one backend or one adapter, and must not cost the others anything.
NOT_FOR_EVERYBODY = {
    "asyncpg",
    "click",
    "httpx2",
    "hypothesis",
    "networkx",
    "opentelemetry",
    "pydantic",
    "pytest",
    "rich",
    "sqlite3",
    "starlette",
    "uvicorn",
}


def test_all_is_sorted_and_has_no_name_twice() -> None:
    assert list(tenure.__all__) == sorted(set(tenure.__all__))


def test_all_names_exist() -> None:
    assert [name for name in tenure.__all__ if not hasattr(tenure, name)] == []


def test_nothing_else_is_public() -> None:
    public = {
        name for name, value in vars(tenure).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public <= set(tenure.__all__)


def test_version_is_that_of_the_project() -> None:
    assert f'\nversion = "{tenure.__version__}"\n' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_public_name_has_a_docstring_of_its_own(name: str) -> None:
    value = getattr(tenure, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        assert (value.__doc__ or "").strip()


@pytest.mark.parametrize("name", NAMES)
def test_public_name_stands_in_the_reference(name: str) -> None:
    pages = "".join(page.read_text() for page in sorted((ROOT / "docs" / "reference").rglob("*.md")))
    assert f"tenure.{name}" in pages or f"`{name}`" in pages


def test_import_brings_nothing_that_not_everybody_needs() -> None:
    code = (
        "import json, sys; before = set(sys.modules); import tenure; "
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert NOT_FOR_EVERYBODY & set(json.loads(found)) == set()
