"""Mail by SMTP: it cannot be asked back, so what is in doubt goes to a person.

===================================================  ======================================================
the server                                           the evidence
===================================================  ======================================================
takes the message (250 after its end)                ``Confirmed``, with the ``Message-ID`` as its reference
refuses it for good (5xx, at any step)               ``Declined``
refuses it for now (4xx) before the text             ``NotSent``: no message was given to it
cannot be reached, or hangs up before the text       ``NotSent``: no message was given to it
says nothing, 4xx, or hangs up, from the text on     raised as it is: it may have been taken
===================================================  ======================================================

A 4xx after the text is meant as a refusal (RFC 5321, 4.2.1). But a relay or a filter in between gives it also when
the next server has the mail and its answer was lost, and a server that is stopped says 421 while it stores a mail that
it has in full (3.8). Sent again, such a mail would arrive twice.

Needs the extra ``smtp``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any

import aiosmtplib
import msgspec
from msgspec import Struct

from tenure.runtime.provider import Answer, Confirmed, Declined, NotSent, Provider

FOR_NOW, FOR_GOOD = range(400, 500), range(500, 600)
"""Replies that refuse (RFC 5321, 4.2.1)."""


class Mail(Struct, frozen=True, kw_only=True):
    """The request: a plain text to one or more recipients, all of them or none."""

    to: tuple[str, ...]
    subject: str
    text: str


class Smtp(Provider):
    """Sends mail through one server.

    ============  =====================================================================================
    idempotent    no: two messages with one ``Message-ID`` may both be delivered
    queryable     no: SMTP cannot be asked what became of a message
    cancellable   no
    reversible    no
    ============  =====================================================================================

    A mail whose fate is not known is never sent again by itself. The ``Message-ID`` comes from the key: whoever looks
    into the server's log or a mailbox finds the effect by it.

    Args:
        host, port: the server. sender: address of all mail. domain: right side of the ``Message-ID``; the sender's by
            default. timeout: seconds for one step. user, password: to log in with. tls: from the first byte on.
        start_tls: after greeting; ``None`` where the server offers it.
    """

    def __init__(
        self,
        host: str,
        port: int = 25,
        *,
        sender: str,
        name: str = "mail",
        domain: str = "",
        timeout: float = 20,
        user: str = "",
        password: str = "",
        tls: bool = False,
        start_tls: bool | None = None,
    ) -> None:
        """Nothing is connected before a mail is sent."""
        self.name = name
        self._host, self._port = host, port
        self._sender = sender
        self._domain = domain or sender.rpartition("@")[2]
        self._timeout = timeout
        self._login = (user, password)
        self._tls, self._start_tls = tls, start_tls

    async def apply(self, request: Any, *, key: str) -> Answer:
        """Give the message to the server, for all of its recipients or for none."""
        try:
            mail = msgspec.convert(request, Mail)
            message = self._message(mail, key)
        except ValueError as error:  # no such fields, or a line break in a header
            return Declined(str(error))
        async with self._server() as server:
            refused = await self._announced(server, mail)
            if refused is not None:
                return refused
            # From here on the server has the text: only its own word tells what it has made of it.
            try:
                await server.data(message.as_bytes())
            except aiosmtplib.SMTPDataError as error:
                if error.code not in FOR_GOOD:
                    raise
                return _refused(error)
        return Confirmed(reference=str(message["Message-ID"]))

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[aiosmtplib.SMTP]:
        user, password = self._login
        server = aiosmtplib.SMTP(
            hostname=self._host,
            port=self._port,
            timeout=self._timeout,
            use_tls=self._tls,
            start_tls=self._start_tls,
            username=user or None,
            password=password or None,
        )
        try:
            await server.connect()
        except (aiosmtplib.SMTPException, OSError) as error:
            raise NotSent(f"{type(error).__name__}: {error}") from error
        try:
            yield server
        finally:
            server.close()

    async def _announced(self, server: aiosmtplib.SMTP, mail: Mail) -> Declined | None:
        """Name the sender and every recipient. One that is refused ends it for all of them, before any text is sent."""
        try:
            await server.mail(self._sender)
            for recipient in mail.to:
                await server.rcpt(recipient)
        except (aiosmtplib.SMTPSenderRefused, aiosmtplib.SMTPRecipientRefused) as error:
            return _refused(error)
        except (aiosmtplib.SMTPException, OSError) as error:
            raise NotSent(f"{type(error).__name__}: {error}") from error
        return None

    def _message(self, mail: Mail, key: str) -> EmailMessage:
        if not mail.to:
            raise ValueError("A mail has a recipient.")
        message = EmailMessage()
        message["From"] = self._sender
        message["To"] = ", ".join(mail.to)
        message["Subject"] = mail.subject
        message["Date"] = formatdate()
        message["Message-ID"] = f"<{key}@{self._domain}>"
        message.set_content(mail.text)
        return message


def _refused(error: aiosmtplib.SMTPResponseException) -> Declined:
    """What a refusing reply proves.

    Raises:
        NotSent: it refuses for now. The mail was not taken, and may be by another try.
        SMTPResponseException: it is no refusal, but something that is no reply at all.
    """
    words = f"{error.code} {error.message}"
    if error.code in FOR_GOOD:
        return Declined(words)
    if error.code in FOR_NOW:
        raise NotSent(words)
    raise error
