"""Exit codes, and errors in words: one line for the cause, one for what to do next."""

from __future__ import annotations

import traceback
from typing import Any

import click

from tenure.cli.talk import OutputClosed, one_line, say, silence_stdout
from tenure.errors import NextAction, TenureError

FOUND = 1
"""The command did its job, and what it found needs attention: a broken ledger, a failed task, an unfinished drain."""
USAGE = 64
"""The command line itself is wrong. click's own 2 is the code of the family ``refused`` here."""
SOFTWARE = 70
INTERRUPTED = 130
CLOSED = 141

_ACTIONS = {
    NextAction.WAIT: "wait, then repeat it",
    NextAction.USE_RESULT: "use what is there: `tenure show` has it",
    NextAction.RECONCILE: "look at the ledger before you repeat it",
    NextAction.ASK: "ask the person who answers for it",
    NextAction.STOP: "stop; a repeat would be refused again",
    NextAction.FIX: "change the request and repeat it",
    NextAction.RETRY: "repeat it",
}

_HINTS = {
    "corrupt_file": "stop its workers, keep a copy of the file, and go on from a backup",
    "disk_full": "make room, then repeat it",
    "foreign_file": "name the ledger's own file with --ledger",
    "invalid_team": "correct the team file",
    "ledger_busy": "repeat it when the other process has finished",
    "ledger_read_only": "make the file and its folder writable, or name another ledger with --ledger",
    "newer_file": "upgrade Tenure, or use the version that wrote the file",
    "unknown_agent": "correct the name in the team file or on the command line",
    "unknown_effect": "`tenure effects` lists the effects of this ledger; another one is named with --ledger",
    "unknown_task": "`tenure tasks` lists the tasks of this ledger; another one is named with --ledger",
    "worker_name_taken": "give this worker another --name, or wait until the other one has ended",
}


class Misused(click.UsageError):
    """The command line cannot be followed. ``hint`` says what to do."""

    def __init__(self, message: str, *, code: str, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


def exit_code_of(error: BaseException) -> int:
    """The exit code that an error gives."""
    match error:
        case TenureError():
            return error.exit_code
        case click.UsageError():
            return USAGE
        case click.Abort():
            return INTERRUPTED
        case OutputClosed():
            return CLOSED
        case click.ClickException():
            return error.exit_code
        case _:
            return SOFTWARE


def report(error: Exception, *, as_json: bool) -> None:
    """Tell an error on stderr. Only an error of Tenure's own making gets a traceback."""
    if isinstance(error, OutputClosed):
        silence_stdout()
        return
    record = _record(error)
    if as_json:
        import msgspec

        say(msgspec.json.encode({"error": record}).decode())
        return
    if record["family"] == "software":
        say("".join(traceback.format_exception(error)).rstrip())
    say(f"error: {record['message']}")
    say(f"next: {record['next']}")


def _record(error: Exception) -> dict[str, Any]:
    if isinstance(error, TenureError):
        record = error.as_dict()
        record["next"] = error.facts.get("next") or _HINTS.get(error.code, _ACTIONS[error.next_action])
    elif isinstance(error, click.Abort):
        record = _own("interrupted", "interrupted", "Stopped before the end.", "repeat it when you are ready")
    elif isinstance(error, click.UsageError):
        code, hint = getattr(error, "code", "usage"), getattr(error, "hint", _help_of(error))
        record = _own("usage", code, error.format_message(), hint)
    elif isinstance(error, click.ClickException):
        record = _own("usage", "usage", error.format_message(), "correct the command")
    else:
        cause = f"{type(error).__name__}: {error}"
        record = _own("software", "software", cause, "report this with the lines above: it is an error in Tenure")
    record["message"] = one_line(str(record["message"]))
    record["exit_code"] = exit_code_of(error)
    return record


def _own(family: str, code: str, message: str, hint: str) -> dict[str, Any]:
    return {"family": family, "code": code, "message": message, "next_action": str(NextAction.FIX), "next": hint}


def _help_of(error: click.UsageError) -> str:
    return f"see `{error.ctx.command_path if error.ctx else 'tenure'} --help`"
