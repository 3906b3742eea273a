"""The memory that a run knows: arguments, tensors whose address was taken, foreign memory.

Pointers that kernels load from memory are checked against this memory. Programs fill tables of
addresses with `Tensor.data_ptr()`, which is observed while a run is active.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.device_map.memory import on_host
from ttools.interpreter.abi.region import Region
from ttools.interpreter.run.address_book import AddressBook

#: Addresses within this distance, in bytes, of a tensor are described relative to the tensor.
_NEAR = 1 << 20


class Addresses:
    """The memory that is known during one launch."""

    def __init__(self, regions: Sequence[Region], book: AddressBook) -> None:
        self._regions = regions
        self._book = book

    def allocations(self) -> list[tuple[int, int]]:
        """Return all memory to which a pointer of unknown origin may point."""
        own = [region.storage for region in self._regions if region.storage[1]]
        return sorted({*own, *self._book.live()})

    def on_host(self) -> list[tuple[int, int]]:
        """Return all host memory that the launch may reach, as non-overlapping ranges."""
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
        """Return the parameter in whose storage an address lies.

        Args:
            through: The parameter from which the access derives, or -1; it is preferred to other
                parameters that share its storage.
        """
        if through >= 0 and self._holds(through, address):
            return through
        return next((n for n in range(len(self._regions)) if self._holds(n, address)), None)

    def nearest(self, address: int, parameters: Sequence[int]) -> int | None:
        """Return the parameter whose storage is nearest to an address; None if none is near."""

        def distance(parameter: int) -> int:
            start, end = self._regions[parameter].storage
            return max(start - address, address - end, 0)

        best = min(parameters, key=distance, default=None)
        return best if best is not None and distance(best) < _NEAR else None

    def _holds(self, parameter: int, address: int) -> bool:
        start, end = self._regions[parameter].storage
        return start <= address < end

    def around(self, address: int) -> tuple[int, int] | None:
        """Return the start and end of the smallest known storage that contains an address."""
        around = [
            (low, high) for low, high in self.allocations() if low <= address < high < 1 << 63
        ]
        return min(around, key=lambda extent: extent[1] - extent[0], default=None)

    def start(self, parameter: int) -> int:
        """Return the first address of the storage of a parameter."""
        return self._regions[parameter].storage[0]

    def freed(self, address: int) -> str | None:
        return self._book.freed(address)

    def near(self, address: int) -> str | None:
        """Describe how far an address lies past or before the nearest tensor; None without one."""
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


Range = tuple[int, int]
_Numbers = NDArray[np.uint64]

#: The range of addresses at which a process may have memory.
_LOWEST, _HIGHEST = 1 << 16, 1 << 47
#: Maximum number of elements of a tensor that are examined.
_MOST = 1 << 20


def foreign_memory(
    values: Iterable[Any], known: Sequence[Range], freed: Callable[[int], object]
) -> list[Range]:
    """Return memory whose addresses are passed to a launch but that torch did not allocate.

    Such memory belongs to NumPy, to a library or to a memory mapping, and its bounds are unknown. A
    launch may access it from the given address up to the next known memory or the end of the
    mapping.

    Args:
        values: The arguments; integers and tensors on the host may hold addresses, even inside
            tuples.
        known: Start and end of the memory whose bounds are known.
        freed: Describes what was at a freed address; None if the address was not freed.
    """
    candidates = [_addresses(value) for value in values]
    addresses = np.unique(np.concatenate([*candidates, np.zeros(0, np.uint64)]))
    if not addresses.size:
        return []
    mapped = _mapped()
    ranges: list[Range] = []
    for address in map(int, addresses):
        if any(start <= address < end for start, end in known) or freed(address):
            continue
        around = next((end for start, end in mapped if start <= address < end), None)
        if around is not None and (not ranges or ranges[-1][1] <= address):
            following = (start for start, _ in known if start > address)
            ranges.append((address, min([around, *following])))
    return ranges


def _addresses(value: Any) -> _Numbers:
    """Return the numbers in an argument that may be addresses."""
    if isinstance(value, (list, tuple)):
        return np.concatenate([np.zeros(0, np.uint64), *map(_addresses, value)])
    elements = np.zeros(0, np.uint64)
    if isinstance(value, int):
        elements = np.array([value] if 0 <= value < _HIGHEST else [], np.uint64)
    elif isinstance(value, np.ndarray) and value.dtype.str[1:] in ("i8", "u8"):
        elements = value.reshape(-1)[:_MOST].view(np.uint64)
    elif str(getattr(value, "dtype", "")) in ("torch.int64", "torch.uint64") and on_host(value):
        elements = value.detach().reshape(-1)[:_MOST].cpu().numpy().view(np.uint64)
    return elements[(elements >= _LOWEST) & (elements < _HIGHEST)]


def _mapped() -> list[Range]:
    """Return the address ranges that this process can read; adjacent ranges are joined."""
    united: list[Range] = []
    for line in Path("/proc/self/maps").read_text("utf-8", errors="replace").splitlines():
        ends, permissions = line.split(maxsplit=2)[:2]
        if permissions[0] != "r":
            continue
        start, end = (int(end, 16) for end in ends.split("-"))
        if united and united[-1][1] == start:
            united[-1] = united[-1][0], end
        else:
            united.append((start, end))
    return united
