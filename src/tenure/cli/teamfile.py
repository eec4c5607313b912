"""Finds and imports a team: ``module:attribute``, ``path/to/team.py`` or ``path/to/team.py:attribute``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tenure.cli.problems import Misused
from tenure.errors import Refused, TenureError
from tenure.runtime.team import Team

DEFAULT_ATTRIBUTE = "team"
TASK_OF = "task_of"

TaskOf = Callable[[dict[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Loaded:
    """A team, and how its file reads a line of input (``None``: by the general rule)."""

    team: Team
    task_of: TaskOf | None


def load(spec: str) -> Loaded:
    """Import a team and check it.

    Raises:
        Misused: there is no such file. Refused: ``invalid_team`` with file and line, and what the team's check says.
    """
    module, team, where = _found(spec)
    team.check()
    return Loaded(team=team, task_of=_task_of(module, where))


def load_unchecked(spec: str) -> Team:
    """Import a team as it is, to judge it.

    Raises:
        Misused, Refused: as :func:`load`, but for what the team's check says.
    """
    return _found(spec)[1]


def _found(spec: str) -> tuple[ModuleType, Team, str]:
    where, attribute = _split(spec)
    _add_to_path(Path.cwd())
    module = _import_file(Path(where)) if where.endswith(".py") else _import_module(where)
    return module, _team_in(module, attribute, where), where


def _split(spec: str) -> tuple[str, str]:
    where, colon, attribute = spec.rpartition(":")
    if not colon:
        where, attribute = spec, DEFAULT_ATTRIBUTE
    if not where or not attribute.isidentifier():
        hint = "write module:attribute, path/to/team.py or path/to/team.py:attribute"
        raise Misused(f"{spec!r} names no team.", code="no_team", hint=hint)
    return where, attribute


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _unimportable(error, name) from None
        detail = f"There is no module {error.name!r} in the current folder or among the installed ones."
        raise Refused("invalid_team", detail) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a team file raises is told with its line
        raise _unimportable(error, name) from None


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise Misused(f"There is no team file {path}.", code="no_team", hint="name a file that exists")
    path = path.resolve()
    name, root = _module_name(path)
    _add_to_path(root)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    if known is not None:
        name = f"tenure_team_{name.replace('.', '_')}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refused("invalid_team", f"{path} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        if "." in name:
            importlib.import_module(name.rpartition(".")[0])
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a team file raises is told with its line
        sys.modules.pop(name, None)
        raise _unimportable(error, str(path)) from None
    return module


def _module_name(path: Path) -> tuple[str, Path]:
    """A file in a package is imported as that package's, so that its own imports mean the same as elsewhere."""
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts), folder


def _unimportable(error: BaseException, where: str) -> TenureError:
    """The cause, and the line of the team file at which it came up."""
    if isinstance(error, SyntaxError) and error.filename:
        return Refused("invalid_team", f"{_short(error.filename)}:{error.lineno}: {type(error).__name__}: {error.msg}.")
    place = _place_of(error, where)
    if isinstance(error, TenureError):
        return type(error)(error.code, f"{error.detail} ({place})".strip(), **error.facts)
    return Refused("invalid_team", f"{place}: {type(error).__name__}: {error}")


def _place_of(error: BaseException, where: str) -> str:
    """The innermost line of the team's file, else the innermost line that is not the import machinery's."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    inside = [frame for frame in frames if frame.filename == where] or frames
    return f"{_short(inside[-1].filename)}:{inside[-1].lineno}" if inside else where


def _is_machinery(filename: str) -> bool:
    return filename.startswith("<frozen") or filename in {__file__, importlib.__file__}


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def _team_in(module: ModuleType, attribute: str, where: str) -> Team:
    found = getattr(module, attribute, None)
    if isinstance(found, Team):
        return found
    others = sorted(name for name, value in vars(module).items() if isinstance(value, Team))
    has = f"it has {', '.join(others)}" if others else "it has no Team at all"
    if found is None:
        raise Refused("invalid_team", f"{where} has no attribute {attribute!r}; {has}.")
    raise Refused("invalid_team", f"{attribute!r} in {where} is no Team: its type is {type(found).__name__}; {has}.")


def _task_of(module: ModuleType, where: str) -> TaskOf | None:
    found = getattr(module, TASK_OF, None)
    if found is not None and not callable(found):
        raise Refused("invalid_team", f"{TASK_OF!r} in {where} is no function.")
    return found
