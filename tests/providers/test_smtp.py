"""Mail, against a real SMTP server: what the server takes, refuses, or says nothing about."""

import socket
from collections.abc import Iterator
from typing import Any

import aiosmtplib
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP

from tenure import Complete, Confirmed, Declined, InDoubt, NotSent, Settings, Team, Tenure
from tenure.protocol.vocabulary import EffectState
from tenure.providers.smtp import Smtp
from tenure.runtime.provider import can
from tests.runtime.harness import until

MAIL = {"to": ["customer-07@example.org"], "subject": "Your refund", "text": "It is on its way.\n"}


class Box:
    """What the server does with mail. ``says``: its reply at a step; ``None`` hangs up there, after taking the text."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.says: dict[str, str | None] = {}

    async def handle_MAIL(  # noqa: N802 - the library's name
        self, server: SMTP, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return self.reply(server, "MAIL")

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, server: SMTP, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        reply = self.reply(server, f"RCPT {address}")
        if reply.startswith("250"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Any) -> str:  # noqa: N802 - the library's name
        reply = self.says.get("DATA", "250 taken")
        if reply is None or reply.startswith("250"):
            self.taken.append(envelope.content)
        return self.reply(server, "DATA")

    def reply(self, server: SMTP, step: str) -> str:
        said = self.says.get(step, "250 OK")
        if said is None:
            assert server.transport is not None
            server.transport.close()
            return "421 bye"
        return said


@pytest.fixture
def box() -> Iterator[tuple[Box, Smtp]]:
    box = Box()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    yield box, Smtp("127.0.0.1", port, sender="shop@example.org", timeout=2)
    controller.stop()


Server = tuple[Box, Smtp]


async def test_a_mail_is_taken_and_named_by_its_key(box: Server) -> None:
    server, smtp = box
    assert await smtp.apply(MAIL, key="k-1") == Confirmed(reference="<k-1@example.org>")
    (text,) = server.taken
    assert b"Message-ID: <k-1@example.org>" in text
    assert b"It is on its way." in text


@pytest.mark.parametrize("step", ["MAIL", "RCPT customer-07@example.org", "DATA"])
async def test_what_is_refused_for_good_is_refused(box: Server, step: str) -> None:
    server, smtp = box
    server.says = {step: "550 not here"}
    answer = await smtp.apply(MAIL, key="k-1")
    assert answer == Declined("550 not here")
    assert server.taken == []


@pytest.mark.parametrize("step", ["MAIL", "RCPT customer-07@example.org"])
async def test_what_is_refused_for_now_before_the_text_was_not_sent(box: Server, step: str) -> None:
    server, smtp = box
    server.says = {step: "451 later"}
    with pytest.raises(NotSent, match="451"):
        await smtp.apply(MAIL, key="k-1")
    assert server.taken == []


@pytest.mark.parametrize("step", ["MAIL", "RCPT customer-07@example.org"])
async def test_a_server_that_hangs_up_before_the_text_has_no_message(box: Server, step: str) -> None:
    server, smtp = box
    server.says = {step: None}
    with pytest.raises(NotSent):
        await smtp.apply(MAIL, key="k-1")
    assert server.taken == []


async def test_a_server_that_hangs_up_after_the_text_may_have_taken_it(box: Server) -> None:
    server, smtp = box
    server.says = {"DATA": None}
    with pytest.raises(aiosmtplib.SMTPException) as caught:
        await smtp.apply(MAIL, key="k-1")
    assert not isinstance(caught.value, NotSent)
    assert len(server.taken) == 1, "and here it had"


@pytest.mark.parametrize("reply", ["421 shutting down", "451 later", "hm"])
async def test_what_is_not_for_good_after_the_text_proves_nothing(box: Server, reply: str) -> None:
    """A relay says so as well when the next server has the mail: sent again, it would arrive twice."""
    server, smtp = box
    server.says = {"DATA": reply}
    with pytest.raises(aiosmtplib.SMTPException) as caught:
        await smtp.apply(MAIL, key="k-1")
    assert not isinstance(caught.value, NotSent)


async def test_one_refused_recipient_ends_it_for_all(box: Server) -> None:
    server, smtp = box
    server.says = {"RCPT nobody@example.org": "550 not here"}
    answer = await smtp.apply({**MAIL, "to": ["customer-07@example.org", "nobody@example.org"]}, key="k-1")
    assert answer == Declined("550 not here")
    assert server.taken == []


@pytest.mark.parametrize(
    "request_",
    [{**MAIL, "subject": "a\nBcc: all@example.org"}, {**MAIL, "to": []}, {"to": ["a@example.org"]}, "mail"],
)
async def test_what_is_no_mail_is_refused_here(box: Server, request_: Any) -> None:
    server, smtp = box
    assert isinstance(await smtp.apply(request_, key="k-1"), Declined)
    assert server.taken == []


async def test_without_a_server_nothing_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(NotSent):
        await Smtp("127.0.0.1", port, sender="shop@example.org").apply(MAIL, key="k-1")


def test_it_offers_nothing_but_sending() -> None:
    smtp = Smtp("127.0.0.1", sender="shop@example.org")
    assert not any(can(smtp, name) for name in ("lookup", "seal", "cancel", "compensate", "lookup_compensation"))
    assert (smtp.idempotent_for, smtp.in_flight_limit) == (0, 0)


async def test_a_mail_without_an_answer_stays_in_doubt_and_a_person_is_asked(box: Server) -> None:
    server, smtp = box
    server.says = {"DATA": None}
    team = Team("t", providers=[smtp], settings=Settings(checks=1))
    found = []

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        found.append(await own.effect(smtp, MAIL, key="A17", patience=0.2))
        found.append(await own.effect(smtp, MAIL, key="A17", patience=0))
        return Complete()

    async with team.worker() as worker:
        handle = await team.submit(goal="g")
        await handle.result(20)
        assert worker.reconciler is not None
        await worker.reconciler.sweep(effects=await team.ledger.effects(handle.task_id))

        async def asked() -> bool:
            (effect,) = await team.ledger.effects(handle.task_id)
            return bool(effect.asked)

        await until(asked)
        (effect,) = await team.ledger.effects(handle.task_id)
    assert [type(each) for each in found] == [InDoubt, InDoubt]
    assert (effect.state, effect.asked, len(server.taken)) == (EffectState.IN_DOUBT, "person:operator", 1)
