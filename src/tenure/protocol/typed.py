"""Commands as their types say. Python does not look at the fields of a Struct that is made in this process.

What enters the ledger in another type could never be read again: not the task, and no list that it stands in.
"""

from __future__ import annotations

from functools import cache

import msgspec

from tenure.errors import Refused
from tenure.protocol.commands import Command, encode_command


@cache
def _decoder() -> msgspec.json.Decoder[Command]:
    """Made at first use: an import should not pay for it."""
    return msgspec.json.Decoder(Command)


def typed(command: Command) -> Command:
    """The same command with every field of its declared type: a list as a tuple, a word of a vocabulary as its member.

    Raises:
        Refused: ``invalid``, with the place and the reason, for a value that the type does not allow or that has no
            JSON form.
    """
    try:
        return _decoder().decode(encode_command(command))
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        tag = command.__struct_config__.tag
        raise Refused("invalid", f"{tag} is not well typed: {error}") from None
