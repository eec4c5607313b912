"""``tenure init``: what it writes runs, and it overwrites nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Tenure


def test_what_it_writes_runs_and_verifies(folder: Path, tenure: Tenure, monkeypatch: pytest.MonkeyPatch) -> None:
    written = tenure("init", "shop")
    assert written.code == 0
    assert "next: cd shop && tenure run team.py --input tasks.jsonl && tenure verify" in written.out
    monkeypatch.chdir(folder / "shop")
    for _ in range(2):
        ran = tenure("run", "team.py", "--input", "tasks.jsonl", "--json")
        assert ran.code == 0
        assert {name: ran.json[name] for name in ("tasks", "completed", "escalated", "handoffs", "residual")} == {
            "tasks": 4,
            "completed": 3,
            "escalated": 1,
            "handoffs": 3,
            "residual": 0,
        }
        assert ran.json["effects"] == {"confirmed": 2}
        assert len(list(Path("refunds").iterdir())) == 2
    assert tenure("verify").code == 0


def test_the_answer_that_its_readme_gives_settles_the_question(
    folder: Path, tenure: Tenure, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tenure("init").code == 0
    assert tenure("run", "team.py", "--input", "tasks.jsonl", "--json").json["escalated"] == 1
    (snippet,) = re.findall(r"```python\n(.*?)```", Path("README.md").read_text(), re.DOTALL)
    subprocess.run([sys.executable, "-c", snippet], check=True, timeout=30)
    again = tenure("run", "team.py", "--input", "tasks.jsonl", "--json").json
    assert (again["completed"], again["escalated"], again["effects"]) == (4, 0, {"confirmed": 3})


def test_the_current_folder_is_the_default(folder: Path, tenure: Tenure) -> None:
    assert tenure("init").code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "tasks.jsonl", "team.py"]


@pytest.mark.parametrize("there", ["team.py", "tasks.jsonl", "README.md"])
def test_nothing_is_overwritten(there: str, folder: Path, tenure: Tenure) -> None:
    (folder / there).write_text("mine")
    ran = tenure("init")
    assert ran.code == 64
    assert f"has {there} already; nothing was written." in ran.err
    assert [path.name for path in folder.iterdir()] == [there]
    assert (folder / there).read_text() == "mine"
