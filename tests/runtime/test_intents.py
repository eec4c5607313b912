"""The digest of an intent: different parts never make the same one, whatever text they hold."""

from itertools import combinations

import pytest

from tenure import Provider
from tenure.errors import Refused
from tenure.protocol.settings import EXTERNAL
from tenure.runtime.intents import intent_of


class Desk(Provider):
    name = "desk"


def digest(tool: str, key: str, another: str) -> str:
    return intent_of(
        Desk(),
        {},
        key=key,
        tool=tool,
        policy=EXTERNAL,
        compare=None,
        another=another,
        salt="salt",
        timeout=1,
        patience=1,
    ).digest


def test_an_empty_key_is_no_business_intent() -> None:
    with pytest.raises(Refused, match="names its key"):
        digest("t", "", "")


def test_a_separator_in_a_part_does_not_move_the_border_between_parts() -> None:
    parts = [
        ("t", "a\x1f", "b"),
        ("t", "a", "\x1fb"),
        ("t\x1fa", "b", ""),
        ("t", "a\x1fb", ""),
        ("t", 'a","b', ""),
        ("t", "a", 'b",'),
    ]
    for one, other in combinations(parts, 2):
        assert digest(*one) != digest(*other)
    assert digest("t", "a", "") == digest("t", "a", "")
