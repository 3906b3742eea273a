"""A test, made once per tile, that the lanes of a store do not overlap in memory.

If the starts of neighbouring rows are at least one row length apart, no two lanes share a byte. A
row may lie along either axis of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.whole_tile import Hull, WholeTile
from ttools.interpreter.emit.out_of_line import out_of_line
from ttools.interpreter.llvm.builder import SIZES, memory_type
from ttools.interpreter.llvm.value import NOTHING, TRUE, SSAValue, integer
from ttools.ir import Operation, PointerType, element_type, shape_of


def unless_apart(e: Emitter, op: Operation, look: Callable[[], None]) -> None:
    """Emit a search for lanes of an access that share memory; it runs only if lanes may overlap.

    Args:
        op: The access, which has been emitted before in the same function.
    """
    prober, b, pointer = e.prober, e.b, op.operands[0]
    assert prober is not None
    element = element_type(pointer.type)
    assert isinstance(element, PointerType)
    whole: WholeTile | None = prober.whole_tiles.get((op, b.bodies[-1]))
    size = SIZES[memory_type(element.pointee)]
    apart = None if whole is None else _apart(e, whole.hull, shape_of(pointer.type), size)
    if apart is None:
        look()
        return

    def body() -> SSAValue:
        look()
        return NOTHING

    beside, done = b.label("beside"), b.label("apart")
    b.cond_branch(b.overloaded("expect", apart, TRUE), done, beside)
    b.start(beside)
    out_of_line(e, body)
    b.branch(done)
    b.start(done)


@dataclass(frozen=True)
class _Axis:
    """An axis of a tile of addresses.

    Attributes:
        step: Distance in bytes between neighbouring coordinates, as a non-negative i64.
        span: Distance in bytes from the first active coordinate to the last.
    """

    step: SSAValue
    span: SSAValue


def _apart(e: Emitter, hull: Hull, shape: tuple[int, ...], size: int) -> SSAValue | None:
    """Emit an i1 that is set only if no two active lanes access the same byte.

    Args:
        hull: The hull of the addresses.
        shape: The shape of the tile.
        size: Size of an element in bytes.

    Returns:
        None if there are more than two axes, or if neighbours share bytes.
    """
    moving = [axis for axis, extent in enumerate(shape) if extent > 1]
    if len(moving) > 2 or any(hull.form.steps[axis] == "0" for axis in moving):
        return None
    axes = [_axis(e, hull, axis) for axis in moving]
    tests = [_at_least(e, axis.step, integer(size, "i64")) for axis in axes]
    if len(axes) == 2:
        outer = [
            _at_least(e, rows.step, e.integers.add(run.span, size))
            for run, rows in (axes, axes[::-1])
        ]
        ways = [e.b.binary("and", one, two) for one, two in zip(tests, outer, strict=True)]
        tests = [e.b.binary("or", ways[0], ways[1])]
    apart = hull.guard or TRUE
    for test in tests:
        apart = e.b.binary("and", apart, test)
    return apart


def _axis(e: Emitter, hull: Hull, axis: int) -> _Axis:
    step = hull.form.steps[axis]
    if step.startswith("%"):
        step = _greater(e, step, e.integers.subtract(integer(0, "i64"), step))
    else:
        step = integer(abs(int(step)), "i64")
    last = e.integers.add(e.integers.subtract(hull.box.end(axis), hull.box.first(axis)), -1)
    # If a mask excludes all lanes, first and end are arbitrary, and their difference may be
    # negative.
    last = _greater(e, last, integer(0, "i64")) if last.startswith("%") else last
    return _Axis(step, e.integers.multiply(step, last))


def _greater(e: Emitter, a: SSAValue, b: SSAValue) -> SSAValue:
    return e.b.overloaded("smax", a, b)


def _at_least(e: Emitter, number: SSAValue, least: SSAValue) -> SSAValue:
    return e.b.compare("icmp sge", number, least)
