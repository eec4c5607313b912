"""Words that give a design away: a transfer that is described as one whose result the sender waits for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tenure.graph.findings import Finding
from tenure.protocol.graph import EdgeKind, Graph

_GET = r"\b(?:get|gets|fetch|fetches|obtain|ask|asks|query|request|collect|look up|check)\b"
_RESULT = r"(?:result|results|answer|answers|reply|findings?|outcome|report|response)\b"
_THE = r"(?:the|its|an?|their|that|this|his|her|your|our)\s+(?:\w+\s+)?"
_NEEDS = (
    _GET + r".*\b(?:then|so)\b.*\b(?:answer|reply|replies|respond|go on|continue|decide|proceed|use|summari[sz]e)",
    r"\b(?:get|gets|fetch|fetches|obtain|obtains)\b.+\bfrom\b",
    r"\b(?:come|comes|coming|go|goes) back\b",
    r"\b(?:hand|give|bring|send|pass)(?:s|es|ing)?\b.*\b" + _RESULT + r".*\bback\b",
    r"\breports? back\b|\breporting back\b",
    r"\breturn(?:s|ing)?\s+" + _THE + _RESULT,
    r"\b" + _RESULT + r"\s+(?:is|are) needed\b",
    r"\bneeds?\s+" + _THE + _RESULT,
    r"\bwait(?:s|ing)?\s+for\s+" + _THE + _RESULT,
    r"\bbefore\b.+\b(?:can|may|is able to)\b.+\b(?:answer|reply|go on|continue|respond)",
    r"\bso that\b.+\b(?:can|may)\b.+\b(?:answer|reply|go on|continue|respond|finish)",
)
_PATTERN = re.compile("|".join(f"(?:{one})" for one in _NEEDS), re.IGNORECASE)


_BEGIN = frozenset(
    {"get", "gets", "fetch", "fetches", "obtain", "obtains", "ask", "asks", "query", "request", "collect", "look"}
    | {"check", "come", "comes", "coming", "go", "goes", "going", "hand", "hands", "handing", "give", "gives", "giving"}
    | {"bring", "brings", "bringing", "send", "sends", "sending", "pass", "passes", "passing", "report", "reports"}
    | {"reporting", "return", "returns", "returning", "need", "needs", "needed", "wait", "waits", "waiting"}
    | {"before", "so"}
)
"""Words with which the patterns begin, or which they need: a text without any of them is not looked at again."""
_MARKS = str.maketrans(dict.fromkeys(".,;:!?()'\"-", " "))


def needs_result(text: str) -> bool:
    """Whether a description says that the sender needs the result to go on: then it is a delegation."""
    return not _BEGIN.isdisjoint(text.lower().translate(_MARKS).split()) and bool(_PATTERN.search(text))


def word_findings(graph: Graph) -> Iterator[Finding]:
    """Findings about what stands in words at a transfer."""
    judged: dict[str, bool] = {"": False}  # many edges share their words
    for number, edge in enumerate(graph.edges):
        if edge.kind is not EdgeKind.TRANSFER:
            continue
        for name, text in (("because", edge.because), ("description", edge.description)):
            wanted = judged.get(text)
            if wanted is None:
                wanted = judged[text] = needs_result(text)
            if wanted:
                message = f"{edge.source} → {edge.target} is a transfer, and its {name} waits for a result: {text!r}."
                yield Finding(code="needs_result", message=message, where=("edges", number, name))
