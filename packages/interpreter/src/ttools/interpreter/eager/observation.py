"""Observers of kernels that run as Python.

An observer inserts calls into the source of a kernel, and these calls report to the observer. A
context variable holds the current observer.
"""

from __future__ import annotations

import ast
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol

from ttools.core.context_values import bound


class EagerObserver(Protocol):
    """Observes eager programs by calls that it inserts into their source.

    An inserted call finds the observer by the function `observer` of the module `control`, which
    a kernel's globals contain under the name `frames.MARK`.
    """

    def instrument(self, function: ast.FunctionDef) -> None:
        """Insert calls into a function, in place.

        Observers of the same class must insert the same calls, because they share the result.
        """


_observer: ContextVar[EagerObserver | None] = ContextVar("ttools_eager_observer", default=None)


def observer() -> EagerObserver | None:
    """Return the observer of the programs that run in this context."""
    return _observer.get()


def observing(one: EagerObserver) -> AbstractContextManager[None]:
    """Return a context in which `one` observes the programs that run."""
    return bound(_observer, one)
