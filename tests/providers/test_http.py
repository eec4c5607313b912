"""HTTP with idempotency keys, against a real server: each answer is the evidence that it is, and no more."""

import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from tenure import Accepted, Complete, Confirmed, Declined, Done, Inconclusive, NotFound, NotSent, Sealed, Team, Tenure
from tenure.errors import Refused
from tenure.protocol.vocabulary import EffectState
from tenure.providers.http import AHEAD, Endpoint, Http, Keys, Offers, Reading
from tenure.runtime.provider import can
from tests.providers.service import Service, breaking, serving

OFFERS = Offers(
    lookup=Endpoint("/payments/{key}", "GET"),
    compensate=Endpoint("/payments/{reference}/refund"),
    lookup_compensation=Endpoint("/refunds/{key}", "GET"),
    seal=Endpoint("/keys/{key}", "PUT"),
)
DAY = 24 * 3600.0


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as running:
        yield running


@pytest.fixture
async def bank(service: Service) -> AsyncIterator[Http]:
    provider = Http("bank", service.base, "/payments", offers=OFFERS, keys=Keys(kept_for=DAY), timeout=0.5)
    yield provider
    await provider.aclose()


async def test_it_is_done_under_its_key_with_the_same_bytes_each_time(service: Service, bank: Http) -> None:
    answer = await bank.apply({"cents": 5, "a": "ü"}, key="k-1")
    assert answer == Confirmed({"id": "pay-k-1"}, "pay-k-1")
    assert await bank.apply({"a": "ü", "cents": 5}, key="k-1") == answer
    assert service.payments == {"k-1": {"cents": 5, "a": "ü"}}
    first, second = service.seen
    assert first == second == ("POST", "/payments", "k-1", '{"a":"ü","cents":5}'.encode())


async def test_a_refusal_is_a_refusal(bank: Http, service: Service) -> None:
    assert await bank.apply({"cents": 200_000}, key="k-1") == Declined("answered 402", {"why": "limit"})
    assert service.payments == {}


async def test_a_key_that_met_another_request_is_for_a_person_and_neither_done_nor_refused(bank: Http) -> None:
    await bank.apply({"cents": 5}, key="k-1")
    answer = await bank.apply({"cents": 6}, key="k-1")
    assert isinstance(answer, Inconclusive)
    assert "another request" in answer.reason


async def test_what_is_found_under_a_key_that_met_another_request_is_not_this_one(service: Service, bank: Http) -> None:
    assert bank.lookup is not None
    await bank.apply({"cents": 5}, key="k-1")
    await bank.apply({"cents": 6}, key="k-1")
    before = len(service.seen)
    assert isinstance(await bank.lookup({"cents": 6}, key="k-1"), Inconclusive)
    assert isinstance(await bank.apply({"cents": 6}, key="k-1"), Inconclusive)
    assert len(service.seen) == before


@pytest.mark.parametrize("status", ["401", "403", "404"])
async def test_a_repeat_that_is_turned_away_at_the_door_does_not_make_the_first_request_refused(
    service: Service, bank: Http, status: str
) -> None:
    service.faults = ["500", status]
    assert isinstance(await bank.apply({"cents": 5}, key="k-1"), Inconclusive)
    assert await bank.apply({"cents": 5}, key="k-1") == Inconclusive(f"answered {status}")
    assert list(service.payments) == ["k-1"], "it was done"


@pytest.mark.parametrize("status", ["401", "403", "404"])
async def test_the_same_answer_refuses_what_is_sent_once_or_what_the_user_says_it_does(
    service: Service, status: str
) -> None:
    once = Http("bank", service.base, "/payments")
    told = Http(
        "bank",
        service.base,
        "/payments",
        keys=Keys(kept_for=DAY),
        reading=Reading(refusals=frozenset({int(status)})),
    )
    service.faults = [status, status]
    for bank in (once, told):
        assert isinstance(await bank.apply({"cents": 5}, key="k-1"), Declined)
        await bank.aclose()


@pytest.mark.parametrize("status", ["409", "429", "503"])
async def test_where_it_is_too_early_it_asks_again_under_the_same_key(
    service: Service, bank: Http, status: str
) -> None:
    service.faults = [status, status]
    assert isinstance(await bank.apply({"cents": 5}, key="k-1"), Confirmed)
    assert [key for _, _, key, _ in service.seen] == ["k-1"] * 3
    service.faults = [status] * 9
    answer = await bank.apply({"cents": 5}, key="k-2")
    assert answer == Inconclusive(f"answered {status}")
    assert len(service.seen) == 3 + 4, "a few times"


@pytest.mark.parametrize("status", ["409", "429", "503"])
async def test_where_a_key_means_nothing_it_does_not_ask_again(service: Service, status: str) -> None:
    plain = Http("bank", service.base, "/payments")
    service.faults = [status]
    assert await plain.apply({"cents": 5}, key="k-1") == Inconclusive(f"answered {status}")
    assert len(service.seen) == 1
    await plain.aclose()


@pytest.mark.parametrize("fault", ["500", "302"])
async def test_a_fault_of_the_service_proves_nothing_and_is_not_followed(
    service: Service, bank: Http, fault: str
) -> None:
    service.faults = [fault]
    assert await bank.apply({"cents": 5}, key="k-1") == Inconclusive(f"answered {fault}")
    assert len(service.seen) == 1


async def test_an_answer_that_comes_too_late_is_no_answer(service: Service, bank: Http) -> None:
    service.faults = ["slow"]
    with pytest.raises(httpx2.ReadTimeout):
        await bank.apply({"cents": 5}, key="k-1")
    assert service.payments == {"k-1": {"cents": 5}}, "and it had been done"


# --- what has not left ----------------------------------------------------------------------------------------------


async def test_without_a_listener_nothing_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    provider = Http("bank", f"http://127.0.0.1:{port}", "/payments")
    with pytest.raises(NotSent):
        await provider.apply({}, key="k-1")
    await provider.aclose()


@pytest.mark.parametrize("base", ["http://no-such-host.invalid", "ftp://127.0.0.1"])
async def test_without_an_address_nothing_was_sent(base: str) -> None:
    provider = Http("bank", base, "/payments")
    with pytest.raises(NotSent):
        await provider.apply({}, key="k-1")
    await provider.aclose()


async def test_a_handshake_that_fails_comes_before_the_first_byte_of_a_request() -> None:
    with breaking(after_reading=False) as port:
        provider = Http("bank", f"https://127.0.0.1:{port}", "/payments", timeout=2)
        with pytest.raises(NotSent):
            await provider.apply({}, key="k-1")
        await provider.aclose()


async def test_a_path_without_its_field_is_not_sent(service: Service) -> None:
    provider = Http("bank", service.base, "/payments/{order}")
    with pytest.raises(NotSent, match="order"):
        await provider.apply({"cents": 5}, key="k-1")
    assert service.seen == []


@pytest.mark.parametrize("after_reading", [True, False])
async def test_a_connection_that_is_cut_leaves_it_open_whether_it_was_read(*, after_reading: bool) -> None:
    with breaking(after_reading=after_reading) as port:
        provider = Http("bank", f"http://127.0.0.1:{port}", "/payments", timeout=2)
        with pytest.raises(httpx2.TransportError) as caught:
            await provider.apply({}, key="k-1")
        assert not isinstance(caught.value, NotSent)
        await provider.aclose()


# --- what else it offers --------------------------------------------------------------------------------------------


async def test_what_the_service_does_not_offer_the_provider_does_not_have(service: Service) -> None:
    plain = Http("bank", service.base, "/payments")
    offered = ("lookup", "seal", "cancel", "compensate", "lookup_compensation")
    assert [name for name in offered if can(plain, name)] == []
    assert (plain.idempotent_for, plain.key_scope) == (0, service.base)


async def test_a_look_up_tells_what_is_there_and_changes_nothing(service: Service, bank: Http) -> None:
    assert bank.lookup is not None
    assert await bank.lookup({}, key="k-1") == NotFound()
    await bank.apply({"cents": 5}, key="k-1")
    assert await bank.lookup({}, key="k-1") == Confirmed({"id": "pay-k-1"}, "pay-k-1")
    service.faults = ["500"]
    assert await bank.lookup({}, key="k-1") == Inconclusive("answered 500")
    assert len(service.payments) == 1


async def test_a_sealed_key_never_lands(service: Service, bank: Http) -> None:
    assert bank.seal is not None
    assert await bank.seal({}, key="k-1") == Sealed()
    assert await bank.apply({"cents": 5}, key="k-1") == Declined("answered 410", {"why": "sealed"})
    await bank.apply({"cents": 5}, key="k-2")
    assert await bank.seal({}, key="k-2") == Inconclusive("answered 409")
    assert service.payments == {"k-2": {"cents": 5}}


async def test_an_undoing_has_its_own_key_and_can_be_looked_up(service: Service, bank: Http) -> None:
    assert bank.compensate is not None
    assert bank.lookup_compensation is not None
    await bank.apply({"cents": 5}, key="k-1")
    assert await bank.lookup_compensation({}, key="u-1") == NotFound()
    assert isinstance(await bank.compensate({"cents": 5}, key="u-1", reference="pay-k-1"), Confirmed)
    assert service.seen[-1][:3] == ("POST", "/payments/pay-k-1/refund", "u-1")
    assert isinstance(await bank.lookup_compensation({}, key="u-1"), Confirmed)
    assert list(service.refunds) == ["u-1"]


async def test_a_job_is_accepted_and_a_judge_reads_its_end(service: Service) -> None:
    def judge(status: int, body: Any) -> Any:
        return Confirmed(body) if status == 200 and body.get("state") == "ended" else None

    jobs = Http("jobs", service.base, "/jobs", reading=Reading(job=True, judge=judge))
    assert await jobs.apply({}, key="k-1") == Accepted("job-1", {"id": "job-1"})
    await jobs.aclose()


@pytest.mark.parametrize("invoice", ["", ".", ".."])
async def test_a_path_is_not_left_by_what_fills_it(service: Service, invoice: str) -> None:
    bank = Http("bank", service.base, "/payments/{invoice}/refund")
    with pytest.raises(NotSent, match="names 'invoice'"):
        await bank.apply({"invoice": invoice}, key="k-1")
    assert service.seen == []


async def test_a_look_up_by_a_reference_that_is_not_known_asks_for_nothing(service: Service) -> None:
    bank = Http("bank", service.base, "/payments", offers=Offers(lookup=Endpoint("/payments/{reference}", "GET")))
    assert bank.lookup is not None
    with pytest.raises(NotSent, match="names 'reference'"):
        await bank.lookup({}, key="k-1")
    assert service.seen == []


async def test_a_field_of_the_request_does_not_pass_for_the_key(service: Service, bank: Http) -> None:
    assert bank.lookup is not None
    await bank.apply({"cents": 5}, key="k-1")
    assert await bank.lookup({"key": "k-1", "cents": 7}, key="k-2") == NotFound()


async def test_the_key_stands_in_the_header_of_what_acts_under_it_alone(service: Service) -> None:
    offers = Offers(lookup=OFFERS.lookup, seal=OFFERS.seal, cancel=Endpoint("/jobs"))
    bank = Http("bank", service.base, "/payments", offers=offers)
    for method in (bank.lookup, bank.seal, bank.cancel):
        assert method is not None
        await method({}, key="k-1")
    assert [key for _, _, key, _ in service.seen] == [""] * 3
    await bank.aclose()


# --- under the runtime ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["slow", "500"])
async def test_an_effect_whose_answer_was_lost_is_done_once_and_confirmed(service: Service, fault: str) -> None:
    """EF-01 and EF-03 at a real service: the answer to the first request is lost."""
    bank = Http("bank", service.base, "/payments", keys=Keys(kept_for=DAY), timeout=0.5)
    service.faults = [fault]
    team = Team("t", providers=[bank])
    found = []

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        found.append(await own.effect(bank, {"cents": 5}, key="A17"))
        return Complete()

    async with team.worker():
        handle = await team.submit(goal="g")
        await handle.result(20)
        (effect,) = await team.ledger.effects(handle.task_id)
    assert isinstance(found[0], Done)
    assert (effect.state, len(service.payments), len(service.seen)) == (EffectState.CONFIRMED, 1, 2)
    await bank.aclose()


# --- what a repeat, or an empty name, does not show -----------------------------------------------------------------


@pytest.mark.parametrize("status", sorted(AHEAD))
async def test_a_refusal_ahead_of_the_key_says_nothing_of_the_request_before(
    service: Service, bank: Http, status: int
) -> None:
    service.faults = ["500", str(status)]
    assert await bank.apply({"cents": 5}, key="k-1") == Inconclusive("answered 500")
    assert await bank.apply({"cents": 5}, key="k-1", repeat=True) == Inconclusive(f"answered {status}")
    service.faults = ["503", str(status)]
    assert await bank.apply({"cents": 5}, key="k-2", repeat=False) == Inconclusive(f"answered {status}")
    service.faults = [str(status)]
    assert isinstance(await bank.apply({"cents": 5}, key="k-3", repeat=False), Declined), "the only request was refused"
    assert list(service.payments) == ["k-1"]


async def test_ef_03_a_token_that_expired_before_the_repeat_refuses_nothing_that_was_done(service: Service) -> None:
    bank = Http("bank", service.base, "/payments", keys=Keys(kept_for=DAY), timeout=0.5)
    service.faults = ["500", "401", "401"]
    team = Team("t", providers=[bank])

    @team.agent
    async def clerk(own: Tenure[Any]) -> Complete[Any]:
        found = await own.effect(bank, {"cents": 5}, key="A17", patience=5)
        return Complete(type(found).__name__)

    async with team.worker():
        handle = await team.submit(goal="g")
        assert (await handle.result(20)).value == "Done"
    assert list(service.payments.values()) == [{"cents": 5}]
    await bank.aclose()


async def test_without_its_reference_nothing_is_asked_or_undone_by_it(service: Service) -> None:
    offers = Offers(
        lookup=Endpoint("/payments/{reference}", "GET"), compensate=Endpoint("/payments/{reference}", "DELETE")
    )
    bank = Http("bank", service.base, "/payments", offers=offers)
    for method in (bank.lookup, bank.compensate):
        assert method is not None
        with pytest.raises(NotSent, match="reference"):
            await method({"reference": "theirs"}, key="k-1")
    assert service.seen == [], "the path of all payments would have been another request"
    await bank.aclose()


async def test_key_and_reference_are_not_taken_from_the_request(service: Service, bank: Http) -> None:
    assert bank.lookup is not None
    await bank.apply({"cents": 5}, key="k-1")
    assert isinstance(await bank.lookup({"key": "k-1"}, key="k-2"), NotFound)


async def test_a_202_is_no_confirmation_and_a_job_needs_somebody_who_reads_how_it_stands(service: Service) -> None:
    plain = Http("jobs", service.base, "/jobs")
    assert await plain.apply({}, key="k-1") == Inconclusive("answered 202")
    await plain.aclose()
    with pytest.raises(Refused, match="judge"):
        Http("jobs", service.base, "/jobs", offers=OFFERS, reading=Reading(job=True))


async def test_a_reference_that_is_null_is_none(service: Service, bank: Http) -> None:
    service.faults = ["null"]
    assert await bank.apply({"cents": 5}, key="k-1") == Confirmed({"id": None}, "")
