"""A connection that can be ended without an answer, which no ASGI message asks for."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from examples.retail.service.app import DROP


class DroppableProtocol(H11Protocol):
    """Uvicorn's HTTP/1.1 protocol, with the connection's own end put within reach of the application."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        application = self.app

        async def with_drop(scope: Scope, receive: Receive, send: Send) -> None:
            scope[DROP] = self.transport.abort
            await application(scope, receive, send)

        self.app = with_drop

    transport: asyncio.Transport
