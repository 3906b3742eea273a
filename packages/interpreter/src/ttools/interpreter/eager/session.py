"""What an eager program runs in: its ids, its launch, and the layer that gives operations meaning.

Owns the one variable that says which session is current in this thread of control. Must not know
what operations do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from ttools.core.errors import UsageError
from ttools.interpreter.eager.memory import Memory

Program = tuple[int, int, int]


class Language(Protocol):
    """What the names of kernels stand for; the values themselves ask for it too."""

    def wrap(self, value: Any, /) -> Any:
        """What an eager kernel gets for something that its code names."""

    def python_builtins(self, breakpoint: Callable[..., Any], /) -> dict[str, Any]:
        """Python's own builtins as a kernel finds them."""


@dataclass
class Session:
    """A launch as its programs see it.

    Attributes:
        grid: how many programs there are along each dimension.
        memory: what they may access.
        options: the launch options, as the backend parsed them.
        codegen: what the front end leaves to the backend.
        language: what names stand for.
        semantic: Triton's semantic layer over the eager builder, or over MLIR's own while a
            combine function is written down.
        iteration: tells the iterations of loops apart, of the innermost loop that runs here.
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

    @property
    def place(self) -> str:
        """The program, for messages."""
        return f"kernel `{self.kernel}`, program {self.program}"


_current: ContextVar[Session | None] = ContextVar("ttools_eager_session", default=None)
_failed: list[Session] = []


def current() -> Session:
    """The session that runs here.

    Raises:
        UsageError: none does.
    """
    session = _current.get()
    if session is None:
        raise UsageError(
            "no eager program runs here: values of one may only be computed with while it runs; "
            "open one with `with eager_program(pid=(0,), grid=(1,)):`"
        )
    return session


def is_active() -> bool:
    """Whether an eager program runs here."""
    return _current.get() is not None


@contextmanager
def running(session: Session) -> Iterator[Session]:
    """Makes a session the current one."""
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
    """Makes the session that failed last the current one, to look at what is left of it."""
    token = _current.set(_failed[0] if _failed else None)
    try:
        yield
    finally:
        _current.reset(token)
        forget_failure()


def forget_failure() -> None:
    """Frees the session that failed last, which will not be looked at."""
    _failed.clear()


@contextmanager
def meaning(session: Session, semantic: Any) -> Iterator[None]:
    """Replaces the semantic layer of a session for a while."""
    before, session.semantic = session.semantic, semantic
    try:
        yield
    finally:
        session.semantic = before
