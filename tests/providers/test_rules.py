"""The built-in providers, held to the rules of all providers on the real systems: what they declare is shown."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tenure import Confirmed, Provider
from tenure.providers.http import Endpoint, Http, Keys, Offers, Reading
from tenure.testing.providers import Bench, Fault, ProviderRules, Struck, probe
from tenure.testing.providers.proxy import Proxy, http_acts
from tests.providers.service import Service, serving
from tests.providers.shops import LIMIT, PostgresShop, Shop, SqliteShop

DAY = 24 * 3600.0


def judge(status: int, body: Any) -> Any:
    """What cannot be sealed any more has happened, and the service says under which name."""
    return Confirmed(body, body["id"]) if status == 409 and isinstance(body, dict) else None


class HttpBench(Bench):
    """The payments service, with a relay in front of it, and its own books as the truth."""

    gives_up_after = 0.05
    settles_in = 0.05
    not_probed: ClassVar[dict[str, str]] = {}

    def __init__(self, service: Service, proxy: Proxy) -> None:
        self.service, self.proxy = service, proxy
        self.made: list[Http] = []

    async def __aexit__(self, *raised: object) -> None:
        for provider in self.made:
            await provider.aclose()

    def provider(self) -> Http:
        self.made.append(self.make())
        return self.made[-1]

    def make(self) -> Http:
        return Http(
            "bank",
            f"http://{self.proxy.host}:{self.proxy.port}",
            "/payments",
            offers=Offers(
                lookup=Endpoint("/payments/{key}", "GET"),
                seal=Endpoint("/keys/{key}", "PUT"),
                compensate=Endpoint("/payments/{reference}/refund"),
                lookup_compensation=Endpoint("/refunds/{key}", "GET"),
            ),
            keys=Keys(kept_for=DAY, undo_kept_for=DAY),
            reading=Reading(judge=judge),
            timeout=0.3,
        )

    def request(self, n: int) -> Any:
        return {"cents": 100 + n}

    def refused(self, n: int) -> Any:
        return {"cents": 200_000 + n}

    async def acts(self, request: Any, key: str) -> int:
        del request
        return int(key in self.service.payments)

    async def undone(self, request: Any, key: str) -> int:
        del request
        return self.service.refunded.count(f"pay-{key}")

    def fault(self, fault: Fault) -> AbstractAsyncContextManager[Struck]:
        return self.proxy.fault(fault)


def acts(message: bytes) -> bool:
    """Seals pass: what they meet is a request that does not."""
    return http_acts(message) and not message.startswith(b"PUT")


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as running:
        yield running


@pytest.fixture
async def bench_kind(service: Service) -> AsyncIterator[Callable[[], Bench]]:
    async with Proxy("127.0.0.1", service.port, acts=acts) as proxy:
        yield lambda: HttpBench(service, proxy)


class Suite(ProviderRules):
    def __init__(self, bench_kind: Callable[[], Bench]) -> None:
        self.bench_kind = bench_kind

    def open(self, folder: Path) -> Bench:
        del folder
        return self.bench_kind()


@pytest.mark.full
@pytest.mark.timeout(300)
async def test_http_with_keys_is_what_it_declares(bench_kind: Callable[[], Bench]) -> None:
    report = await probe(Suite(bench_kind))
    shown = {name for name, word in report.capabilities.items() if word == "shown"}
    assert (report.broken, shown) == ((), set(report.capabilities) - {"cancellable"}), str(report)


async def test_http_that_declares_keys_which_the_service_does_not_keep_is_found(
    service: Service, bench_kind: Callable[[], Bench]
) -> None:
    class Forgetful(HttpBench):
        def make(self) -> Http:
            return Http(
                "bank",
                f"http://{self.proxy.host}:{self.proxy.port}",
                "/payments",
                keys=Keys(kept_for=DAY, header="X-Key"),
            )

        async def acts(self, request: Any, key: str) -> int:
            del key
            return sum(wanted == request for wanted in self.service.taken)

    def liar() -> Bench:
        good = bench_kind()
        assert isinstance(good, HttpBench)
        return Forgetful(service, good.proxy)

    report = await probe(Suite(liar))
    assert report.broken


class SqlBench(Bench):
    """A shop's own database; there is nothing between it and the provider that could go wrong on the way."""

    not_probed: ClassVar[dict[str, str]] = {"faults": "COMMITs are cut in tests/providers/test_sql_failures.py"}

    numbers = itertools.count(1, 8)
    """The truth is counted by the request, so no two rules have the same ones."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.first = next(self.numbers)

    def provider(self) -> Provider:
        return self.shop.provider()

    def request(self, n: int) -> Any:
        assert n < 8
        return {"cents": self.first + n}

    def refused(self, n: int) -> Any:
        return {"cents": LIMIT + 1 + n}

    async def acts(self, request: Any, key: str) -> int:
        del key
        return (await self.shop.orders()).count(request["cents"])


async def holds(shop: Shop) -> None:
    await shop.make()
    SqlBench.numbers = itertools.count(1, 8)
    report = await probe(Suite(lambda: SqlBench(shop)))
    shown = {name for name, word in report.capabilities.items() if word.startswith("shown")}
    assert (report.broken, shown) == ((), {"idempotent", "queryable", "sealable"}), str(report)


async def test_a_transaction_of_sqlite_is_what_it_declares(tmp_path: Path) -> None:
    await holds(SqliteShop(tmp_path / "shop.db"))


async def test_a_transaction_of_postgresql_is_what_it_declares(postgres: str) -> None:
    await holds(PostgresShop(postgres))
