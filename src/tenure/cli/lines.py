"""Reads a file of input, a JSON object a line, and checks all of it before anything is submitted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tenure.cli.problems import Misused
from tenure.cli.talk import one_line
from tenure.cli.teamfile import TASK_OF, Loaded
from tenure.errors import Refused, TenureError
from tenure.protocol.payload import read_payload
from tenure.protocol.settings import Settings
from tenure.runtime.content import from_plain
from tenure.runtime.payloads import encode_payload, first_payload
from tenure.runtime.team import Team

ARGUMENTS = frozenset({"data", "goal", "conversation", "to", "constraints", "message", "task_id", "settings"})
"""What ``Team.submit`` takes."""


class Line(Struct, frozen=True):
    """One line of input, as arguments of ``Team.submit``. ``number`` counts from 1, empty lines too."""

    number: int
    arguments: Mapping[str, Any]


def read_lines(path: Path, loaded: Loaded) -> list[Line]:
    """Read and check the whole file.

    Raises:
        Refused: the first bad line, by its number. Misused: the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        hint = "name a file that can be read"
        raise Misused(f"{path} cannot be read: {error.strerror}.", code="no_input", hint=hint) from None
    lines: list[Line] = []
    numbers: dict[str, int] = {}
    for number, text in enumerate(content.splitlines(), start=1):
        if not text.strip():
            continue
        try:
            arguments = _arguments(text, loaded)
            _check(loaded.team, arguments)
        except TenureError as error:
            raise _at(path, number, error) from None
        task_id = arguments.get("task_id", "")
        if task_id and task_id in numbers:
            detail = f"The task id {task_id!r} stands in line {numbers[task_id]} already."
            raise _at(path, number, Refused("invalid", detail))
        numbers[task_id] = number
        lines.append(Line(number, arguments))
    return lines


def _at(path: Path, number: int, error: TenureError) -> TenureError:
    return type(error)(error.code, f"{path}, line {number}: {error.detail}", **{**error.facts, "line": number})


def _arguments(text: bytes, loaded: Loaded) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused("invalid", f"This is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise Refused("invalid", f"A line is a JSON object, and this is a {type(value).__name__}.")
    if loaded.task_of is None:
        return _by_the_general_rule(value, text)
    try:
        return loaded.task_of(value)
    except TenureError:
        raise
    except Exception as error:  # noqa: BLE001 - the team's own function, told with the line that it met
        raise Refused("invalid", f"{TASK_OF} raised {type(error).__name__}: {one_line(str(error))}.") from None


def _by_the_general_rule(value: dict[str, Any], text: bytes) -> dict[str, Any]:
    """The object is the data; ``goal`` and ``task_id`` are taken from it where they are texts."""
    goal, task_id = value.get("goal"), value.get("task_id")
    arguments = {"data": value, "goal": goal if isinstance(goal, str) and goal else text.decode().strip()}
    if isinstance(task_id, str):
        arguments["task_id"] = task_id
    return arguments


def _check(team: Team, arguments: object) -> None:
    """Refuse what ``Team.submit`` would refuse, or what the agent would turn away, before anything is submitted."""
    if not isinstance(arguments, Mapping):
        raise Refused("invalid", f"{TASK_OF} returned a {type(arguments).__name__}; it returns arguments of submit.")
    unknown = sorted(set(arguments) - ARGUMENTS)
    if unknown:
        raise Refused(
            "invalid", f"{', '.join(unknown)}: no arguments of submit; it takes {', '.join(sorted(ARGUMENTS))}."
        )
    goal = arguments.get("goal")
    if not isinstance(goal, str) or not goal:
        raise Refused("invalid", "The goal is missing.")
    _check_task_id(arguments.get("task_id", ""))
    agent = arguments.get("to") or team.entry
    team.candidate(agent)
    payload = first_payload("t", goal, arguments.get("data"), arguments.get("constraints", ()))
    settings: Settings = arguments.get("settings") or team.settings
    read_payload(encode_payload(payload).content, settings.payload_bytes)
    from_plain(payload.data, team.agents[agent].accepts)


def _check_task_id(task_id: object) -> None:
    if not isinstance(task_id, str):
        raise Refused("invalid", f"The task id is a {type(task_id).__name__}; it is a text.")
    if "." in task_id:
        raise Refused("invalid", f"The task id {task_id!r} has a dot; dots lead from a task to its delegations.")
