"""The relay that makes faults on the way to a real system: what gets through, in which direction, and when."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tenure.testing.providers import Fault
from tenure.testing.providers.proxy import Proxy, http_acts, http_message, line

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"
POST = b"POST /orders HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
GET = b"GET /orders HTTP/1.1\r\n\r\n"


class Service:
    """Answers each request that is complete, and keeps it."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.came = asyncio.Event()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        buffer = b""
        while data := await reader.read(100):
            buffer += data
            while length := http_message(buffer):
                self.got.append(buffer[:length])
                self.came.set()
                buffer = buffer[length:]
                writer.write(OK)
        writer.close()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    service = Service()
    server = await asyncio.start_server(service.serve, "127.0.0.1")
    service.port = server.sockets[0].getsockname()[1]
    yield service
    server.close()


@pytest.fixture
async def proxy(service: Service) -> AsyncIterator[Proxy]:
    async with Proxy("127.0.0.1", service.port) as proxy:
        yield proxy


async def send(proxy: Proxy, *requests: bytes, length: int = 4096) -> bytes:
    """Send requests on one connection, each after the answer to the one before; give the last answer."""
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
    answer = b""
    try:
        for request in requests:
            writer.write(request)
            answer = await reader.read(length)
    finally:
        writer.transport.abort()
    return answer


async def test_without_a_fault_everything_passes(proxy: Proxy, service: Service) -> None:
    assert await send(proxy, POST, GET, POST) == OK
    assert service.got == [POST, GET, POST]


async def test_a_request_in_pieces_is_forwarded_whole(proxy: Proxy, service: Service) -> None:
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
    for part in (POST[:10], POST[10:50], POST[50:]):
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0)
    assert await reader.read(4096) == OK
    writer.transport.abort()
    assert service.got == [POST]


async def test_a_lost_answer_ends_the_connection_after_the_service_has_the_request(
    proxy: Proxy, service: Service
) -> None:
    async with proxy.fault(Fault.LOST_ANSWER) as struck:
        assert await send(proxy, POST) == b""
    assert service.got == [POST]
    assert struck.times == 1
    assert await send(proxy, POST) == OK


async def test_an_error_stands_in_for_the_answer(proxy: Proxy, service: Service) -> None:
    async with proxy.fault(Fault.ERROR_AFTER):
        assert (await send(proxy, POST)).startswith(b"HTTP/1.1 503 ")
    assert service.got == [POST]


async def test_a_slow_answer_comes_when_the_fault_is_over(proxy: Proxy, service: Service) -> None:
    async with proxy.fault(Fault.SLOW_ANSWER) as struck:
        asking = asyncio.create_task(send(proxy, POST))
        await struck.beyond(0)
        await service.came.wait()
        assert not asking.done()
    assert await asking == OK
    assert service.got == [POST]


async def test_what_is_held_up_arrives_when_the_fault_is_over_though_the_caller_is_gone(
    proxy: Proxy, service: Service
) -> None:
    async with proxy.fault(Fault.HELD_UP) as struck:
        asking = asyncio.create_task(send(proxy, POST))
        await struck.beyond(0)
        asking.cancel()
        await asyncio.wait({asking})
        assert await send(proxy, GET) == OK, "what does not act is not held up"
        assert service.got == [GET]
    assert service.got == [GET, POST]


async def test_a_request_that_is_delivered_twice_is_answered_once(proxy: Proxy, service: Service) -> None:
    async with proxy.fault(Fault.TWICE):
        assert await send(proxy, GET, POST) == OK
    assert service.got == [GET, POST, POST]


async def test_all_that_a_connection_has_carried_can_be_delivered_twice(service: Service) -> None:
    async with Proxy("127.0.0.1", service.port, whole=True) as proxy, proxy.fault(Fault.TWICE):
        await send(proxy, GET, POST)
    assert service.got == [GET, POST, GET, POST]


async def test_nothing_reaches_what_is_not_reachable_and_it_comes_back_at_its_port(
    proxy: Proxy, service: Service
) -> None:
    port = proxy.port
    async with proxy.fault(Fault.UNREACHABLE) as struck:
        with pytest.raises(ConnectionRefusedError):
            await send(proxy, POST)
        assert struck.times == 1
    assert service.got == []
    assert (proxy.port, await send(proxy, POST)) == (port, OK)


async def test_a_look_up_meets_no_fault_on_its_way(proxy: Proxy) -> None:
    for fault in (Fault.LOST_ANSWER, Fault.SLOW_ANSWER, Fault.HELD_UP, Fault.TWICE, Fault.ERROR_AFTER):
        async with proxy.fault(fault) as struck:
            assert await send(proxy, GET) == OK
        assert struck.times == 0


async def test_a_fault_that_is_the_systems_own_is_not_made_on_the_way(proxy: Proxy) -> None:
    with pytest.raises(ValueError, match="deaf to cancellations"):
        async with proxy.fault(Fault.DEAF):
            pass


async def test_another_protocol_says_where_its_messages_end_and_which_act(service: Service) -> None:
    async with Proxy(
        "127.0.0.1", service.port, split=line, acts=lambda message: message == b".\r\n", error=b"451 try later\r\n"
    ) as proxy:
        async with proxy.fault(Fault.HELD_UP) as struck:
            reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
            writer.write(b"HELO me\r\nDATA\r\n\r\n.\r\n")
            await struck.beyond(0)
            assert await reader.read(4096) == OK, "what stands before the message that acts has passed"
        writer.transport.abort()


CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n0\r\n\r\nxy\r\n2;q=1\r\nhi\r\n0\r\n\r\n"


@pytest.mark.parametrize("message", [GET, POST, CHUNKED, b"PUT / HTTP/1.1\r\n\r\n"])
def test_an_http_request_ends_where_its_head_says(message: bytes) -> None:
    assert [http_message(message[:length]) for length in range(len(message))] == [0] * len(message)
    assert http_message(message) == len(message)
    assert http_message(message + GET) == len(message)


def test_methods_that_change_nothing_do_not_act() -> None:
    assert [http_acts(message) for message in (GET, POST, CHUNKED, b"HEAD / HTTP/1.1\r\n\r\n")] == [0, 1, 1, 0]
