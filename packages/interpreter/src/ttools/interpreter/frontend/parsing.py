"""Concurrent compilation on Python versions whose parser cannot run in two threads.

Before 3.11.8 and 3.12.2 `ast.parse` counts its depth for all threads together and fails with
`SystemError: AST constructor recursion depth mismatch` if threads use it at the same time
(https://github.com/python/cpython/issues/106905). Triton parses each kernel with it.
"""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any

_parsing = threading.RLock()


def is_affected(version: tuple[int, ...]) -> bool:
    """Return whether a Python version has the defect."""
    return (3, 11) <= version < (3, 11, 8) or (3, 12) <= version < (3, 12, 2)


def parse_one_by_one() -> None:
    """Make Triton parse under a lock where Python needs it; calling this again has no effect."""
    from triton.runtime.jit import JITFunction

    owner: Any = next(base for base in JITFunction.__mro__ if "parse" in vars(base))
    parse = owner.parse
    if not is_affected(sys.version_info[:3]) or hasattr(parse, "__wrapped__"):
        return

    @functools.wraps(parse)
    def locked(self: Any) -> Any:
        with _parsing:
            return parse(self)

    owner.parse = locked
