"""One graph per finding gives exactly that code, at the line that says it; a good graph gives none."""

from pathlib import Path

import pytest

from tenure.graph import Graph
from tenure.graph.checking import check, errors, placed
from tenure.graph.checking.words import needs_result
from tenure.graph.findings import CODES, Finding, Severity
from tenure.graph.reading import read

ROOT = Path(__file__).parents[2]
GRAPHS = Path(__file__).parent / "findings"
PAGE = ROOT / "docs" / "reference" / "findings.md"


def found_in(path: Path) -> tuple[Finding, ...]:
    source = read(path)
    return source.problems if source.graph is None else placed(check(source.graph), source)


def test_there_is_a_graph_for_each_finding() -> None:
    assert {path.stem for path in GRAPHS.glob("*.toml")} == CODES.keys()


LINES = {
    "grant_twice": "tools = [",
    "unreadable": "knd", "no_agents": "team", "no_entry": "team", "unknown_agent": 'to = "nobody"',
    "self_transfer": "[[edges]]", "self_delegation": "[[edges]]", "route_forbidden": 'to = "p"',
    "wildcard_transfer": 'to = "*"', "because_missing": "because", "needs_result": "because",
    "transfer_first": "[agents.a]", "transfer_cycle": "[[edges]]", "delegation_cycle": "[[edges]]",
    "unreachable": "[agents.b]", "dead_end": "[agents.b]", "edge_without_end": "termination", "no_person": "team",
    "deadline_below_grace": "transition_ms", "gate_below_tool": "gate", "unknown_tool": "tools = [",
    "unknown_policy": "policy", "bad_grant": "tools = [", "authority_widened": 'tools = ["note", "refund"]',
    "payload_mismatch": "payload", "limit_invalid": "transfers",
}  # fmt: skip


@pytest.mark.parametrize("code", CODES)
def test_a_graph_gives_exactly_its_finding_at_its_line(code: str) -> None:
    path = GRAPHS / f"{code}.toml"
    (found,) = found_in(path)
    assert found.code == code
    assert found.message.endswith((".", "?"))
    line = path.read_text().splitlines()[found.line - 1]
    if code == "duplicate_edge":
        assert (line, found.line) == ("[[edges]]", path.read_text().count("\n", 0, path.read_text().rindex("[[")) + 1)
    else:
        assert line.startswith(LINES[code])
    assert found.column >= 1


def test_the_retail_example_gives_none() -> None:
    assert found_in(ROOT / "examples" / "retail" / "team.toml") == ()


def test_every_code_stands_in_the_reference_with_its_next_step() -> None:
    page = PAGE.read_text()
    for code, (severity, meaning, step) in CODES.items():
        assert f"| `{code}` | {severity} | {meaning} | {step} |" in page


def test_errors_are_what_a_team_is_refused_for() -> None:
    for code, (severity, _, _) in CODES.items():
        source = read(GRAPHS / f"{code}.toml")
        if source.graph is not None:
            assert [one.code for one in errors(source.graph)] == ([code] if severity is Severity.ERROR else [])


def test_a_graph_of_nothing_but_an_agent_is_checked_without_a_file() -> None:
    graph = Graph(team="t", agents={})
    assert [(one.code, one.file, one.line) for one in errors(graph)] == [("no_agents", "", 0)]


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
]


@pytest.mark.parametrize("text", BACK)
def test_words_that_need_the_result_back(text: str) -> None:
    assert needs_result(text)


@pytest.mark.parametrize("text", GOOD)
def test_words_that_do_not(text: str) -> None:
    assert not needs_result(text)
