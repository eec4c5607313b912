"""Words that give a design away: a transfer that is described as one whose result the sender waits for.

The question is who needs the result. "get the balance, then answer" and "so that triage can reply" speak of the sender;
"the customer needs an answer" and "so that legal can reply", of a transfer to legal, do not, and "triage does not need
the result" is what a transfer ought to say. So the patterns know the two agents, and what is negated does not count.
English only: a text in another language is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tenure.graph.findings import Finding
from tenure.protocol.graph import EdgeKind, Graph

_SENDER, _RECEIVER = "thesender", "thereceiver"

_ME = rf"(?:{_SENDER}|(?:the\s+)?(?:caller|sender|calling\s+agent|asking\s+agent|previous\s+agent)|me|us|i|we)"
_RESULT = r"(?:results?|answers?|reply|replies|findings?|outcome|report|response|quote|verdict)"
_THE = r"(?:the|its|an?|their|that|this|his|her|your|our)\s+(?:\w+\s+)?"
_TASK = r"(?:it|control|(?:the\s+)?(?:task|case|ticket|conversation))"
_GO_ON = r"(?:answer|reply|respond|go\s+on|continue|proceed|finish)\b"
_THEN = r"(?:answer|reply|respond|go\s+on|continue|decide|proceed|use|summari[sz]e|finish|write|tell)\b"
_BEGINS = r"(?:^|[,;:.]|\b(?:and|then|will|must|should|please)\b)\s*(?:then\s+)?"
"""Where a verb is an order, or a step of what happens, and does not tell of somebody else."""
_ASK = r"(?:get|fetch|obtain|ask|query|request|collect|look\s+up|check|calculate|consult|find\s+out|work\s+out)"
_ASKS = rf"(?:gets|fetches|obtains|asks|collects|looks\s+up|checks|calculates|consults|finds\s+out|{_ASK})"
_CAN = r"(?:can|may|could|is\s+able\s+to)"
_OTHERS = "".join(
    rf"(?<!\b{who} )"
    for who in ("customer", "customers", "user", "users", "client", "clients", "who", "that", "which", _RECEIVER)
)
"""Not these: they wait and need by themselves."""
_AWAY = (
    r"(?!\s+to\s+(?:the\s+|an?\s+)?"
    r"(?:customer|user|client|warehouse|shop|store|stock|seller|vendor|supplier|manufacturer|sender\s+of))"
)

_NEEDS: dict[str, tuple[str, ...]] = {
    "then": (rf"{_BEGINS}{_ASKS}\b.*\bthen\b.*\b{_THEN}",),
    "so": (
        rf"{_BEGINS}{_ASKS}\b.*\bso\b(?!\s+(?:that\s+)?{_RECEIVER}\b).*\b{_CAN}\b.*\b{_THEN}",
        rf"\bso\b\s+(?:that\s+)?{_ME}\s+{_CAN}\b",
        rf"\bso\s+that\b(?!\s+{_RECEIVER}\b).+\b(?:can|may|could)\s+(?:go\s+on|continue|proceed|resume)\b",
    ),
    "from": (
        rf"{_BEGINS}(?:gets?|fetch(?:es)?|obtains?)\b.+\bfrom\b(?!\s+(?:here|now|there|then|the\s+(?:start|beginning))\b)",
        r"\b(?:fetches|obtains)\b.+\bfrom\b",
    ),
    "back": (
        rf"(?:{_BEGINS}|\b{_TASK}\s+)(?:comes?|coming|goes|going|go|gets?)\s+back\b{_AWAY}",
        rf"{_BEGINS}(?:transfer|hand|switch|pass|turn|revert|route)(?:s|es)?\s+back\b{_AWAY}",
        rf"\b(?:hand|give|bring|send|pass)(?:s|es|ing)?\s+(?:\w+\s+){{0,3}}?(?:{_TASK}|{_RESULT})\s+back\b{_AWAY}",
        r"\breport(?:s|ed|ing)?\s+back\b",
    ),
    "return returns returning": (
        rf"{_BEGINS}returns?\s+to\s+(?!(?:the\s+|an?\s+)?(?:customer|user|client|warehouse|shop|store|stock|seller)s?\b)",
        rf"\breturn(?:s|ing)?\s+{_THE}{_RESULT}\b{_AWAY}",
        rf"{_BEGINS}{_ASKS}\b.*\b(?:and|then)\s+returns?\s+(?:it|them|that|{_THE}{_RESULT})\b",
    ),
    "need needs needed": (
        r"\b(?:the|its|their|that)\s+(?:results?|findings?|outcome)\s+(?:is|are)\s+needed\b",
        rf"\b{_RESULT}\s+(?:is|are)\s+needed\s+(?:for|to|before|by)\b",
        rf"\b{_ME}\s+(?:still\s+|also\s+|then\s+|will\s+)?needs?\b(?!\s+(?:no|none|nothing|neither)\b)",
        rf"{_OTHERS}\bneeds?\s+{_THE}{_RESULT}\b",
        rf"{_OTHERS}\bneeds?\s+.+\b(?:to|before\s+it\s+can)\s+(?:go\s+on|continue|proceed)\b",
    ),
    "wait waits waiting": (
        rf"\b{_ME}\s+(?:will\s+)?waits?\b",
        rf"{_OTHERS}\bwait(?:s|ing)?\s+for\s+{_THE}{_RESULT}\b",
    ),
    "before": (rf"\bbefore\b\s+(?!{_RECEIVER}\b).+\b(?:can|may|is\s+able\s+to)\b.*\b{_GO_ON}",),
    f"{_SENDER} caller sender calling asking previous me us": (
        rf"\b(?:return|report|go|come|hand|transfer)(?:s|es|ing)?\s+(?:\w+\s+){{0,2}}?to\s+{_ME}\b",
        rf"\b(?:tell|inform|notify|notifie|let)s?\s+{_ME}\b",
        rf"\bfor\s+{_ME}\s+to\s+{_THEN}",
    ),
}
"""The words of which a text must have one → the patterns to try then. Texts are in lower case, names are marked."""


def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One pattern of several, whose parts stand 160 characters apart at most: a long text costs by its length."""
    near = (one.replace(".*", ".{0,160}").replace(".+", ".{1,160}") for one in patterns)
    return re.compile("|".join(f"(?:{one})" for one in near))


_PATTERNS = {word: _compiled(patterns) for words, patterns in _NEEDS.items() for word in words.split()}
_SIGNS = str.maketrans(dict.fromkeys(".,;:!?()'\"/-\u2019\u2013\u2014\u2026", " "))
"""Signs that part words, as spaces."""
_NOT = re.compile(
    r"(?:\b(?:not|no|never|nobody|none|nothing|neither|nor|without|cannot|rather\s+than|instead\s+of)\b|n't\b)"
    r"(?:\s+[\w']+){0,4}\s*$"
)
"""A negation that still holds at the end of a clause's beginning."""
_NUMBER = re.compile(r"\d+")
_NOT_INSIDE = re.compile(r"\b(?:not|no|never|nothing|without|cannot)\b|n't\b")


def needs_result(text: str, sender: str = "", receiver: str = "") -> bool:
    """Whether a description says that the sender needs the result to go on: then it is a delegation."""
    text = _marked(_marked(text.lower(), receiver.lower(), _RECEIVER), sender.lower(), _SENDER)
    return _needed(_NUMBER.sub("0", text))


@lru_cache(maxsize=4096)
def _needed(text: str) -> bool:
    """The same of a text in lower case, with names marked: many edges say the same of other agents and numbers."""
    patterns = dict.fromkeys(_PATTERNS[word] for word in _words(text) if word in _PATTERNS)
    text = " ".join(text.split())
    return any(not _negated(text, found) for pattern in patterns for found in pattern.finditer(text))


def _words(text: str) -> list[str]:
    return text.translate(_SIGNS).split()


def _marked(text: str, name: str, mark: str) -> str:
    """A text with a mark wherever a name stands as a word of its own."""
    if not name or name not in text:
        return text
    before, _, after = text.partition(name)
    if name not in after and not (_is_inside(before[-1:]) or _is_inside(after[:1])):
        return f"{before}{mark}{after}"
    first, *rest = text.split(name)
    found = [first]
    for before, after in zip((first, *rest), rest, strict=False):
        inside = _is_inside(before[-1:]) or _is_inside(after[:1])
        found += [name if inside else mark, after]
    return "".join(found)


def _is_inside(character: str) -> bool:
    return character.isalnum() or character == "_"


def _negated(text: str, found: re.Match[str]) -> bool:
    """Whether a negation stands in the same clause, before the words or inside them."""
    before = re.split(r"[,;:.]", text[: found.start()])[-1]
    return _NOT.search(before) is not None or _NOT_INSIDE.search(found[0]) is not None


def word_findings(graph: Graph) -> Iterator[Finding]:
    """Findings about what stands in words at a transfer."""
    transfer = EdgeKind.TRANSFER
    for number, edge in enumerate(graph.edges):
        if edge.kind is not transfer:
            continue
        for name, text in (("because", edge.because), ("description", edge.description)):
            if text and needs_result(text, edge.source, edge.target):
                message = f"{edge.source} → {edge.target} is a transfer, and its {name} waits for a result: {text!r}."
                yield Finding(code="needs_result", message=message, where=("edges", number, name))
