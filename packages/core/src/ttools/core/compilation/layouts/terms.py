"""What a layout of TTGIR is, and who holds what by it: the terms in which layouts are evaluated.

Must not know any kind of layout.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

Coordinates = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """A layout that TTGIR names.

    Attributes:
        name: `#blocked1`.
        kind: `blocked`, `slice`, `nvidia_mma`, `linear`, ….
        text: its parameters as written.
        parent: the layout of the product whose operand has this one (`dot_op`).
    """

    name: str
    kind: str
    text: str
    parent: Layout | None = None

    def numbers(self, field: str) -> list[int]:
        """A list of numbers among the parameters; empty if there is none."""
        found = re.search(rf"\b{field} = \[([\d, ]*)\]", self.text)
        return [int(n) for n in found[1].split(",")] if found and found[1].strip() else []

    def number(self, field: str, default: int) -> int:
        """A number among the parameters."""
        found = re.search(rf"\b{field} = (\d+)", self.text)
        return int(found[1]) if found else default

    def flag(self, field: str) -> bool:
        """Whether a truth value among the parameters is true."""
        return bool(re.search(rf"\b{field} = true", self.text))

    def bases(self, field: str) -> list[Coordinates]:
        """The basis vectors of one input of a linear layout."""
        found = re.search(rf"\b{field} = \[((?:\[[-\d, ]*\],? ?)*)\]", self.text)
        rows = re.findall(r"\[([-\d, ]*)\]", found[1]) if found else []
        return [tuple(int(n) for n in row.split(",")) for row in rows]


@dataclass(frozen=True)
class Holder:
    """The elements of a tile by register, lane and warp.

    Attributes:
        shape: of the tile.
        registers: of a thread; elements that it holds, copies included.
        lanes: of a warp.
        warps: of a block.
        at: the coordinates of the element in a register of a lane of a warp.
    """

    shape: tuple[int, ...]
    registers: int
    lanes: int
    warps: int
    at: Callable[[int, int, int], Coordinates]

    def elements(self, thread: int) -> list[Coordinates]:
        """What a thread of the block holds, by register."""
        warp, lane = divmod(thread, self.lanes)
        return [self.at(register, lane, warp) for register in range(self.registers)]

    def threads_of(self, element: Coordinates) -> list[int]:
        """The threads that hold an element; several where it is replicated."""
        return [
            warp * self.lanes + lane
            for warp, lane in product(range(self.warps), range(self.lanes))
            if any(self.at(r, lane, warp) == element for r in range(self.registers))
        ]

    def contiguous(self) -> tuple[int, int]:
        """The axis along which a thread's elements lie side by side, and how many do."""
        elements = self.elements(0)
        best = (len(self.shape) - 1, 1)
        for axis in range(len(self.shape)):
            run = 1
            while run < len(elements) and elements[run] == moved(elements[0], axis, run):
                run += 1
            best = max(best, (axis, run), key=lambda pair: pair[1])
        return best


def moved(element: Coordinates, axis: int, by: int) -> Coordinates:
    """The coordinates some steps along an axis."""
    return tuple(n + by * (d == axis) for d, n in enumerate(element))


def delinearised(index: int, extents: Sequence[int], order: Sequence[int]) -> Coordinates:
    """Coordinates of an index that counts along `order[0]` first."""
    found = [0] * len(extents)
    for axis in order:
        index, found[axis] = divmod(index, extents[axis])
    return tuple(found)
