"""Every field of an event that can hold a body's digest is known to erasure and verification."""

import re
from typing import get_type_hints

import pytest

from tenure.ledger.bodies import FIELDS, bodies_in
from tenure.protocol import events as ev
from tenure.protocol.body import Body
from tenure.protocol.state import Question
from tenure.protocol.vocabulary import Reason

NAMES = re.compile(r"body|payload|result|detail|document|readback|request|question|pending|digest")
"""Names of fields that hold content by its digest, or a question or a decided transfer that does."""
OTHERS = {"question_id"}


@pytest.mark.parametrize("kind", ev.EVENT_TYPES, ids=lambda kind: kind.__name__)
def test_no_field_is_forgotten(kind: type[ev.EventBase]) -> None:
    named = {name for name in get_type_hints(kind) if NAMES.fullmatch(name) and name not in OTHERS}
    assert set(FIELDS.get(kind, ())) == named


def test_a_questions_body_is_found_inside_it() -> None:
    digest = Body(b"{}").digest
    question = Question(question_id="q", reason=Reason.ESCALATED, who=(), allowed=(), body=digest, due=9)
    assert list(bodies_in(ev.TaskEscalated(at=1, question=question))) == [digest]
    assert list(bodies_in(ev.TaskCompleted(at=1, result=""))) == []
    assert list(bodies_in(ev.EffectsSettled(at=1))) == []
