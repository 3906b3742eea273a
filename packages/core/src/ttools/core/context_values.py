"""Values of context variables that hold for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def bound(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Gives a context variable a value meanwhile."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
