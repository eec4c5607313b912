"""Oscillation: edges that are used again and nothing comes of it (BL-01). Counting alone never stops a long chain."""

from typing import Any

from tenure.protocol.graph import AgentKind, AgentNode
from tenure.protocol.payload import Artifact, Fact
from tenure.protocol.vocabulary import OfferKind, Phase, Reason, TurnOutcome
from tests.protocol.graphs import graph_of, transfer
from tests.protocol.world import Owner, World

ROUND = graph_of(transfer("a", "b"), transfer("b", "a"), transfer("a", "c"), transfer("c", "a"), transfer("a", "s"))


def begin(**settings: Any) -> Owner:
    world = World(**{"transfers": 100, **settings})
    return world.owned_by("a", graph=world.save(ROUND))


def hop(owner: Owner, to: str, **parts: Any) -> Owner:
    n = owner.world.task.hop_count + 1
    owner.decide(owner.to(to, h=f"h{n}", **parts))
    return owner.world.ack(to, instance=f"{to}{n}")


def test_bl_01_ping_pong_without_progress_is_refused_after_the_repeats() -> None:
    owner = begin(repeats=2)
    for _ in range(3):
        owner = hop(hop(owner, "b", summary=f"please {owner.epoch}"), "a", summary=f"no, you {owner.epoch}")
    with owner.world.refuses("oscillation") as caught:
        hop(owner, "b")
    assert "a → b → a" in str(caught[0])
    assert (owner.world.task.transfers, owner.world.task.owner) == (6, "a")


def test_bl_01_a_long_productive_chain_is_not_stopped() -> None:
    owner = begin(repeats=0)
    done: tuple[Fact, ...] = ()
    for number in range(6):
        for to in ("b", "a", "c", "a"):
            done = (*done, Fact(id=f"{to}{number}{len(done)}", what="an item", outcome="done"))
            owner = hop(owner, to, done=done)
    assert owner.world.task.transfers == 24


def test_each_kind_of_progress_counts() -> None:
    owner = begin(repeats=0)
    owner = hop(hop(owner, "b"), "a")
    with owner.world.refuses("oscillation"):
        hop(owner, "b")
    owner.advance(document={"items": 1})
    owner = hop(hop(owner, "b"), "a")
    owner.world.send()
    owner.see(1)
    owner.advance(1)
    owner = hop(hop(owner, "b"), "a")
    artifact = Artifact(id="report-1", uri="s3://bucket/report")
    owner = hop(hop(owner, "b", artifacts=(artifact,)), "a", artifacts=(artifact,))
    assert owner.world.task.transfers == 8


def test_a_result_that_was_collected_is_progress() -> None:
    world = World(repeats=0, transfers=100)
    owner = world.owned_by("a")
    owner = hop(hop(owner, "b"), "a")
    owner.delegate("t.1", "c")
    world.ack("c", task_id="t.1").complete()
    owner.advance(0, "t.1")
    owner = hop(owner, "b")
    assert world.task.transfers == 3


def test_a_work_that_found_the_same_again_is_no_progress() -> None:
    owner = begin(repeats=0)
    one = Fact(id="w-1", what="search", outcome="done", data={"hits": 3}, origin="work")
    same = Fact(id="w-2", what="search", outcome="done", data={"hits": 3}, origin="work")
    other = Fact(id="w-3", what="search", outcome="done", data={"hits": 4}, origin="work")
    owner = hop(hop(owner, "b", done=(one,)), "a", done=(one,))
    with owner.world.refuses("oscillation"):
        hop(owner, "b", done=(one, same))
    hop(owner, "b", done=(one, other))


def test_a_transfer_that_a_crash_repeats_is_counted_once() -> None:
    owner = begin(repeats=1)
    owner = hop(hop(owner, "b"), "a")
    owner.turn("t:b")
    owner.world.dies(owner.instance)
    assert len(owner.world.task.trail) == 3
    owner = hop(owner.world.ack("b", instance="b9"), "a")
    with owner.world.refuses("oscillation"):
        hop(owner, "b")


def test_circles_go_to_the_supervisor_with_their_state_and_an_owner() -> None:
    owner = begin(repeats=0, nudges=0, supervisor="s")
    owner = hop(hop(owner, "b"), "a")
    owner.advance(0, document={"kept": True})
    owner = hop(hop(owner, "b"), "a")
    ruling = owner.turn("t:b")
    assert (ruling.outcome, ruling.reason) == (TurnOutcome.END, Reason.OSCILLATION)
    owner.release()
    offer = owner.world.task.offer
    assert offer is not None
    assert (offer.kind, offer.candidates[0].agent, offer.reason) == (OfferKind.TAKEOVER, "s", Reason.OSCILLATION)
    owner.world.ack("s")
    task = owner.world.task
    assert (task.owner, task.trail, bool(task.document)) == ("s", (), True)


def test_a_supervisor_that_is_in_the_circle_is_no_way_out() -> None:
    owner = begin(repeats=0, nudges=0, supervisor="a")
    owner = hop(hop(owner, "b"), "a")
    owner.turn("t:b")
    owner.release()
    assert owner.world.phase() is Phase.ESCALATED


def test_a_supervisor_that_may_not_own_a_task_is_no_way_out_either() -> None:
    for nobody in ("nobody", "p"):
        graph = graph_of(transfer("a", "b"), transfer("b", "a"), agents={"p": AgentNode(kind=AgentKind.PARTNER)})
        world = World(repeats=0, nudges=0, supervisor=nobody)
        owner = world.owned_by("a", graph=world.save(graph))
        owner = hop(hop(owner, "b"), "a")
        owner.turn("t:b")
        owner.release()
        assert world.phase() is Phase.ESCALATED


def test_the_hard_budget_holds_whatever_the_progress() -> None:
    owner = begin(transfers=2)
    owner = hop(hop(owner, "b", done=(Fact(id="1", what="x", outcome="done"),)), "a")
    with owner.world.refuses("transfer_limit_exceeded"):
        hop(owner, "b", done=(Fact(id="2", what="y", outcome="done"),))
