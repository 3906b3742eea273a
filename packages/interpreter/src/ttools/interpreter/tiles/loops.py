"""Counted LLVM loops with carried values, and the division of tiles into chunks.

Callers emit the body of a loop between `Loop(...)` and `close(...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.lines import Preheader
from ttools.interpreter.llvm.value import SSAValue, integer
from ttools.interpreter.tiles.chunk import ANY_DIVISOR, ZERO, Axis, Coords


class Loop:
    """A loop `for (i = start; i < stop; i += step)` with at least one iteration and carried values.

    The constructor starts the body, in which `index` and `carried` are valid. `close` ends the
    body, and the builder continues after the loop, where `results` are the final carried values.
    """

    def __init__(
        self,
        b: Builder,
        stop: int,
        step: int,
        carried: Sequence[SSAValue] = (),
        *,
        start: int = 0,
    ) -> None:
        self.b, self.stop, self.step = b, stop, step
        entry, self._header, self._exit = b.block, b.label("loop"), b.label("end")
        self._preheader = Preheader()
        b.lines.append(self._preheader)
        b.preheaders.append(self._preheader)
        b.loops += 1
        b.branch(self._header)
        b.start(self._header)
        self._counter = b.open_phi("i", integer(start, "i32"), entry)
        self._phis = [b.open_phi("c", initial, entry) for initial in carried]
        self.index = self._counter.value
        self.carried = [phi.value for phi in self._phis]
        self.results: list[SSAValue] = []

    def close(self, results: Sequence[SSAValue] = ()) -> None:
        b = self.b
        following = b.binary("add nuw nsw", self.index, self.step)
        again = b.compare("icmp ult", following, self.stop)
        b.cond_branch(again, self._header, self._exit)
        for phi, new in zip([self._counter, *self._phis], [following, *results], strict=True):
            phi.add(new, b.block)
        self.results = list(results)
        b.preheaders.remove(self._preheader)
        b.start(self._exit)


class OptionalLoop:
    """A `Loop`, or only its body if the loop would have a single iteration."""

    def __init__(self, b: Builder, stop: int, step: int, carried: Sequence[SSAValue] = ()) -> None:
        self._loop = Loop(b, stop, step, carried) if stop > step else None
        self.index = self._loop.index if self._loop else ZERO
        self.carried = self._loop.carried if self._loop else list(carried)
        self.results: list[SSAValue] = []

    def close(self, results: Sequence[SSAValue] = ()) -> None:
        """End the body, as `Loop.close` does."""
        self.results = list(results)
        if self._loop is not None:
            self._loop.close(results)


@dataclass(frozen=True, slots=True)
class Traversal:
    """The order in which the chunks of a tile are processed.

    Attributes:
        shape: The shape of the tile.
        order: The axes, from slowest to fastest.
        lanes_along: The number of lanes of a chunk along each axis.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    lanes_along: tuple[int, ...]

    @property
    def width(self) -> int:
        return prod(self.lanes_along)

    def lane_stride(self, axis: int) -> int:
        """Return the number of lanes between neighbours along `axis`."""
        return _lane_stride(self.order, self.lanes_along, axis)

    def axis_lanes(self, axis: int) -> tuple[int, ...]:
        """Return the offset of each lane along `axis`."""
        return _axis_lanes(self.order, self.lanes_along, axis)

    def axis(self, axis: int, base: SSAValue) -> Axis:
        """Return the coordinates of a chunk along an axis.

        Args:
            base: The coordinate at which the chunk begins.
        """
        divisor = ANY_DIVISOR if base == "0" else self.lanes_along[axis]
        return Axis(base, self.axis_lanes(axis), divisor)


def _lane_stride(order: tuple[int, ...], lanes_along: tuple[int, ...], axis: int) -> int:
    slower = order.index(axis)
    return prod(lanes_along[k] for k in order[slower + 1 :])


@lru_cache(maxsize=1024)
def _axis_lanes(order: tuple[int, ...], lanes_along: tuple[int, ...], axis: int) -> tuple[int, ...]:
    stride, n = _lane_stride(order, lanes_along, axis), lanes_along[axis]
    return tuple(lane // stride % n for lane in range(prod(lanes_along)))


def traversal(
    shape: tuple[int, ...],
    max_width: int,
    order: tuple[int, ...] | None = None,
    *,
    least: int = 4,
) -> Traversal:
    """Divide a tile into chunks, which span the fastest axes.

    If the fastest axis is long enough, a chunk spans no other axis, so that it is contiguous in
    memory.

    Args:
        shape: The shape of the tile.
        max_width: The largest number of lanes of a chunk.
        order: The axes from slowest to fastest; row-major if None.
        least: The smallest extent at which the fastest axis is long enough.
    """
    order = order if order is not None else tuple(range(len(shape)))
    left = max_width
    if order and shape[order[-1]] >= least:
        left = min(left, shape[order[-1]])
    lanes = [1] * len(shape)
    for k in reversed(order):
        lanes[k] = min(left, shape[k])
        left //= lanes[k]
    return Traversal(shape, order, tuple(lanes))


def open_loops(
    b: Builder, walk: Traversal, axes: Sequence[int]
) -> tuple[dict[int, SSAValue], list[Loop]]:
    """Open loops over some axes of a tile, slowest first.

    Each of up to two axes has its own loop. More axes share one loop, whose index is divided into
    their coordinates. Tiles with many short axes, which sorts use, would otherwise need a deep loop
    nest for each operation.

    Returns:
        The base along each axis, "0" if the axis needs no loop, and the loops to close.
    """
    steps = {k: walk.shape[k] // walk.lanes_along[k] for k in axes}
    bases = dict.fromkeys(axes, ZERO)
    moving = [k for k in axes if steps[k] > 1]
    if len(moving) <= 2:
        loops = []
        for k in moving:
            loops.append(Loop(b, walk.shape[k], walk.lanes_along[k]))
            bases[k] = loops[-1].index
        return bases, loops
    loop = Loop(b, prod(steps.values()), 1)
    stride = 1
    for k in reversed(moving):
        digit = loop.index if stride == 1 else b.binary("lshr", loop.index, _log2(stride))
        stride *= steps[k]
        if k is not moving[0]:
            digit = b.binary("and", digit, steps[k] - 1)
        if walk.lanes_along[k] > 1:
            digit = b.binary("shl", digit, _log2(walk.lanes_along[k]))
        bases[k] = digit
    return bases, [loop]


def _log2(power: int) -> int:
    return power.bit_length() - 1


def for_each_chunk(b: Builder, walk: Traversal, body: Callable[[Coords], None]) -> None:
    """Emit loops over the chunks of a tile, with `body` in the innermost loop."""
    bases, loops = open_loops(b, walk, walk.order)
    at = tuple(walk.axis(k, bases[k]) for k in range(len(walk.shape)))
    if len(loops) == 1 and len(walk.shape) > 2 and list(walk.order) == sorted(walk.order):
        moving = [k for k in walk.order if bases[k] != "0"]
        if len(moving) > 2:
            scaled = b.binary("mul nuw nsw", loops[0].index, walk.width)
            b.linear[walk.shape, at] = (scaled, 0)
    body(at)
    for loop in reversed(loops):
        loop.close()
