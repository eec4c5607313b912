"""Replay: every event and command survives its encoding; a newer record is a clear error; folding gives the state."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.errors import Refused
from tenure.protocol import commands as cmd
from tenure.protocol import decisions as dec
from tenure.protocol import events as ev
from tenure.protocol.commands import bodies_of, encode_command
from tenure.protocol.events import EVENT_TYPES, VERSION, decode_event, encode_event, event_tag
from tenure.protocol.evolve import evolve, evolve_tree, fold
from tenure.protocol.vocabulary import WaitOn, WorkEnd
from tests.protocol.world import World, body

COMMANDS: tuple[type[cmd.CommandBase], ...] = cmd.Command.__args__
READ_COMMAND: msgspec.json.Decoder[Any] = msgspec.json.Decoder(cmd.Command)

# JSON numbers beyond 53 bits and longer texts show nothing more and take long to draw.
st.register_type_strategy(str, st.text('aé*/:"\\\u2028 x', max_size=6))
st.register_type_strategy(int, st.integers(0, 2**53))


FEWER = settings(max_examples=settings().max_examples // 3)  # of the profile's: there are seventy types


@pytest.mark.parametrize("kind", EVENT_TYPES, ids=lambda kind: kind.__struct_config__.tag)
@FEWER
@given(data=st.data())
def test_an_event_survives_its_encoding(kind: type[ev.EventBase], data: st.DataObject) -> None:
    event: Any = data.draw(st.builds(kind, v=st.just(VERSION)))
    encoded = encode_event(event)
    decoded = decode_event(encoded)
    assert (decoded, type(decoded), encode_event(decoded)) == (event, kind, encoded)


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
@FEWER
@given(data=st.data())
def test_a_command_survives_its_encoding(kind: type[cmd.CommandBase], data: st.DataObject) -> None:
    command: Any = data.draw(st.builds(kind))
    encoded = encode_command(command)
    assert (READ_COMMAND.decode(encoded), encode_command(command)) == (command, encoded)


def test_tags_are_stable_names_and_each_is_used_once() -> None:
    tags = [str(kind.__struct_config__.tag) for kind in EVENT_TYPES]
    assert len(set(tags)) == len(tags)
    assert all(tag == tag.lower() and tag.count(".") == 1 for tag in tags)
    assert event_tag(ev.ExecutionStopped(at=1)) == "execution.stopped"
    assert len({kind.__struct_config__.tag for kind in COMMANDS}) == len(COMMANDS)


@pytest.mark.parametrize(
    "content",
    [
        b'{"event":"execution.stopped","at":1,"v":3}',
        b'{"event":"execution.stopped","at":1,"v":3,"shape":"unknown"}',
        b'{"event":"execution.paused","at":1,"v":1}',
    ],
)
def test_a_record_of_a_newer_version_is_a_clear_error(content: bytes) -> None:
    with pytest.raises(Refused) as caught:
        decode_event(content)
    assert (caught.value.code, caught.value.next_action) == ("newer_version", "stop")
    assert "Upgrade" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"v":1}', b"\xff\xfe", b'{"event":"execution.stopped","at":"noon"}', b'{"event":7}'],
)
def test_what_is_no_event_is_refused(content: bytes) -> None:
    with pytest.raises(Refused) as caught:
        decode_event(content)
    assert caught.value.code == "invalid"


@given(content=st.binary(max_size=60))
def test_garbage_never_crashes_the_reader(content: bytes) -> None:
    with pytest.raises(Refused):
        decode_event(content)


def test_a_history_begins_with_its_submission() -> None:
    assert fold([]) is None
    with pytest.raises(Refused) as caught:
        evolve(None, ev.ExecutionStopped(at=1))
    assert caught.value.code == "wrong_phase"


def test_a_trees_counters_need_their_root_first() -> None:
    world = World()
    world.owned_by("a").delegate("t.k", "c")
    assert evolve_tree(None, world.history["t.k"][0]) is None
    assert evolve_tree(None, world.history["t"][1]) is None
    assert evolve_tree(None, ev.TreeStopped(at=1, by="person:operator")) is None


def test_a_body_is_found_at_every_depth_of_a_command() -> None:
    world = World()
    a = world.owned_by("a")
    said: list[cmd.Command] = []
    world.watch = said.append
    a.work("x")
    asking = dec.EscalateTo(question_id="q1", body=body("may I?"))
    a.decide(dec.WaitFor(on=WaitOn.ANSWER, within_ms=1, question=asking), document=body("state"))
    a.say(cmd.Release, routes_retired=True, ended=(cmd.Ended(work_id="x", how=WorkEnd.RETURNED, result=body("found")),))
    found = [[part.value() for part in bodies_of(command)] for command in said]
    assert found == [[], ["may I?", "state"], ["found"]]


def test_a_refused_event_leaves_the_state_as_it_was() -> None:
    world = World()
    world.owned_by("a")
    before = msgspec.json.encode(world.task)
    with world.refuses("wrong_phase"):
        world.apply(ev.TenureGranted(at=1, agent="b", instance="b1", authority=(), window_ms=0))
    assert msgspec.json.encode(world.task) == before
