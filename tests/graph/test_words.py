"""What a transfer says in words: whether its sender needs the result back, or only somebody else does."""

import pytest

from tenure.graph import Edge, EdgeKind, Graph
from tenure.graph.checking.words import needs_result, word_findings

BACK = [
    "get X from Y, then answer",
    "get the balance from billing so that triage can reply",
    "ask billing for the amount and come back",
    "fetch the order from the shop, then go on",
    "billing looks it up and reports back",
    "report back to me with the outcome",
    "returns the result to triage",
    "returning its findings to the planner",
    "return an answer to the caller",
    "the result is needed for the reply",
    "triage needs the result",
    "the writer needs its answer to finish",
    "waits for the answer of billing",
    "waiting for its reply",
    "ask the expert, so triage can answer",
    "check the stock, then decide",
    "look up the address, then continue",
    "query the ledger so the agent can respond",
    "collects the facts and hands the results back",
    "gives them a look and sends the answer back",
    "brings the report back",
    "goes back to triage afterwards",
    "the task comes back with a quote",
    "obtain a quote from the partner",
    "fetches the invoice from accounting",
    "so that triage may go on with the ticket",
    "consult billing and return to triage",
    "return to triage when done",
    "hand control back to triage",
    "calculate the fee and return it",
    "look up the status, then transfer back",
    "let me know the price",
    "give it back when done",
    "we need the price to go on",
    "Get the balance\nfrom billing, then answer.",
    "before triage can answer, billing has to look",
    "ask billing, then tell the customer",
]
GOOD = [
    "orders answers for every change of an order that has not left",
    "returns answers for every refund and exchange of what was delivered",
    "accounts answers for what the customer's account says",
    "billing decides on refunds and answers for them",
    "the expert answers to the customer from here on",
    "legal owns the case to its end",
    "a person has to decide, and signs for it",
    "from here on the specialist talks to the customer",
    "the night shift takes over what is left",
    "only fraud may close these cases",
    "the customer asked for a human",
    "b answers for it",
    "b is responsible for the whole delivery",
    "the second line handles outages alone",
    "the owner of the contract has changed",
    "billing finishes it",
    "payments are made by treasury, under its own authority",
    "the account manager keeps the customer",
    "triage is done with it",
    "nobody else may speak for the bank",
    "the region's team works in the customer's language",
    "c decides",
    "the incident commander leads until it is closed",
    "hands over for good",
    "it is a return, and returns are theirs",
    "customers can get refunds from billing",
    "billing gets the whole case from here on",
    "billing gets the task from triage for good",
    "the parcel goes back to the warehouse, and returns answers for it",
    "billing sends the money back to the customer",
    "the customer needs an answer from legal, which owns the case",
    "the customer waits for a reply, and billing owns it to the end",
    "nobody may act before compliance can respond",
    "triage does not need the result",
    "triage doesn't need its answer to go on",
    "the sender no longer needs an answer",
    "triage goes on without waiting for the answer",
    "nothing is reported back",
    "nothing returns to triage",
    "the task never comes back",
    "the task must not come back",
    "no result is needed",
    "a case that waits for a reply of the bank is theirs",
    "what comes from abroad is theirs",
    "it is theirs from then on",
    "billing lets the customer know",
    "ask the customer first, then triage does not reply any more",
    "",
]
OF_TRIAGE = [
    "triage waits until billing is done",
    "look up the status and tell triage",
    "Triage needs the price to go on",
    "so that triage can answer",
    "for triage to decide",
    "transfers to triage when it has the price",
    "triage will need the amount",
    "fetch the balance so that triage can reply",
]
OF_OTHERS = [
    "so that billing can reply to the customer",
    "before billing can answer it must own the case",
    "triage does not wait for billing",
    "triage needs no answer",
    "triage is not told",
    "billing needs the answer of the bank and owns the case until then",
    "so that billing can go on with the case",
]


@pytest.mark.parametrize("text", BACK)
def test_words_that_need_the_result_back(text: str) -> None:
    assert needs_result(text)


@pytest.mark.parametrize("text", OF_TRIAGE)
def test_words_by_which_the_sender_needs_it(text: str) -> None:
    assert needs_result(text, "triage", "billing")


@pytest.mark.parametrize("text", GOOD)
def test_words_that_do_not(text: str) -> None:
    assert not needs_result(text)
    assert not needs_result(text, "triage", "billing")


@pytest.mark.parametrize("text", OF_OTHERS)
def test_words_by_which_somebody_else_does(text: str) -> None:
    assert not needs_result(text, "triage", "billing")


def test_a_name_counts_only_as_a_word_of_its_own() -> None:
    assert needs_result("so that a can answer", "a", "b")
    assert needs_result("it is a task so that a can answer", "a", "b")
    assert not needs_result("so that all can answer", "a", "b")
    assert needs_result("so that c++ can answer", "c++", "b")


def test_the_same_words_are_judged_anew_for_other_agents() -> None:
    text = "so that billing can answer"
    edges = (
        Edge(source="triage", target="billing", kind=EdgeKind.TRANSFER, because=text),
        Edge(
            source="billing", target="triage", kind=EdgeKind.TRANSFER, because="triage answers for it", description=text
        ),
        Edge(source="billing", target="triage", because=text),
    )
    (found,) = word_findings(Graph(team="t", edges=edges))
    assert (found.code, found.where) == ("needs_result", ("edges", 1, "description"))
