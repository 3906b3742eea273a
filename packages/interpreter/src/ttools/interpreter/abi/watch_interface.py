"""Interface through which an observer receives the values of variables while a launch runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ttools.interpreter.abi.module import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Watch(Protocol):
    """An observer of watched variables. Its methods may be called from any thread.

    Attributes:
        table_address: The address of a table with one byte per program of the grid. The byte is not
            0 if the program is watched.
        takes_log: A function that receives the bytes of the access log, which the launch then
            discards. If None, the launch keeps the log.
    """

    table_address: int
    takes_log: Callable[[NDArray[Any]], None] | None

    def take(self, program: int, site: Site, payload: int) -> None:
        """Receive the value of a variable; `CallbackKind.WATCH` describes the payload."""
