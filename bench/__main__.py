"""``python -m bench``: the subjects; ``python -m bench SUBJECT --json``: one of them.

A subject is a package or module beside this one with ``SUMMARY``, a line of text, and ``main(arguments) -> exit code``.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from types import ModuleType

import bench


def subjects() -> dict[str, ModuleType]:
    """Every subject by its name."""
    modules = (
        importlib.import_module(f"bench.{found.name}")
        for found in pkgutil.iter_modules(bench.__path__)
        if found.name != "__main__"
    )
    return {module.__name__.removeprefix("bench."): module for module in modules if hasattr(module, "SUMMARY")}


def main(arguments: list[str]) -> int:
    """Run the subject that the first argument names, or list all of them."""
    found = subjects()
    if arguments and arguments[0] in found:
        return int(found[arguments[0]].main(arguments[1:]))
    wrong = bool(arguments) and arguments[0] not in ("-h", "--help")
    out = sys.stderr if wrong else sys.stdout
    if wrong:
        print(f"There is no subject {arguments[0]!r}.", file=out)
    print("Usage: python -m bench SUBJECT [--json] [--quick] [--only NAME]\n\nSubjects:", file=out)
    for name, module in found.items():
        print(f"  {name:12} {module.SUMMARY}", file=out)
    return 2 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
