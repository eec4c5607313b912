"""The sender's part: structured, frozen, digested; facts with stable ids, each exactly once."""

from typing import Any

import msgspec
import pytest

from tenure.errors import Refused
from tenure.protocol.body import Body, text_digest
from tenure.protocol.payload import Artifact, Fact, Payload, constraint_digests, goal_digest, read_payload
from tests.protocol.world import World, body

SEARCHED = Fact(id="search-1", what="searched the orders", outcome="done", by="a")
PAID = Fact(id="e1", what="refunded 42 EUR", outcome="unknown", reference="re_1", by="a")
REPORT = Artifact(id="report", uri="s3://bucket/report.pdf")
CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


def content(**parts: Any) -> bytes:
    return msgspec.json.encode(Payload(task_id="t", handoff_id="h1", hop=1, goal="g", **parts))


def refusal(raw: bytes, limit: int = 10_000) -> Refused:
    with pytest.raises(Refused) as caught:
        read_payload(raw, limit)
    return caught.value


def test_it_is_read_as_it_was_frozen() -> None:
    raw = content(done=(SEARCHED, PAID), artifacts=(REPORT,), data={"order": "A17"}, decisions=("refund",))
    payload = read_payload(raw, len(raw))
    assert (payload.done, payload.artifacts, payload.data) == ((SEARCHED, PAID), (REPORT,), {"order": "A17"})


def test_a_part_above_its_limit_is_turned_away_with_advice() -> None:
    error = refusal(content(summary="x" * 100), limit=50)
    assert error.code == "payload_too_large"
    assert error.facts["limit"] == 50
    assert "artifacts" in str(error)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"task_id": 1}', b"\xff", b'{"task_id":"t"}'])
def test_what_is_not_a_payload_is_refused(raw: bytes) -> None:
    assert refusal(raw).code == "payload_invalid"


def test_an_unknown_field_is_an_error_nothing_in_a_payload_changes_routing_or_permissions() -> None:
    fields = {"task_id": "t", "handoff_id": "h1", "hop": 1, "goal": "g", "authority": ["*"]}
    assert refusal(msgspec.json.encode(fields)).code == "payload_invalid"


def test_pl_01_an_id_that_stands_twice_is_refused_before_the_target_starts() -> None:
    error = refusal(content(done=(SEARCHED, SEARCHED)))
    assert (error.code, "search-1" in str(error)) == ("payload_invalid", True)
    same_id = Artifact(id=SEARCHED.id, uri="s3://bucket/raw.json")
    assert refusal(content(done=(SEARCHED,), artifacts=(same_id,))).code == "payload_invalid"
    world = World()
    a = world.owned_by("a")
    with world.refuses("payload_invalid"):
        a.transfer("b", payload=world.payload("h1", 1, done=(SEARCHED, SEARCHED)))


def test_pl_01_each_fact_stands_once_after_two_hops() -> None:
    world = World()
    first = world.payload("h1", 1, done=(SEARCHED,))
    world.owned_by("a").transfer("b", payload=first)
    carried = read_payload(first.content, 10_000).done
    second = world.payload("h2", 2, done=(*carried, PAID))
    world.ack("b").transfer("c", h="h2", payload=second)
    c = world.ack("c", digest=second.digest)
    assert [fact.id for fact in read_payload(second.content, 10_000).done] == ["search-1", "e1"]
    with world.refuses("payload_invalid"):
        c.transfer("d", h="h3", payload=world.payload("h3", 3, done=(*carried, PAID, *carried)))


@pytest.mark.parametrize(
    "parts",
    [
        {"data": CHAT},
        {"data": {"history": CHAT}},
        {"data": {"context": {"history": CHAT}}},
        {"summary": msgspec.json.encode(CHAT).decode()},
        {"data": msgspec.json.encode(CHAT).decode()},
        {"data": [{"role": "user", "parts": ["hi"]}, {"role": "model", "tool_calls": []}]},
    ],
)
def test_a_raw_transcript_is_turned_away_with_advice(parts: dict[str, Any]) -> None:
    error = refusal(content(**parts))
    assert error.code == "raw_transcript"
    assert "artifact" in str(error)


@pytest.mark.parametrize(
    "parts",
    [
        {"data": None},
        {"data": []},
        {"data": [1, 2]},
        {"data": 7},
        {"data": [{"role": "clerk", "name": "x"}, {"role": "guest", "name": "y"}]},
        {"data": [CHAT[0]]},
        {"data": {"note": "the role of content", "deep": {"er": {"still": {"history": CHAT}}}}},
        {"summary": '[the "role" of this]'},
        {"summary": '["role", "content"]'},
        {"summary": "plain words"},
    ],
)
def test_structure_is_no_transcript(parts: dict[str, Any]) -> None:
    assert read_payload(content(**parts), 10_000).task_id == "t"


def test_constraints_are_compared_by_digest_each_once() -> None:
    payload = read_payload(content(constraints=("b", "a", "b")), 10_000)
    assert constraint_digests(payload) == tuple(sorted({text_digest("a"), text_digest("b")}))


def test_goals_and_constraints_are_digested_with_the_salt_of_their_tree() -> None:
    plain = read_payload(content(constraints=("in euros",)), 10_000)
    salted = read_payload(content(constraints=("in euros",), salt="random"), 10_000)
    assert constraint_digests(plain) != constraint_digests(salted)
    assert goal_digest(plain) != goal_digest(salted)


def test_a_body_is_named_by_a_digest_that_its_nonce_keeps_from_being_guessed() -> None:
    plain, salted = Body(b'"yes"'), Body(b'"yes"', "nonce")
    assert plain.digest != salted.digest
    assert (len(salted.digest), salted.value()) == (64, "yes")


def test_a_task_freezes_the_digest_not_the_content() -> None:
    world = World()
    world.owned_by("a").transfer("b", payload=world.payload("h1", 1, summary="the customer's address"))
    assert b"address" not in b"".join(world.snapshot())
    assert body("x").digest != world.task.payload
