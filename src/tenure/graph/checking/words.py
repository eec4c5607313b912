"""Words that give a design away: a transfer that is described as one whose result the sender waits for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tenure.graph.findings import Finding
from tenure.protocol.graph import EdgeKind, Graph

_NEEDS = (
    r"(?:get|fetch|obtain|ask|query|request|collect|look up|find out|check)\b.*\b(?:then|so that|so)\b"
    r".*\b(?:answer|answers|reply|replies|respond|go on|continue|proceed|decide|summari[sz]e|use)",
    r"\b(?:come|comes|coming|go|goes) back\b",
    r"\b(?:hand|hands|give|gives|bring|brings|send|sends|pass|passes)\b.*\b(?:result|results|answer|it|them) back\b",
    r"\breport(?:s|ing)? back\b",
    r"\breturn(?:s|ing)?\b.*\b(?:result|results|answer|answers|findings?|outcome|report)\b",
    r"\b(?:result|results|answer|answers|findings?|outcome) (?:is|are) needed\b",
    r"\bneeds?\b.*\b(?:result|results|answer|answers|findings?|outcome)\b",
    r"\bwaits? for\b.*\b(?:result|results|answer|answers|reply|outcome)\b",
    r"\b(?:get|gets|fetch|fetches|obtain|obtains)\b.+\bfrom\b.+",
    r"\bto (?:help|let|allow)\b.+\b(?:answer|reply|respond|finish|continue|decide)\b",
    r"\bbefore\b.+\b(?:answers?|answering|replies|replying|goes on|going on|continues|continuing|responds?)\b",
    r"\bon behalf of\b.+\b(?:caller|sender)\b",
)
_PATTERN = re.compile("|".join(f"(?:{one})" for one in _NEEDS), re.IGNORECASE)


def needs_result(text: str) -> bool:
    """Whether a description says that the sender needs the result to go on: then it is a delegation."""
    return bool(_PATTERN.search(text))


def word_findings(graph: Graph) -> Iterator[Finding]:
    """Findings about what stands in words at a transfer."""
    for number, edge in enumerate(graph.edges):
        if edge.kind is not EdgeKind.TRANSFER:
            continue
        for name in ("because", "description"):
            text = getattr(edge, name)
            if text and needs_result(text):
                message = f"{edge.source} → {edge.target} is a transfer, and its {name} waits for a result: {text!r}."
                yield Finding(code="needs_result", message=message, where=("edges", number, name))
