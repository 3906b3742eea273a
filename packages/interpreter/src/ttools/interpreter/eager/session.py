"""The environment of an eager program: its ids, its launch, and the semantic layer of operations.

One context variable holds the current session of a thread or asyncio task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ttools.core.errors import UsageError
from ttools.interpreter.eager.groups import OwnedElements
from ttools.interpreter.eager.memory import Memory

Program = tuple[int, int, int]


class Language(Protocol):
    """The names that kernels and eager values use; the module `language` implements them."""

    def wrap(self, value: Any, /) -> Any:
        """Return the object that an eager kernel uses in place of a global object or attribute."""

    def python_builtins(self, breakpoint: Callable[..., Any], /) -> dict[str, Any]:
        """Return the Python builtins that a kernel can use."""


@dataclass
class Session:
    """The state of a launch that its programs use, with the program that currently runs.

    Attributes:
        kernel: Name of the kernel.
        grid: Number of programs along each dimension.
        memory: Memory that the programs may access.
        options: Launch options, as the backend parsed them.
        codegen: Functions of the code generator that the backend supplies.
        language: Resolves the names that kernels use.
        program: Ids of the program that currently runs; for a group, the ids of its first program.
        group: The programs that currently run together; None if only one runs.
        owned: The elements that programs have accessed, if programs run in groups.
        largest: Number of elements of the largest value so far, if operations are observed.
        semantic: Triton's semantic layer. It calls the eager builder, or MLIR's builder while the
            combine function of a reduction or scan is compiled.
        iteration: Identifies the current iteration of the innermost running loop.
    """

    kernel: str
    grid: Program
    memory: Memory
    options: Any
    codegen: Any
    language: Language
    program: Program = (0, 0, 0)
    semantic: Any = None
    iteration: object = None
    group: Sequence[Program] | None = None
    owned: OwnedElements | None = None
    largest: int = 0

    @property
    def place(self) -> str:
        """The name of the kernel and the current program, for messages."""
        return f"kernel `{self.kernel}`, program {self.program}"

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The linear numbers of the programs that currently run."""
        width, height, _ = self.grid
        x, y, z = np.array(self.group or [self.program], np.int64).T
        return np.asarray(x + width * (y + height * z))


_current: ContextVar[Session | None] = ContextVar("ttools_eager_session", default=None)
_failed: list[Session] = []


def current() -> Session:
    """Return the current session.

    Raises:
        UsageError: No session is active.
    """
    session = _current.get()
    if session is None:
        raise UsageError(
            "no eager program is running: eager values can be used only inside a program such as "
            "`with eager_program(pid=(0,), grid=(1,)):`"
        )
    return session


def is_active() -> bool:
    """Return whether an eager program is running in this context."""
    return _current.get() is not None


@contextmanager
def running(session: Session) -> Iterator[Session]:
    """Make a session the current one."""
    token = _current.set(session)
    try:
        yield session
    except BaseException:
        _failed[:] = [session]
        raise
    finally:
        _current.reset(token)


@contextmanager
def failed_session() -> Iterator[None]:
    """Make the last session that failed the current one, so that its state can be examined."""
    token = _current.set(_failed[0] if _failed else None)
    try:
        yield
    finally:
        _current.reset(token)
        forget_failure()


def forget_failure() -> None:
    """Free the last session that failed, because no debugger will inspect it any more."""
    _failed.clear()


@contextmanager
def meaning(session: Session, semantic: Any) -> Iterator[None]:
    """Replace the semantic layer of a session while the context is active."""
    before, session.semantic = session.semantic, semantic
    try:
        yield
    finally:
        session.semantic = before
