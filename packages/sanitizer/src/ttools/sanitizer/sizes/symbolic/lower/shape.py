"""Operations that only rename coordinates."""

from __future__ import annotations

from ttools.interpreter.ir import Operation, shape_of
from ttools.sanitizer.sizes.algebra.polynomials import LANE
from ttools.sanitizer.sizes.symbolic.operations import otherwise, rule
from ttools.sanitizer.sizes.symbolic.state import State
from ttools.sanitizer.sizes.symbolic.values import AnyValue, Opaque, lanes_moved


@rule("tt.splat", "tt.broadcast")
def _spread(kernel: State, op: Operation) -> AnyValue:
    """A lane has its value wherever it is repeated."""
    return kernel.get(op.operands[0])


def _moved(kernel: State, op: Operation, axes: dict[int, int], how: object) -> AnyValue:
    value = kernel.get(op.operands[0])
    if isinstance(value, Opaque):
        return value
    for axis, extent in enumerate(shape_of(op.results[0].type)):
        kernel.lane(axis, extent)
    renamer = lanes_moved(axes, how)
    found = renamer.value(value)
    data = {s: p for s, p in renamer.replaced.items() if s.level > LANE}
    kernel.space.copy_declarations(data)
    positions = kernel.space.positions
    for symbol, moved in data.items():
        if symbol in positions:
            (copy,) = moved.symbols()
            positions[copy] = renamer.poly(positions[symbol])
    return found


@rule("tt.expand_dims")
def _expand_dims(kernel: State, op: Operation) -> AnyValue:
    at = op.attributes["axis"]
    assert isinstance(at, int)
    rank = len(shape_of(op.operands[0].type))
    return _moved(kernel, op, {a: a + 1 for a in range(at, rank)}, ("expand", at))


@rule("tt.trans")
def _transpose(kernel: State, op: Operation) -> AnyValue:
    order = op.attributes.get("order")
    assert isinstance(order, tuple)
    axes = {int(old): new for new, old in enumerate(order)}  # type: ignore[arg-type]
    return _moved(kernel, op, axes, ("transpose", tuple(axes.items())))


@rule("tt.reshape")
def _reshape(kernel: State, op: Operation) -> AnyValue:
    old, new = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    value = kernel.get(op.operands[0])
    long_old = [a for a, e in enumerate(old) if e > 1]
    long_new = [a for a, e in enumerate(new) if e > 1]
    if [old[a] for a in long_old] != [new[a] for a in long_new]:
        if isinstance(value, Opaque):
            return value
        return otherwise(kernel, op, op.results[0])
    axes = dict(zip(long_old, long_new, strict=True))
    return _moved(kernel, op, axes, ("reshape", tuple(axes.items())))
