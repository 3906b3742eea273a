"""Observers of kernels that run as Python: one changes a kernel's source, and its code calls it.

A context variable holds the current observer.
"""

from __future__ import annotations

import ast
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol

from ttools.core.context_values import bound


class EagerObserver(Protocol):
    """Observes eager programs by calls that it puts into their source.

    The code that it adds finds it by calling `observer` of the module that the name `frames.MARK`
    stands for in a kernel's globals.
    """

    def instrument(self, function: ast.FunctionDef) -> None:
        """Change a function in place, alike for all observers of the same class."""


_observer: ContextVar[EagerObserver | None] = ContextVar("ttools_eager_observer", default=None)


def observer() -> EagerObserver | None:
    """Return the observer of the programs that run here."""
    return _observer.get()


def observing(one: EagerObserver) -> AbstractContextManager[None]:
    """Make one the observer of the programs that run meanwhile."""
    return bound(_observer, one)
