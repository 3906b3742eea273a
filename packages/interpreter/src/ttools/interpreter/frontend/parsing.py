"""Makes compilation in several threads safe on Python versions whose parser is not thread-safe.

Triton parses each kernel with `ast.parse`. In Python 3.11 before 3.11.8 and 3.12 before 3.12.2, all
threads share the parser's counter of the recursion depth. If two threads parse at the same time,
`ast.parse` fails with `SystemError: AST constructor recursion depth mismatch`
(https://github.com/python/cpython/issues/106905).
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
    """Make Triton parse under a lock if this Python has the defect.

    Further calls have no effect.
    """
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
