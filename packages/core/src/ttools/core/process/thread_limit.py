"""Raises clear errors if the system cannot start a thread, for example because of `ulimit -u`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ttools.core.errors import UsageError

#: The remedy, for messages.
ADVICE = "raise the limit on processes and threads (`ulimit -u`)"


class ThreadLimitError(UsageError):
    """The system does not allow more threads for this user."""

    def __init__(self) -> None:
        super().__init__(f"no thread can be started; {ADVICE}")


def is_thread_limit(error: BaseException) -> bool:
    """Return whether an error means that Python could not start a thread."""
    return isinstance(error, RuntimeError) and "can't start new thread" in str(error)


@contextmanager
def starting_thread() -> Iterator[None]:
    """Raise a clear error if a thread cannot be started in the `with` block.

    Raises:
        ThreadLimitError: The system cannot start the thread.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_thread_limit(error):
            raise
        raise ThreadLimitError from None
