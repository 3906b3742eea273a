"""The memory that a run knows of: arguments, and tensors whose address was taken.

Pointers that kernels load from memory are checked against it: a table of addresses is made with
`Tensor.data_ptr()`, which is watched while a run is active.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttools.interpreter.abi.region import Region
from ttools.interpreter.run.address_book import AddressBook

#: An address this near to known memory is described by the distance, in bytes.
_NEAR = 1 << 20


class Addresses:
    """What is known of addresses during one launch."""

    def __init__(self, regions: Sequence[Region], book: AddressBook) -> None:
        self._regions = regions
        self._book = book

    def allocations(self) -> list[tuple[int, int]]:
        """All memory that a pointer of unknown origin may lead to."""
        own = [region.storage for region in self._regions if region.storage[1]]
        return sorted({*own, *self._book.live()})

    def on_host(self) -> list[tuple[int, int]]:
        """All memory of the host that the launch may lead to, in ranges that do not overlap."""
        own = [region.storage for region in self._regions if region.storage[1] < 1 << 63]
        ranges = sorted({*own, *((start, end) for start, end, _ in self._book.on_host())})
        united: list[tuple[int, int]] = []
        for start, end in ranges:
            if united and start < united[-1][1]:
                united[-1] = united[-1][0], max(end, united[-1][1])
            elif start < end:
                united.append((start, end))
        return united

    def owner(self, address: int, *, through: int = -1) -> int | None:
        """The parameter in whose storage an address lies.

        Args:
            through: the parameter that an access derives from, or -1; it comes before others that
                share its storage.
        """
        if through >= 0 and self._holds(through, address):
            return through
        return next((n for n in range(len(self._regions)) if self._holds(n, address)), None)

    def nearest(self, address: int, parameters: Sequence[int]) -> int | None:
        """The parameter whose storage is nearest to an address; None if none is near."""

        def distance(parameter: int) -> int:
            start, end = self._regions[parameter].storage
            return max(start - address, address - end, 0)

        best = min(parameters, key=distance, default=None)
        return best if best is not None and distance(best) < _NEAR else None

    def _holds(self, parameter: int, address: int) -> bool:
        start, end = self._regions[parameter].storage
        return start <= address < end

    def around(self, address: int) -> tuple[int, int] | None:
        """First address and end of the storage that an address lies in, if it is known."""
        known = [(low, high) for low, high in self.allocations() if low <= address < high < 1 << 63]
        return min(known, key=lambda each: each[1] - each[0], default=None)

    def start(self, parameter: int) -> int:
        """The first address of the storage of a parameter."""
        return self._regions[parameter].storage[0]

    def freed(self, address: int) -> str | None:
        return self._book.freed(address)

    def near(self, address: int) -> str | None:
        """How far an address lies behind or before known memory."""
        best: tuple[int, str] | None = None
        for start, end in self.allocations():
            behind = address >= end
            distance = address - end if behind else start - address
            if 0 <= distance < _NEAR and (best is None or distance < best[0]):
                where = f"{distance:,} bytes {'past' if behind else 'before'}"
                where = "at" if behind and not distance else where
                edge = "end" if behind else "beginning"
                text = f"is {where} the {edge} of a tensor of {end - start:,} bytes"
                best = distance, text
        return best[1] if best else None
