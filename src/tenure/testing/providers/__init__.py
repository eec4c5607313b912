"""The conformance suite of providers: what a provider declares is probed on its system, not believed.

::

    class TestMyProvider(ProviderRules):
        def open(self, folder: Path) -> Bench:
            return MyBench(folder)

A :class:`Bench` gives providers, requests, the truth about the system, and faults; see it for what is needed. Needs
pytest with pytest-asyncio in auto mode; :func:`probe` runs the same rules by itself and gives a :class:`Report`.
The time is real, and every wait is the bench's to set.
"""

from __future__ import annotations

from tenure.testing.providers.applying import ApplyRules
from tenure.testing.providers.bench import Bench, Fault, NotOffered, NotProbed, Struck
from tenure.testing.providers.cancelling import CancelRules
from tenure.testing.providers.declaring import DeclarationRules
from tenure.testing.providers.looking import LookupRules
from tenure.testing.providers.repeating import IdempotencyRules
from tenure.testing.providers.report import Found, Report, probe
from tenure.testing.providers.sealing import SealRules
from tenure.testing.providers.undoing import CompensationRules, RepeatedUndoingRules, UndoingLookupRules

__all__ = ["Bench", "Fault", "Found", "NotOffered", "NotProbed", "ProviderRules", "Report", "Struck", "probe"]


class ProviderRules(
    DeclarationRules,
    ApplyRules,
    IdempotencyRules,
    LookupRules,
    SealRules,
    CancelRules,
    CompensationRules,
    RepeatedUndoingRules,
    UndoingLookupRules,
):
    """All rules. Override ``open``."""
