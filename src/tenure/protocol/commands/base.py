"""What every command shares."""

from __future__ import annotations

import re

from msgspec import Struct


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class CommandBase(Struct, frozen=True, kw_only=True, tag_field="command", tag=_snake):
    """Base of all commands.

    Attributes:
        command_id: made by the client, unique in the tree. root_id, task_id: the task that is touched.
    """

    command_id: str
    root_id: str
    task_id: str


class OwnerCommand(CommandBase, frozen=True, kw_only=True):
    """Base of what only a tenure may say."""

    epoch: int
    instance: str
