"""How a launch tells what its variables hold and what it accesses, while it runs.

The interface between `monitor` and whoever watches. Must not know what becomes of the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ttools.interpreter.abi.module import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Watch(Protocol):
    """Who takes the values of watched variables; any thread may call it.

    Attributes:
        table_address: of one byte per program of the grid, not 0 where it is watched.
        takes_log: takes the bytes of logged accesses, which are then not kept; None to keep them.
    """

    table_address: int
    takes_log: Callable[[NDArray[Any]], None] | None

    def take(self, program: int, site: Site, payload: int) -> None:
        """Takes a value; the payload is as `CallbackKind.WATCH` says."""
