"""Observes torch operators that run inside operators which a program registers in Python.

Torch's dispatch modes observe the call of a custom operator, but are disabled while it runs. They
are therefore enabled again inside it, to distinguish an operator that launches kernels from one
that computes with torch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import torch

#: Qualified names, without overloads, of the operators inside which operators are observed.
_names: set[str] = set()
#: Function that starts to observe the operators inside the custom operator that is being called.
_watch: ContextVar[Callable[[], AbstractContextManager[Any]] | None] = ContextVar(
    "ttools_watch", default=None
)


def follow() -> None:
    """From now on, keep track of the operators that are registered in this process."""
    impl: Callable[..., Any] = torch.library.Library.impl

    def followed(self: Any, op_name: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        if callable(fn) and fn is not torch.library.fallthrough_kernel:
            name = op_name if isinstance(op_name, str) else op_name._schema.name
            name = name if "::" in name else f"{self.ns}::{name}"
            if not name.startswith("aten::"):
                _names.add(name.partition(".")[0])
                fn = _entered(fn)
        return impl(self, op_name, fn, *args, **kwargs)

    torch.library.Library.impl = followed  # type: ignore[method-assign]


def is_followed(operator: str) -> bool:
    """Return whether the operators that run inside an operator are observed.

    Args:
        operator: Qualified name of the operator.
    """
    return operator in _names


@contextmanager
def looking_inside(watch: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Observe the operators inside the custom operators that are called in this context.

    Args:
        watch: Creates a context manager that observes torch operators.
    """
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def _entered(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        watch = _watch.get()
        if watch is None:
            return function(*args, **kwargs)
        token = _watch.set(None)
        try:
            with watch():
                return function(*args, **kwargs)
        finally:
            _watch.reset(token)

    return run
