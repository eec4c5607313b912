"""What every part of the suite has: a bench that is opened for each rule."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

import pytest

from tenure.testing.providers.bench import Bench


class Rules:
    """Base of the parts of the suite.

    Attributes:
        capability: what the rules of this part show, a key of ``OFFERED``; empty when they are for every provider.
    """

    capability: ClassVar[str] = ""

    def open(self, folder: Path) -> Bench:
        """Make the bench, in an empty folder. It is entered before a rule and left after it."""
        raise NotImplementedError

    @pytest.fixture
    async def bench(self, tmp_path: Path) -> AsyncIterator[Bench]:
        """The outside system."""
        async with self.open(tmp_path) as bench:
            yield bench
