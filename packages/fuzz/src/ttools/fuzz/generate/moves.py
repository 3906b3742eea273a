"""Rules that move lanes: chains of flips, permutations, reshapes, broadcasts, joins, gathers."""

from __future__ import annotations

import math
from collections.abc import Callable

from ttools.fuzz.elements import I1, I32, INTEGERS
from ttools.fuzz.generate.context import Context, Rule, needed
from ttools.fuzz.operations import movement
from ttools.fuzz.operations.elementwise import binary, cast
from ttools.fuzz.operations.table import arange, number
from ttools.fuzz.program import Expr, Shape

_MOST_RANK = 5


def moved(context: Context, x: Expr, form: str) -> Expr | None:
    """Return the value after one movement, or None if that kind of movement does not apply."""
    return _MOVES[form](context, x)


def _flip(context: Context, x: Expr) -> Expr | None:
    # Triton's flip of a single element reshapes it to rank 0, and then treats it as a scalar.
    if x.type.element is I1 or x.type.shape in ((), (1,)):
        return None
    return movement.flip(x, context.rng.randrange(len(x.type.shape)))


def _permute(context: Context, x: Expr) -> Expr | None:
    rank = len(x.type.shape)
    if rank < 2:
        return None
    axes = list(range(rank))
    context.rng.shuffle(axes)
    return movement.permute(x, axes, context.choose(("permute", "trans")))


def _transpose(context: Context, x: Expr) -> Expr | None:
    return movement.permute(x, (1, 0), "T") if len(x.type.shape) == 2 else None


def _reshape(context: Context, x: Expr) -> Expr | None:
    if not x.type.shape:
        return None
    return movement.reshape(x, factored(context, x.type.size), context.choose(("reshape", "view")))


def factored(context: Context, size: int) -> Shape:
    """Return a shape with `size` elements, a power of two."""
    rank = context.weighted({1: 2, 2: 4, 3: 2, 4: 1})
    left = size.bit_length() - 1
    extents = []
    for _ in range(rank - 1):
        part = context.rng.randint(0, left)
        extents.append(2**part)
        left -= part
    extents.append(2**left)
    context.rng.shuffle(extents)
    return tuple(extents)


def _ravel(context: Context, x: Expr) -> Expr | None:
    return movement.ravel(x) if len(x.type.shape) > 1 else None


def _expand(context: Context, x: Expr) -> Expr | None:
    rank = len(x.type.shape)
    if not 1 <= rank < _MOST_RANK:
        return None
    form = context.choose(("index", "expand_dims"))
    return movement.expand_dims(x, context.rng.randint(0, rank), form)


def _broadcast(context: Context, x: Expr) -> Expr | None:
    shape = list(x.type.shape)
    ones = [axis for axis, extent in enumerate(shape) if extent == 1]
    if not shape:
        extents = (context.choose((1, 2, 4, 16)), context.choose((1, 4)))
        return movement.broadcast_to(x, extents[: context.choose((1, 2))])
    if not ones:
        return None
    shape[context.choose(ones)] = context.choose((2, 4, 8))
    made = movement.broadcast_to(x, tuple(shape))
    return made if made.type.size <= context.features.most_elements else None


def _partner(context: Context, x: Expr) -> Expr:
    alike = context.pick(lambda v: v.type == x.type)
    return x if alike is None else alike


def _join(context: Context, x: Expr) -> Expr | None:
    if len(x.type.shape) >= _MOST_RANK or 2 * x.type.size > context.features.most_elements:
        return None
    return movement.join(x, _partner(context, x))


def _interleave(context: Context, x: Expr) -> Expr | None:
    if not x.type.shape or 2 * x.type.size > context.features.most_elements:
        return None
    return movement.interleave(x, _partner(context, x))


def _cat_along(context: Context, x: Expr) -> Expr | None:
    if not context.features.in_order_cat or not x.type.shape:
        return None
    if 2 * x.type.size > context.features.most_elements or len(x.type.shape) >= _MOST_RANK:
        return None
    return movement.cat_along(x, _partner(context, x), context.rng.randrange(len(x.type.shape)))


def _gather(context: Context, x: Expr) -> Expr | None:
    if not x.type.shape or x.type.element is I1:
        return None
    axis = context.rng.randrange(len(x.type.shape))
    extent = x.type.shape[axis]
    index = context.pick(lambda v: v.type.shape == x.type.shape and v.type.element in INTEGERS)
    if index is None or context.chance(0.3):
        steps = movement.along(arange(extent), axis, len(x.type.shape))
        turned = binary("add", binary("mul", steps, number(3, I32)), number(1, I32))
        index = movement.broadcast_to(turned, x.type.shape) if len(x.type.shape) > 1 else turned
    inside = binary("and", cast(index, I32), number(extent - 1, I32))
    return movement.gather(x, inside, axis)


_MOVES: dict[str, Callable[[Context, Expr], Expr | None]] = {
    "flip": _flip,
    "permute": _permute,
    "T": _transpose,
    "reshape": _reshape,
    "ravel": _ravel,
    "expand": _expand,
    "broadcast": _broadcast,
    "join": _join,
    "interleave": _interleave,
    "cat": _cat_along,
    "gather": _gather,
}
_WEIGHTS = {
    "flip": 4, "permute": 4, "T": 2, "reshape": 3, "ravel": 1, "expand": 2, "broadcast": 2,
    "join": 2, "interleave": 1, "cat": 1, "gather": 2,
}  # fmt: skip


def chain(context: Context) -> None:
    """Add a chain of one to four movements."""
    tiles_only = context.chance(0.95)
    x = needed(context.pick(lambda v: not tiles_only or bool(v.type.shape)))
    made = x
    for _ in range(context.rng.randint(1, 4)):
        step = moved(context, made, context.weighted(_WEIGHTS))
        if step is not None and step.type.size <= context.features.most_elements:
            made = step
    if made is x:
        return
    context.bind(made)


def item(context: Context) -> None:
    """Add the extraction of the number in a tile of one element."""
    x = needed(context.pick(lambda v: v.type.size == 1 and bool(v.type.shape)))
    context.bind(movement.item(x))


def split(context: Context) -> None:
    """Add a `tl.split` of a tile whose last extent is 2, or of a tile that is reshaped to that."""
    x = needed(context.pick(lambda v: bool(v.type.shape) and v.type.size >= 2))
    if x.type.shape[-1] != 2:
        rest = factored(context, x.type.size // 2)[: _MOST_RANK - 2]
        if math.prod(rest) * 2 != x.type.size:
            return
        x = movement.reshape(x, (*rest, 2) if rest != (1,) or context.chance(0.5) else (2,))
    context.bind(movement.split(x))


RULES: dict[Rule, int] = {chain: 16, split: 4, item: 4}
