"""The examples of README.md, of docs/ and of docstrings are tests.

Markdown: blocks marked ``python`` run top to bottom, one namespace and one temporary folder per page; ``await`` may
stand at the top level. A piece that cannot run by itself is marked ``py``: coloured the same. Docstrings: ``>>>``.
"""

import ast
import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from sybil import Document, Example, Sybil
from sybil.evaluators.python import pad
from sybil.integration.pytest import SybilFile, SybilItem
from sybil.parsers.markdown import CodeBlockParser
from sybil.parsers.rest import DocTestParser

# The conformance suites are shipped in the package; their asserts shall explain themselves all the same.
pytest.register_assert_rewrite("tenure.testing")

# The default run gives the same examples every time and no verdict by the speed of the machine; .ci/full looks further.
settings.register_profile("default", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("full", deadline=None, max_examples=2000)
settings.load_profile("default")

ROOT = Path(__file__).parent


class AsyncCodeBlockParser(CodeBlockParser):
    """Runs ``python`` blocks; a block with a top-level ``await`` runs in the page's own event loop."""

    language = "python"

    def evaluate(self, example: Example) -> None:
        """Execute one block in its page's namespace."""
        source = pad(example.parsed, example.line + example.parsed.line_offset)
        code = compile(source, example.path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        result = eval(code, example.namespace)  # noqa: S307 - the page is ours; eval is what returns the coroutine
        if result is not None:
            runner: asyncio.Runner = example.namespace["__runner__"]
            runner.run(result)


def open_page(namespace: dict[str, Any]) -> None:
    """Give a page its own folder and event loop."""
    folder = tempfile.TemporaryDirectory(prefix="tenure-page-")
    namespace.update(__folder__=folder, __back__=Path.cwd(), __runner__=asyncio.Runner(), __name__="page")
    os.chdir(folder.name)


def close_page(namespace: dict[str, Any]) -> None:
    """Take both away again."""
    namespace["__runner__"].close()
    os.chdir(namespace["__back__"])
    namespace["__folder__"].cleanup()


PAGES = Sybil(
    parsers=[AsyncCodeBlockParser()],
    setup=open_page,
    teardown=close_page,
    document_types={".md": Document},
)
DOCSTRINGS = Sybil(parsers=[DocTestParser()])


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SybilFile | None:
    """Collect pages outside of the package, docstrings only from it."""
    if file_path.suffix == ".md" and not file_path.is_relative_to(ROOT / "src"):  # templates are for other folders
        return SybilFile.from_parent(parent, path=file_path, sybils=[PAGES])
    if file_path.suffix == ".py" and file_path.is_relative_to(ROOT / "src"):
        return SybilFile.from_parent(parent, path=file_path, sybils=[DOCSTRINGS])
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the examples of a page back in the order in which they are read; everything else stays shuffled."""
    places = [place for place, item in enumerate(items) if isinstance(item, SybilItem)]
    examples = [item for item in items if isinstance(item, SybilItem)]
    examples.sort(key=lambda item: (str(item.path), item.example.line, item.example.column))
    for place, item in zip(places, examples, strict=True):
        items[place] = item
