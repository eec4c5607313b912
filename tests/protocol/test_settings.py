"""Settings: plain values that may not contradict each other; a task that is submitted with bad ones does not exist."""

import pytest

from tenure.errors import Refused
from tenure.protocol.settings import CRITICAL, EXTERNAL, HELPER, LOCAL, POLICIES, Settings
from tenure.protocol.vocabulary import Gate
from tests.protocol.world import World

NUMBERS = [name for name in Settings.__struct_fields__ if isinstance(getattr(Settings(), name), int)]


def test_the_defaults_agree_with_each_other_and_with_every_policy() -> None:
    settings = Settings()
    settings.check()
    for policy in POLICIES.values():
        settings.check_policy(policy)
        assert policy.grace_ms <= settings.retire_ms


BUDGETS = {"transfers", "delegations", "turn_delegations", "nudges", "repeats"}


@pytest.mark.parametrize("name", NUMBERS)
def test_every_duration_and_limit_is_at_least_one_but_budgets_may_be_none_at_all(name: str) -> None:
    if name in BUDGETS:
        World(**{name: 0}).submit("a")
    world = World(**{name: -1 if name in BUDGETS else 0})
    with world.refuses("invalid") as caught:
        world.submit("a")
    assert name in str(caught[0])


def test_somebody_always_answers_for_what_is_left_open() -> None:
    world = World(fallback="")
    with world.refuses("invalid"):
        world.submit("a")


def test_ta_01_a_deadline_shorter_than_the_grace_of_the_same_policy_is_a_contradiction() -> None:
    world = World(ack_ms=30_000, transition_ms=5_000)
    with world.refuses("deadline_below_grace"):
        world.submit("a")
    with pytest.raises(Refused) as caught:
        Settings(retire_ms=5_000).check_policy(CRITICAL)
    assert caught.value.code == "deadline_below_grace"


def test_the_four_policies_are_those_of_the_design() -> None:
    shapes = [(p.name, p.grace_ms, p.booked, p.gate) for p in (HELPER, LOCAL, EXTERNAL, CRITICAL)]
    assert shapes == [
        ("helper", 1_000, False, Gate.ROUTING_RETIRED),
        ("local", 1_000, True, Gate.ROUTING_RETIRED),
        ("external", 5_000, True, Gate.ROUTING_RETIRED),
        ("critical", 30_000, True, Gate.SETTLED),
    ]


def test_gates_are_ordered_from_weak_to_strong() -> None:
    assert sorted(Gate, key=lambda gate: gate.rank) == [Gate.ROUTING_RETIRED, Gate.STOPPED, Gate.SETTLED]
