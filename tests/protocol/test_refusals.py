"""Every refusal that the protocol can give is provoked by a test, and says what to do next."""

import ast
import re
from pathlib import Path

import pytest

import tenure.protocol
from tenure.errors import CODES, Fenced, NextAction, OutcomeUnknown, Refused, TenureError, Unavailable

HERE = Path(__file__).parent
SOURCES = sorted(Path(tenure.protocol.__file__).parent.rglob("*.py"))


def codes_raised() -> set[str]:
    """The first argument of each ``Refused(...)`` and ``Fenced(...)`` in the protocol, literally or either of two."""
    found: set[str] = set()
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Refused", "Fenced") and node.args:
                code = node.args[0]
                parts = [code.body, code.orelse] if isinstance(code, ast.IfExp) else [code]
                found |= {str(part.value) for part in parts if isinstance(part, ast.Constant)}
    return found


RAISED = sorted(codes_raised())


def test_the_protocol_raises_at_least_what_its_rules_promise() -> None:
    assert {"stale_epoch", "wrong_digest", "effect_open", "already_answered", "unknown_question"} <= set(RAISED)


@pytest.mark.parametrize("code", RAISED)
def test_a_test_provokes_it(code: str) -> None:
    tests = "".join(page.read_text() for page in sorted(HERE.glob("test_*.py")) if page != Path(__file__))
    if code == "stale_epoch":
        assert ".fences()" in tests
    else:
        assert re.search(rf'refuses\("{code}"\)|code.*== \(?"{code}"', tests)


@pytest.mark.parametrize("code", CODES)
def test_a_code_has_a_sentence_and_a_next_action(code: str) -> None:
    message, action = CODES[code]
    assert re.fullmatch(r"[A-Z][^\n]*\.", message)
    assert action in NextAction
    error = Refused(code, "In detail.", limit=3, effect=object())
    assert error.as_dict() == {
        "family": "refused",
        "code": code,
        "message": f"{message} In detail.",
        "next_action": str(action),
        "limit": 3,
    }


def test_an_unknown_code_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        Refused("no_such_code")


def test_the_four_families_are_told_apart_by_who_must_act() -> None:
    families: list[type[TenureError]] = [Refused, Fenced, Unavailable, OutcomeUnknown]
    assert [(kind.family, kind.exit_code) for kind in families] == [
        ("refused", 2),
        ("fenced", 3),
        ("unavailable", 4),
        ("outcome_unknown", 5),
    ]
