"""Generation of offsets of tiles in memory, and of masks over tiles."""

from __future__ import annotations

import numpy as np

from ttools.fuzz.elements import I32
from ttools.fuzz.facts import within
from ttools.fuzz.generate.context import Context
from ttools.fuzz.operations.access import advance, pointer
from ttools.fuzz.operations.elementwise import binary
from ttools.fuzz.operations.movement import along, reshape
from ttools.fuzz.operations.table import Frame, arange, evaluate, number
from ttools.fuzz.program import Buffer, Expr, Shape, Type

_NO_FRAME = Frame({}, {}, {}, {}, (0, 0, 0), {}, lambda *_: ())


def _times(x: Expr, factor: int) -> Expr:
    return x if factor == 1 else binary("mul", x, number(factor, I32))


def _plus(x: Expr, term: int) -> Expr:
    return x if term == 0 else binary("add", x, number(term, I32))


def linear(context: Context, shape: Shape) -> Expr:
    """Return the row-major index of each lane."""
    size = int(np.prod(shape))
    if not shape:
        return number(0, I32)
    if len(shape) == 1:
        return arange(size)
    if context.chance(0.5):
        return reshape(arange(size), shape)
    return strided(shape, [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))])


def strided(shape: Shape, strides: list[int], reverse: frozenset[int] = frozenset()) -> Expr:
    """Return the sum over all axes of a range times the axis's stride."""
    total: Expr | None = None
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        steps = arange(extent)
        if axis in reverse:
            steps = binary("sub", number(extent - 1, I32), steps)
        term = _times(along(steps, axis, len(shape)), stride)
        total = term if total is None else binary("add", total, term)
    assert total is not None
    return total


def offsets(context: Context, shape: Shape, *, distinct: bool) -> tuple[Expr, int]:
    """Return offsets for the lanes of a tile, and the number of elements that they span.

    Args:
        distinct: If True, no two lanes have the same offset.
    """
    form = context.weighted({"linear": 5, "strided": 6, "scaled": 3, "overlapping": 2})
    if not shape:
        start = context.choose((0, 0, 1, 5))
        return number(start, I32), start + 1
    if form == "linear" or (form == "overlapping" and distinct):
        made = linear(context, shape)
    elif form == "scaled":
        made = _plus(
            _times(linear(context, shape), context.choose((1, 2, 3))), context.choose((0, 1, 5))
        )
    elif form == "overlapping":
        made = strided(shape, [context.choose((0, 1, 1, 2)) for _ in shape])
    else:
        made = _permuted(context, shape)
    span = int(np.max(evaluate(made, _NO_FRAME))) + 1
    return made, span


def _permuted(context: Context, shape: Shape) -> Expr:
    axes = list(range(len(shape)))
    context.rng.shuffle(axes)
    strides, stride = [0] * len(shape), context.choose((1, 1, 1, 2))
    for axis in axes:
        strides[axis] = stride
        stride = stride * shape[axis] + context.choose((0, 0, 0, 1, 3))
    reverse = frozenset(axis for axis in axes if context.chance(0.2))
    return strided(shape, strides, reverse)


def address(context: Context, buffer: Buffer, offset: Expr, span: int) -> Expr:
    """Return a program's addresses in a buffer, at the given offsets."""
    base = pointer(buffer.name)
    if context.program is None:
        if offset.op == "number" and not offset.attrs["value"]:
            return base
        return advance(base, offset)
    start = _times(context.program, span)
    if context.chance(0.5):
        return advance(base, binary("add", start, offset))
    return advance(advance(base, start), offset)


def whole_span(context: Context, span: int) -> int:
    """Return the number of elements that all programs need together."""
    return span * int(np.prod(context.grid))


def bound_value(context: Context, size: int) -> int:
    """Return a random bound on lanes, often near 0 or `size`, or congruent to 1 modulo 16."""
    near = [
        value for value in (1, 17, 33, 49, 16, 8, size - 1, size, 0, size + 1) if value <= size + 1
    ]
    return context.choose(near) if context.chance(0.5) else context.rng.randint(0, size)


def mask(context: Context, shape: Shape) -> Expr:
    """Return a mask over a tile."""
    made = _mask(context, shape)
    if context.chance(0.15):
        made = binary(context.choose(("and", "or")), made, _mask(context, shape))
    return made


def _mask(context: Context, shape: Shape) -> Expr:
    size = int(np.prod(shape)) if shape else 1
    available = context.pick(lambda v: v.type.element.kind == "bool" and v.type.shape == shape)
    forms = {
        "bound": 8,
        "remainder": 1,
        "parity": 1,
        "box": 2,
        "data": 2 if available else 0,
        "from": 1,
    }
    form = context.weighted(forms)
    if form == "data" and available is not None:
        return available
    if not shape:
        return binary(
            "lt", context.program or number_zero(context), context.bound(bound_value(context, 1))
        )
    lanes = linear(context, shape)
    if form == "remainder":
        left = binary("remainder", lanes, number(context.choose((3, 5)), I32))
        return binary("ne", left, number(1, I32))
    if form == "parity":
        right = (
            number(1, I32)
            if context.program is None
            else binary("and", context.program, number(1, I32))
        )
        return binary("eq", binary("and", lanes, number(1, I32)), right)
    if form == "box" and len(shape) > 1:
        return _box(context, shape)
    if form == "from":
        return binary("ge", lanes, context.bound(bound_value(context, size)))
    return binary("lt", lanes, context.bound(bound_value(context, size)))


def number_zero(context: Context) -> Expr:
    """Return a scalar zero that Triton does not see as a Python constant."""
    return Expr("full", Type(I32), attrs={"value": 0}, fact=within(0, 0))


def _box(context: Context, shape: Shape) -> Expr:
    first, second = context.rng.sample(range(len(shape)), 2)
    parts = []
    for axis in (first, second):
        bound = context.bound(context.rng.randint(0, shape[axis]))
        parts.append(binary("lt", along(arange(shape[axis]), axis, len(shape)), bound))
    return binary("and", parts[0], parts[1])
