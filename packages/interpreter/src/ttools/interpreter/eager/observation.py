"""Observers of kernels that run as Python.

An `EagerObserver` inserts calls into the source of a kernel, and these calls report to it. An
`OperationObserver` is called after each operation of the builder. A context variable holds the
current observer of each kind.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Protocol

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


class OperationObserver(Protocol):
    """Follows the values of eager programs, operation by operation.

    Observed programs repeat an earlier launch, so they do not print. The observer may associate its
    own value with each result, in `Handle.shadow`.
    """

    def operation(self, name: str, arguments: Sequence[Any], result: Any) -> None:
        """Observe an operation that has been computed.

        Args:
            name: Name of the builder's method, such as `create_fadd`; `branch` if a value with a
                shadow decides a branch or the end of a loop.
            arguments: Arguments of the method. For `create_reduce` and `create_scan`, these are the
                operands, the axis, the combine function, and whether a scan is reversed.
            result: The method's result: a handle, a sequence of handles, or None.
        """


_observer: ContextVar[EagerObserver | None] = ContextVar("ttools_eager_observer", default=None)


def observer() -> EagerObserver | None:
    """Return the observer of the programs that run in this context."""
    return _observer.get()


def observing(one: EagerObserver) -> AbstractContextManager[None]:
    """Return a context in which `one` observes the programs that run."""
    return bound(_observer, one)


_operations: ContextVar[OperationObserver | None] = ContextVar(
    "ttools_operation_observer", default=None
)


def operation_observer() -> OperationObserver | None:
    """Return the observer of the operations of programs that start in this context."""
    return _operations.get()


def observing_operations(one: OperationObserver) -> AbstractContextManager[None]:
    """Return a context in which `one` observes the operations of the programs that run."""
    return bound(_operations, one)
