"""Mistakes that are put into the core on purpose are caught: each by the invariant that it breaks."""

import pytest
from msgspec.structs import replace

from tenure.testing.explore.mutants import MUTANTS, Mutant, in_force
from tenure.testing.explore.parallel import run_mutant
from tenure.testing.explore.scopes import scopes
from tenure.testing.explore.shadow import INVARIANTS

SCOPES = {scope.name: scope for scope in scopes()}


# Those that take more than a second are left to `python -m tenure.testing.explore` (.ci/run) and to .ci/full.
DEEP = {
    "a call may begin in the provider's window and land after it",
    "absence is proven before the in-flight limit has passed",
    "an effect in doubt is simply sent again",
}
CASES = [
    pytest.param(mutant, marks=[pytest.mark.full] if mutant.name in DEEP else [], id=mutant.name.replace(" ", "-"))
    for mutant in MUTANTS
]


@pytest.mark.parametrize("mutant", CASES)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    caught = run_mutant(mutant, SCOPES[mutant.scope])
    assert caught.by == mutant.invariant, caught
    assert caught.states <= mutant.within


def test_every_invariant_of_the_design_has_a_mutant() -> None:
    assert len(INVARIANTS) == 13
    assert {mutant.invariant for mutant in MUTANTS} >= set(INVARIANTS)
    assert len({mutant.name for mutant in MUTANTS} | DEEP) == len(MUTANTS)
    assert {mutant.invariant for mutant in MUTANTS if mutant.name not in DEEP} >= set(INVARIANTS)


def test_a_mutant_whose_place_has_changed_says_so() -> None:
    lost = replace(MUTANTS[0], old="what nobody ever wrote")
    with pytest.raises(ValueError, match="stands 0 times"), in_force(lost):
        raise AssertionError
    result = run_mutant(lost, SCOPES[lost.scope])
    assert (result.escaped, result.states) == (True, 0)
    assert "stands 0 times" in result.what


def test_a_mutant_lives_in_a_function() -> None:
    with pytest.raises(TypeError, match="not a function"), in_force(replace(MUTANTS[0], where="decide:_RULES")):
        raise AssertionError
