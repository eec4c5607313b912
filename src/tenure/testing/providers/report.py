"""All rules without pytest, and what they show of a provider: for a review, a page, a look at a new system."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tenure.testing.providers.base import Rules
from tenure.testing.providers.bench import Bench, NotOffered
from tenure.testing.providers.case import OFFERED


class Found(StrEnum):
    """How a rule ended."""

    HELD = "held"
    BROKEN = "broken"
    NOT_OFFERED = "not offered"
    NOT_PROBED = "not probed"


class Finding(Struct, frozen=True):
    """One rule, with one choice of its parameters.

    Attributes:
        rule: name of its method. case: its parameters, in words. capability: what it shows; empty for all providers.
        words: what was wrong, or why it was not probed.
    """

    rule: str
    case: str
    capability: str
    found: Found
    words: str = ""


class Report(Struct, frozen=True):
    """What the rules have shown.

    Attributes:
        provider: its name. findings: one for each rule and choice of parameters.
    """

    provider: str
    findings: tuple[Finding, ...]

    @property
    def capabilities(self) -> Mapping[str, str]:
        """Each is ``shown``, ``shown in part``, ``not offered``, ``not probed``, or ``fails`` with the broken rules."""
        return {name: self._word(name) for name in OFFERED}

    @property
    def broken(self) -> tuple[str, ...]:
        """Names of the rules that do not hold, each once, sorted."""
        return tuple(sorted({each.rule for each in self.findings if each.found is Found.BROKEN}))

    def _word(self, capability: str) -> str:
        mine = [each for each in self.findings if each.capability == capability]
        broken = sorted({each.rule for each in mine if each.found is Found.BROKEN})
        if broken:
            return f"fails: {', '.join(broken)}"
        found = {each.found for each in mine}
        if Found.HELD in found:
            return "shown in part" if Found.NOT_PROBED in found else "shown"
        return str(Found.NOT_PROBED if Found.NOT_PROBED in found else Found.NOT_OFFERED)

    def __str__(self) -> str:
        """Lines of text: the capabilities, then what does not hold, then what was not probed."""
        lines = [f"{self.provider}: {len(self.findings)} probes"]
        lines += [f"  {name}: {word}" for name, word in self.capabilities.items()]
        for title, found in (("broken", Found.BROKEN), ("not probed", Found.NOT_PROBED)):
            lines += [
                f"{title}: {each.rule}{f' ({each.case})' if each.case else ''}: {each.words}"
                for each in self.findings
                if each.found is found
            ]
        return "\n".join(lines)


async def probe(rules: Rules) -> Report:
    """Run every rule of a suite, each on a bench of its own.

    Args:
        rules: an instance of the author's subclass of ``ProviderRules``.
    """
    findings = [await _probed(rules, name, chosen) for name in _names(rules) for chosen in _choices(rules, name)]
    async with _open(rules) as bench:
        return Report(bench.provider().name, tuple(findings))


@asynccontextmanager
async def _open(rules: Rules) -> AsyncIterator[Bench]:
    """A bench in an empty folder."""
    folder = await asyncio.to_thread(tempfile.mkdtemp)
    try:
        async with rules.open(Path(folder)) as bench:
            yield bench
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _probed(rules: Rules, name: str, chosen: Mapping[str, Any]) -> Finding:
    case = ", ".join(str(value) for value in chosen.values())
    capability = _capability(rules, name)
    try:
        async with _open(rules) as bench:
            rule: Callable[..., Awaitable[None]] = getattr(rules, name)
            await rule(bench, **chosen)
    except pytest.skip.Exception as reason:
        found = Found.NOT_OFFERED if isinstance(reason, NotOffered) else Found.NOT_PROBED
        return Finding(name, case, capability, found, str(reason))
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - a rule that breaks in any way does not hold
        words = str(error).partition("\n")[0]
        return Finding(name, case, capability, Found.BROKEN, f"{type(error).__name__}: {words}")
    return Finding(name, case, capability, Found.HELD)


def _names(rules: Rules) -> list[str]:
    return [name for name in dir(type(rules)) if name.startswith("test_")]


def _capability(rules: Rules, name: str) -> str:
    """Of the part of the suite that has the rule."""
    home = next(each for each in type(rules).__mro__ if name in vars(each))
    return str(getattr(home, "capability", ""))


def _choices(rules: Rules, name: str) -> Iterator[Mapping[str, Any]]:
    """Every choice of the parameters that the rule's marks give, as pytest makes them."""
    marks = [mark for mark in getattr(getattr(rules, name), "pytestmark", []) if mark.name == "parametrize"]
    spread = [[(mark.args[0], value) for value in mark.args[1]] for mark in marks]
    return (dict(chosen) for chosen in itertools.product(*spread))
