"""Data types for layouts of TTGIR, and for the distribution of elements over threads."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

Coordinates = tuple[int, ...]
#: An integer, or an array of integers.
Index = Any


@dataclass(frozen=True)
class Layout:
    """A named layout in TTGIR.

    Attributes:
        name: Name in TTGIR, such as `#blocked1`.
        kind: `blocked`, `slice`, `nvidia_mma`, `linear`, ….
        text: Parameters as written in TTGIR.
        parent: For an operand of a dot product (`dot_op`), the layout of the product.
    """

    name: str
    kind: str
    text: str
    parent: Layout | None = None

    def numbers(self, field: str) -> list[int]:
        """Return a parameter that is a list of numbers, by its name; empty if it is missing."""
        match = re.search(rf"\b{field} = \[([\d, ]*)\]", self.text)
        return [int(n) for n in match[1].split(",")] if match and match[1].strip() else []

    def number(self, field: str, default: int) -> int:
        """Return a parameter that is a number, by its name, or the default if it is missing."""
        match = re.search(rf"\b{field} = (\d+)", self.text)
        return int(match[1]) if match else default

    def flag(self, field: str) -> bool:
        """Return whether a Boolean parameter is true."""
        return bool(re.search(rf"\b{field} = true", self.text))

    def bases(self, field: str) -> list[Coordinates]:
        """Return the basis vectors of a linear layout for one input, such as `warp`."""
        match = re.search(rf"\b{field} = \[((?:\[[-\d, ]*\],? ?)*)\]", self.text)
        rows = re.findall(r"\[([-\d, ]*)\]", match[1]) if match else []
        return [tuple(int(n) for n in row.split(",")) for row in rows]


@dataclass(frozen=True)
class Holder:
    """The distribution of a tile's elements over registers, lanes and warps.

    Attributes:
        shape: Extents of the tile.
        registers: Elements per thread, including replicated ones.
        lanes: Number of lanes per warp.
        warps: Number of warps per block.
        at: Function that maps register, lane and warp to the coordinates of an element. For
            arguments that are arrays, each coordinate is an array.
    """

    shape: tuple[int, ...]
    registers: int
    lanes: int
    warps: int
    at: Callable[[Index, Index, Index], tuple[Any, ...]]

    def elements(self, thread: int) -> list[Coordinates]:
        """Return the elements that a thread of the block holds, by register."""
        warp, lane = divmod(thread, self.lanes)
        return [self.at(register, lane, warp) for register in range(self.registers)]

    def threads_of(self, element: Coordinates) -> list[int]:
        """Return the threads that hold an element; several if it is replicated."""
        return [
            warp * self.lanes + lane
            for warp, lane in product(range(self.warps), range(self.lanes))
            if any(self.at(r, lane, warp) == element for r in range(self.registers))
        ]

    def contiguous(self) -> tuple[int, int]:
        """Return the axis of the longest contiguous run in a thread, and the length of the run."""
        elements = self.elements(0)
        best = (len(self.shape) - 1, 1)
        for axis in range(len(self.shape)):
            run = 1
            while run < len(elements) and elements[run] == moved(elements[0], axis, run):
                run += 1
            best = max(best, (axis, run), key=lambda pair: pair[1])
        return best


def moved(element: Coordinates, axis: int, by: int) -> Coordinates:
    """Return coordinates moved along an axis."""
    return tuple(n + by * (d == axis) for d, n in enumerate(element))


def delinearised(index: Index, extents: Sequence[int], order: Sequence[int]) -> tuple[Any, ...]:
    """Convert a linear index to coordinates; the axis `order[0]` varies fastest."""
    coordinates: list[Any] = [0] * len(extents)
    for axis in order:
        index, coordinates[axis] = divmod(index, extents[axis])
    return tuple(coordinates)
