"""Fills a row-major slot with values whose loads are contiguous along an axis other than the last.

A square of chunks is computed along that axis, transposed in registers, and written along the last
axis, so that neither the loads nor the stores are scattered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import SSAValue
from ttools.interpreter.tiles.chunk import ANY_DIVISOR, ZERO, Axis, Coords
from ttools.interpreter.tiles.integers import Integers
from ttools.interpreter.tiles.loops import Loop
from ttools.interpreter.tiles.slot import Slot


def can_transpose(slot: Slot, axis: int, lanes: int) -> bool:
    """Return whether the axis and the last axis are both long enough for a square of chunks."""
    return min(slot.shape[axis], slot.shape[-1]) >= min(lanes, 8)


def fill_transposed(
    integers: Integers,
    slot: Slot,
    axis: int,
    lanes: int,
    stored_at: Callable[[Coords], SSAValue],
    address_of: Callable[[Coords], SSAValue],
) -> None:
    """Fill a slot with chunks that are computed along an axis other than the last.

    Args:
        integers: Emits the index arithmetic.
        axis: The axis along which chunks are computed.
        lanes: The largest number of lanes of a chunk.
        stored_at: Emits a chunk, converted to the slot's representation.
        address_of: Emits the address of the first lane of a chunk in the slot.
    """
    b, last = integers.b, len(slot.shape) - 1
    size = min(lanes, slot.shape[axis], slot.shape[last])
    still = (0,) * size
    along = tuple(range(size))
    loops: list[Loop] = []
    bases = []
    for k, extent in enumerate(slot.shape):
        step = size if k in (axis, last) else 1
        if extent > step:
            loops.append(Loop(b, extent, step))
            bases.append(loops[-1].index)
        else:
            bases.append(ZERO)

    def coords(fast: int, slow: int, position: int) -> Coords:
        """Return the coordinates of a row or column of the current square.

        Args:
            fast: The axis along which the lanes of the row or column lie.
            slow: The other axis of the square.
            position: The position of the row or column along the other axis.
        """
        axes = []
        for k, base in enumerate(bases):
            divisor = ANY_DIVISOR if base == "0" else size
            if k == fast:
                axes.append(Axis(base, along, divisor))
            elif k == slow:
                at = integers.add(base, position)
                axes.append(Axis(at, still, 1 if position else divisor))
            else:
                axes.append(Axis(base, still, ANY_DIVISOR if base == "0" else 1))
        return tuple(axes)

    rows = [stored_at(coords(axis, last, j)) for j in range(size)]
    columns = transposed(b, rows)
    for i, column in enumerate(columns):
        at = coords(last, axis, i)
        p = address_of(at)
        b.store_lanes(column, p)
    for loop in reversed(loops):
        loop.close()


def transposed(b: Builder, rows: Sequence[SSAValue]) -> list[SSAValue]:
    """Transpose n vectors of n lanes in log2(n) rounds of shuffles of two vectors."""
    n = len(rows)
    current = list(rows)
    distance = n // 2
    while distance:
        new = list(current)
        # Divide the matrix into squares whose side is twice the distance. In each square, exchange
        # the upper right quarter and the lower left quarter.
        low = [k if not k & distance else n + k - distance for k in range(n)]
        high = [k + distance if not k & distance else n + k for k in range(n)]
        for i in range(n):
            if not i & distance:
                for target, lanes in ((i, low), (i + distance, high)):
                    new[target] = b.shuffled(current[i], current[i + distance], lanes, n)
        current = new
        distance //= 2
    return current
