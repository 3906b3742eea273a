"""The unwritten memory of a launch, in the form in which its kernel reads it.

It consists of the memory of parameters that the kernel may read and, if the kernel follows pointers
that it loads, of storages whose address the program has taken. If there is any such memory, the
kernel also keeps shadows of the memory to which it may copy unwritten elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ttools.core.spec import view_spec
from ttools.interpreter.abi.region import Region
from ttools.interpreter.run.address_book import AddressBook
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.sanitizer.memory.launch_state import tensors_among
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory
from ttools.sanitizer.memory.unwritten_elements import Missing, marked_elements
from ttools.sanitizer.passes.shadow_memory import ROW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ttools.sanitizer.memory.pattern import Bytes

_Extent = tuple[int, int]

#: Findings do not list the unwritten elements of storages of more bytes than this, because that
#: would take too long.
_LARGEST_NAMED = 1 << 26


class ArgumentShadows:
    """The shadows of one launch.

    Args:
        launch: The launch that is about to run.
        regions: The memory of each parameter.
        memory: The record of bytes that were never written.
        book: The addresses that have occurred in this run so far.
        reads: The parameters through which the kernel may read memory.
        follows_addresses: If True, the kernel accesses memory by pointers that it loads or
            computes.

    Attributes:
        sources: Parameters whose storages have unwritten bytes that the kernel may read.
        tracked: `sources`, and the parameters whose storages may receive copies of such bytes; the
            kernel keeps the shadows of all of them.
        by_address: True if the kernel may also access storages with unwritten bytes through
            pointers that are not parameters.
    """

    def __init__(
        self,
        launch: KernelLaunch,
        regions: Sequence[Region],
        memory: UninitialisedMemory,
        book: AddressBook,
        *,
        reads: frozenset[int],
        follows_addresses: bool,
    ) -> None:
        self._regions, self._memory = regions, memory
        self._arguments = launch.arguments
        shadows = self._of_parameters(launch, reads)
        self._others = self._elsewhere(book, shadows) if follows_addresses else []
        self.by_address = bool(self._others)
        #: The storages whose shadows the kernel keeps.
        self.kept = {start for start, _ in shadows} | {extent[0] for extent, _ in self._others}
        # This includes parameters that the kernel only stores through if they share such a storage.
        self.sources = self._sharing(shadows)
        if shadows or self._others:
            self._add_carriers(launch, shadows)
        self._own = {index: shadows[regions[index].storage] for index in self._sharing(shadows)}
        self.tracked = frozenset(self._own)
        self._table = _table_of(self._others) if self._others else None

    def _sharing(self, shadows: dict[_Extent, Bytes]) -> frozenset[int]:
        """Return the parameters whose storages have a shadow."""
        return frozenset(n for n, region in enumerate(self._regions) if region.storage in shadows)

    def _add_carriers(self, launch: KernelLaunch, shadows: dict[_Extent, Bytes]) -> None:
        """Add the shadows of watched storages to which the kernel may store copies."""
        for index in launch.kernel.variants.effects.written:
            start, end = self._regions[index].storage
            if start < end and (start, end) not in shadows and start not in self.kept:
                shadow = self._memory.carrier_shadow(start, end - start)
                if shadow is not None:
                    shadows[start, end] = shadow
                    self.kept.add(start)

    def _of_parameters(self, launch: KernelLaunch, reads: frozenset[int]) -> dict[_Extent, Bytes]:
        """Return the shadows of storages that the kernel may read through parameters."""
        shadows: dict[_Extent, Bytes] = {}
        for index in reads:
            start, end = self._regions[index].storage
            if start < end and (start, end) not in shadows:
                shadow = self._memory.shadow_for(start, end - start)
                if shadow is not None:
                    shadows[start, end] = shadow
        return shadows

    def _elsewhere(
        self, book: AddressBook, shadows: dict[_Extent, Bytes]
    ) -> list[tuple[_Extent, Bytes]]:
        """Return the shadows of storages whose address was taken, other than those in `shadows`."""
        loose = []
        for start, end in book.live():
            if (start, end) not in shadows and self._memory.is_watched(start):
                shadow = self._memory.shadow_for(start, end - start)
                if shadow is not None:
                    loose.append(((start, end), shadow))
        return loose

    def unwritten(self, index: int) -> tuple[str, ...]:
        """Describe the elements of an argument that were unwritten before the launch, if known.

        Args:
            index: The index of the parameter, or -1.
        """
        shadow = self._own.get(index)
        if shadow is None or len(shadow) > _LARGEST_NAMED:
            return ()
        tensor = next(iter(tensors_among([self._arguments[index]])), None)
        if not hasattr(tensor, "untyped_storage"):
            return ()
        view = view_spec(tensor)
        if view.span[1] > len(shadow):
            return ()
        missing = Missing.of(marked_elements(view, shadow.view(np.bool_)))
        if not missing.count:
            return ()
        if missing.count == missing.total:
            return ("none of its elements had been written",)
        first, *more = missing.sentences()
        return f"never written: {first}", *more

    def hidden(self, parameters: Sequence[tuple[int, str]]) -> list[int]:
        """Return the values of hidden parameters; see `shadow_memory.hidden_parameters`."""
        return [self._value(index, name) for index, name in parameters]

    def _value(self, index: int, name: str) -> int:
        if index < 0:
            assert self._table is not None
            return self._table.ctypes.data if name == "table" else len(self._others)
        start, end = self._regions[index].storage
        if name == "shadow":
            return int(self._own[index].ctypes.data)
        return start if name == "start" else end - start


def _table_of(storages: Sequence[tuple[_Extent, Bytes]]) -> NDArray[np.int64]:
    """Return the table from which the kernel finds storages by address; see `shadow_memory.ROW`."""
    table = np.zeros((len(storages), ROW), np.int64)
    for row, ((start, end), shadow) in zip(table, storages, strict=True):
        row[:] = start, end - start, shadow.ctypes.data - table.ctypes.data
    return table
