"""The retail service's provider, held to the rules of all providers: over HTTP, with a relay that makes the faults."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pytest

from examples.retail import rules
from examples.retail.client import OutcomeUnknown, RetailClient
from examples.retail.provider import Retail
from examples.retail.service.launch import Running, launch
from tenure import NotSent
from tenure.runtime.ids import new_id
from tenure.testing.providers import Bench, Fault, ProviderRules, Struck, probe
from tenure.testing.providers.proxy import Proxy, http_acts

DATA = Path(rules.__file__).parent / "data.json"


def acts(message: bytes) -> bool:
    """A seal passes, for what it meets is a request that does not."""
    return http_acts(message) and b"/seal" not in message.split(b"\r\n", 1)[0]


class RetailBench(Bench):
    """A namespace of its own, and the service's own log as the truth."""

    gives_up_after = 0.05
    settles_in = 0.02
    kind: type[Retail] = Retail

    def __init__(self, proxy: Proxy, direct: RetailClient, relayed: RetailClient) -> None:
        self.proxy, self.direct, self.relayed = proxy, direct, relayed
        self.ns = new_id("ns")

    async def __aenter__(self) -> Self:
        await self.direct.open_namespace(self.ns)
        return self

    def provider(self) -> Retail:
        provider = self.kind()
        provider.connect(self.relayed)
        return provider

    def request(self, n: int) -> Any:
        address = {"address1": f"{n} Long Road", "address2": "", "city": "Albany", "state": "NY", "country": "USA"}
        arguments = {"user_id": "customer-01", "zip": "12201", **address}
        return {"ns": self.ns, "operation": "modify_user_address", "arguments": arguments}

    def refused(self, n: int) -> Any:
        arguments = {"order_id": "order-1002", "reason": "no longer needed"}  # it is delivered
        return {"ns": self.ns, "operation": "cancel_pending_order", "arguments": arguments}

    async def acts(self, request: Any, key: str) -> int:
        return [application.key for application in await self.direct.log(self.ns)].count(key)

    def fault(self, fault: Fault) -> AbstractAsyncContextManager[Struck]:
        return self.proxy.fault(fault)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = launch(DATA, tmp_path_factory.mktemp("retail") / "shop.db")
    yield running
    assert running.stop() == 0


@pytest.fixture
async def bench_kind(service: Running) -> AsyncIterator[Callable[[], RetailBench]]:
    """Makes benches with a relay to the service, a client that goes through it and one that does not."""
    url = urlsplit(service.url)
    async with (
        Proxy(str(url.hostname), int(url.port or 0), acts=acts) as proxy,
        RetailClient(service.url) as direct,
        RetailClient(f"http://{proxy.host}:{proxy.port}") as relayed,
    ):
        yield lambda: RetailBench(proxy, direct, relayed)


class Suite(ProviderRules):
    def __init__(self, bench_kind: Callable[[], RetailBench]) -> None:
        self.bench_kind = bench_kind

    def open(self, folder: Path) -> Bench:
        return self.bench_kind()


async def test_it_is_idempotent_queryable_and_sealable_and_offers_no_more(
    bench_kind: Callable[[], RetailBench],
) -> None:
    report = await probe(Suite(bench_kind))
    shown = {name for name, word in report.capabilities.items() if word == "shown"}
    assert (report.broken, shown) == ((), {"idempotent", "queryable", "sealable"}), str(report)
    assert set(report.capabilities.values()) == {"shown", "not offered"}


class Hasty(Retail):
    """It takes what it does not know for not sent."""

    async def apply(self, request: Any, *, key: str) -> Any:
        try:
            return await super().apply(request, key=key)
        except OutcomeUnknown as error:
            raise NotSent(str(error)) from error


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.ERROR_AFTER])
async def test_one_that_takes_a_lost_answer_for_not_sent_is_found_on_the_real_service(
    bench_kind: Callable[[], RetailBench], fault: Fault
) -> None:
    async with bench_kind() as bench:
        bench.kind = Hasty
        with pytest.raises(AssertionError, match=r"It said NotSent\(.*; the truth: done 1 times"):
            await Suite(bench_kind).test_under_a_fault_nothing_untrue_is_answered(bench, fault)
