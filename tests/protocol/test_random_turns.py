"""Random turns against the core: at most one transfer each, always the documented one, and no budget overshot (RT-01).

The oracle is written from the rules of the documentation, and shares no code with the core.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.errors import TenureError
from tenure.protocol import events as ev
from tenure.protocol.settings import Limits
from tests.protocol.graphs import delegate, graph_of, transfer
from tests.protocol.world import Owner, World

ORDER = ("c", "b", "d")
"""To whom a may transfer, in the graph's order."""
GRAPH = graph_of(*(transfer("a", name) for name in ORDER), *(delegate("a", name) for name in "bc"))
WISHES = st.sampled_from(["call", "t:b", "t:c", "t:d", "t:a", "t:forged", "d:b", "d:c", "d:forged"])
TURNS = st.lists(WISHES, max_size=6)


def expected(asked: list[str], nudges_left: int, turn_limit: int) -> tuple[str, str]:
    """The outcome, and the receiver if it is a transfer."""
    transfers = list(dict.fromkeys(one[2:] for one in asked if one.startswith("t:")))
    delegations = [one[2:] for one in asked if one.startswith("d:")]
    bad_transfers = [name for name in transfers if name not in ORDER]
    allowed = [name for name in delegations if name in ("b", "c")]
    good_transfers = [name for name in transfers if name in ORDER]
    good_delegations = min(len(allowed), turn_limit)
    forbidden = bool(bad_transfers or good_delegations < len(delegations))
    ambiguous = len(good_transfers) > 1 or bool(good_transfers and good_delegations)
    if nudges_left and (forbidden or ambiguous):
        return "nudge", ""
    if forbidden and not good_transfers and not good_delegations:
        return "end", ""
    if good_delegations or not good_transfers:
        return "go", ""
    return "transfer", min(good_transfers, key=ORDER.index)


def begin(nudges: int, limit: int, transfers: int) -> Owner:
    world = World(nudges=nudges, turn_delegations=limit, transfers=transfers, delegations=5, repeats=99, takeovers=99)
    return world.owned_by("a", graph=world.save(GRAPH), limits=Limits(delegations=4, agents=9))


@settings(deadline=None)
@given(st.lists(TURNS, max_size=4), st.integers(0, 2), st.integers(0, 3), st.data())
def test_the_documented_one_wins_whatever_is_asked(
    turns: list[list[str]], nudges: int, limit: int, data: st.DataObject
) -> None:
    a = begin(nudges, limit, transfers=9)
    left = nudges
    for asked in turns:
        ruling = a.turn(*asked)
        outcome, receiver = expected(asked, left, limit)
        assert str(ruling.outcome) == outcome
        left -= outcome == "nudge"
        wishes = [str(n) for n, one in enumerate(asked, 1) if one != "call"]
        rejected = [one.call_id for one in ruling.rejected]
        assert all(one.code for one in ruling.rejected)
        if outcome == "transfer":
            assert {*rejected, *ruling.merged, ruling.transfer} == set(wishes)
        pending = a.world.task.tenure.pending if a.world.task.tenure else None
        assert (pending.candidates[0].agent if pending else "") == receiver
        if outcome in ("transfer", "end"):
            break
    if a.world.task.tenure is not None and a.world.task.tenure.pending is not None and data.draw(st.booleans()):
        a.world.dies("a1")
        assert a.world.count("handoff.initiated") == 1


@settings(deadline=None)
@given(st.lists(st.tuples(TURNS, st.integers(0, 9)), max_size=8), st.integers(0, 3))
def test_no_budget_is_overshot_whatever_fails_in_between(steps: list[tuple[list[str], int]], transfers: int) -> None:
    owner = begin(1, 2, transfers)
    world, children = owner.world, 0
    for asked, fate in steps:
        try:
            owner.turn(*asked)
            for name in asked:
                children += 1
                if name.startswith("d:"):
                    owner.delegate(f"t.{children}", name[2:])
            pending = world.task.tenure.pending if world.task.tenure else None
            if pending is not None and fate > 3:
                owner.decide(owner.to(pending.candidates[0].agent, h=pending.handoff_id))
            elif fate == 1:
                world.dies(owner.instance)
            elif fate == 2:
                world.expire()
        except TenureError:
            pass
        owner = _next_owner(world, owner)
    initiated = [event for event in world.history["t"] if isinstance(event, ev.HandoffInitiated)]
    opened = [event for event in world.history["t"] if isinstance(event, ev.DelegationOpened)]
    assert len(initiated) == world.task.transfers <= transfers
    assert len(opened) == world.task.delegated <= 4
    assert world.tree is not None
    assert world.tree.delegations <= 4
    _at_most_one_transfer_a_turn(world)


def _next_owner(world: World, owner: Owner) -> Owner:
    offer = world.task.offer
    if offer is None or world.task.phase.ended:
        return owner
    agent = offer.open_to[0].agent
    return world.ack(agent, instance=f"{agent}{world.task.epoch}")


def _at_most_one_transfer_a_turn(world: World) -> None:
    since = 0
    for event in world.history["t"]:
        if isinstance(event, ev.TurnDecided | ev.TenureGranted):
            since = 0
        elif isinstance(event, ev.HandoffInitiated):
            since += 1
        assert since <= 1
