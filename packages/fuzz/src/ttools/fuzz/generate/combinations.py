"""Rules that combine elements: reductions, scans, sorting, histograms, matrix products."""

from __future__ import annotations

from ttools.fuzz.elements import BF16, F16, F32, FP8E4NV, FP8E5, I8, I32, INTEGERS, Element
from ttools.fuzz.generate.context import Context, Rule, needed, same_shape
from ttools.fuzz.generate.loads import loaded
from ttools.fuzz.generate.moves import moved
from ttools.fuzz.generate.values import arithmetic_value
from ttools.fuzz.operations import combining
from ttools.fuzz.operations.elementwise import binary, cast
from ttools.fuzz.operations.movement import cat
from ttools.fuzz.operations.table import number
from ttools.fuzz.program import Expr, Type

#: Largest size of tiles for functions with branches, because eager evaluation runs them per lane.
_MOST_BRANCHES = 256


def _arithmetic_tile(v: Expr) -> bool:
    return bool(v.type.shape) and arithmetic_value(v)


def reduction(context: Context) -> None:
    """Add a reduction of the standard library."""
    x = needed(context.pick(_arithmetic_tile))
    element = x.type.element
    forms = {"sum": 4, "max": 3, "min": 3, "argmax": 2, "argmin": 2, "xor_sum": 2}
    form = context.weighted(forms)
    axis: int | None = context.rng.randrange(len(x.type.shape))
    keep = context.chance(0.3)
    if element.is_float and (x.fact.nan or not x.fact.exact):
        return
    if form == "xor_sum" and element.is_float:
        return
    if form in ("argmax", "argmin"):
        if element.bits < 32:
            x = cast(x, F32 if element.is_float else I32)
    elif context.chance(0.25):
        axis = None
    made = combining.named_reduce(form, x, axis, keep)
    if made.type.element.is_float and not made.fact.exact:
        return
    context.bind(made)


def _combine_operands(context: Context, name: str, x: Expr) -> list[Expr] | None:
    element = x.type.element
    if name in ("f_or", "f_xor", "f_mul", "f_lin") and element.is_float:
        return None
    if name == "f_last":
        return [x]
    if element.is_float and (not x.fact.exact or x.fact.nan):
        return None
    if combining.COMBINES[name].operands == 1:
        return [x]
    if name == "f_lin":
        # The function is associative only if both operands have the same type, because each product
        # wraps around in its own type.
        return [x, context.pick(lambda v: v.type == x.type) or x]
    others = [context.pick(same_shape(x)), context.pick(same_shape(x))]
    integers = [
        v if v is not None and v.type.element in INTEGERS else cast_to_i32(x) for v in others
    ]
    if name == "f_three":
        return [x, integers[0], integers[1]]
    return [x, integers[0]]


def cast_to_i32(x: Expr) -> Expr:
    """Return a value of the same shape in i32, whatever the type of `x`."""
    return cast(binary("gt", x, number(0, x.type.element)), I32)


def custom_reduction(context: Context) -> None:
    """Add a `tl.reduce` or `tl.associative_scan` with a function defined in the kernel's module."""
    x = needed(context.pick(_arithmetic_tile))
    scan = context.chance(0.5)
    # The engine preserves the order of elements; a GPU need not.
    ordered = scan or not context.features.gpu
    names = [name for name, c in combining.COMBINES.items() if ordered or c.commutative]
    name = context.choose(names)
    if name == "f_last" and x.fact.approximate:
        return
    if name == "f_pick" and x.type.size > _MOST_BRANCHES:
        return
    args = needed(_combine_operands(context, name, x))
    axis = context.rng.randrange(len(x.type.shape))
    if scan:
        made = combining.scan(name, args, axis, context.chance(0.4))
    else:
        made = combining.reduce(
            name, args, axis if context.chance(0.8) else None, context.chance(0.3)
        )
    facts = [(made.type, made.fact), *made.more]
    if any(t.element.is_float and not f.exact for t, f in facts) and name != "f_last":
        return
    context.bind(made)


def mapping(context: Context) -> None:
    """Add a `tl.map_elementwise` of a function that chooses one of two values."""
    x = needed(context.pick(_arithmetic_tile))
    if x.type.size > _MOST_BRANCHES or x.fact.nan:
        return
    y = needed(context.pick(lambda v: v.type == x.type and arithmetic_value(v) and not v.fact.nan))
    context.bind(combining.mapped(context.choose(("f_pick", "f_set")), x, y))


def cumulative(context: Context) -> None:
    """Add a `tl.cumsum` or `tl.cumprod`."""
    x = needed(context.pick(lambda v: _arithmetic_tile(v) and v.type.element.bits >= 32))
    if x.type.element.is_float and (not x.fact.exact or x.fact.nan):
        return
    form = "cumsum" if x.type.element.is_float or context.chance(0.7) else "cumprod"
    axis = context.rng.randrange(len(x.type.shape))
    made = combining.cumulative(form, x, axis, context.chance(0.4))
    if made.type.element.is_float and not made.fact.exact:
        return
    context.bind(made)


def sorting(context: Context) -> None:
    """Add a `tl.sort` of a tile, or of two tiles concatenated in any order."""
    x = needed(context.pick(lambda v: _arithmetic_tile(v) and not v.fact.nan))
    if not 2 <= x.type.shape[-1] <= 64:
        return
    if len(x.type.shape) == 1 and context.chance(0.3):
        alike = x.type
        other = context.pick(
            lambda v: v.type == alike and not v.fact.nan and not v.fact.approximate
        )
        if other is not None:
            x = cat(x, other)
    context.bind(combining.sort(x, context.chance(0.4)))


def histogram(context: Context) -> None:
    """Add a `tl.histogram` of values that are limited to its bins."""
    x = needed(context.pick(lambda v: v.type.element in INTEGERS and len(v.type.shape) == 1))
    bins = context.choose((2, 4, 8, 16, 32))
    inside = binary("and", cast(x, I32), number(bins - 1, I32))
    context.bind(combining.histogram(inside, bins))


# ---- dot

_PRECISIONS = ("", "ieee", "tf32", "tf32x3")


def product(context: Context) -> None:
    """Add a `tl.dot` of small integral numbers, which is exact in every precision."""
    element = context.weighted({F16: 4, BF16: 4, F32: 4, I8: 2, FP8E5: 1, FP8E4NV: 1})
    small = not context.features.gpu and context.chance(0.4)
    extents = (1, 2, 4, 8, 16) if small else (16, 32)
    m, n = context.choose(extents), context.choose(extents)
    k = context.choose(extents) if element.bits > 8 or small else 32
    a = _matrix(context, element, (m, k))
    b = _matrix(context, element, (k, n))
    out = element in (F16, FP8E5, FP8E4NV) and context.chance(0.3)
    result = I32 if element is I8 else F16 if out else F32
    precision = context.choose(_PRECISIONS) if element is F32 else ""
    acc = context.pick(lambda v: v.type == Type(result, (m, n)) and v.fact.exact and not v.fact.nan)
    if acc is not None and context.chance(0.3):
        acc = None
    made = combining.dot(a, b, acc, result, precision, out)
    if result.is_float and not made.fact.exact:
        return
    context.bind(made)


def _is_small(v: Expr) -> bool:
    """Return whether all elements are integers that are exact in every precision of a product."""
    return v.fact.exact and not v.fact.nan and v.fact.size <= 16 and v.fact.grain >= 0


def _matrix(context: Context, element: Element, shape: tuple[int, int]) -> Expr:
    """Return a matrix of small integral numbers: one in scope, or a new one."""
    matrix = context.pick(lambda v: v.type == Type(element, shape) and _is_small(v))
    if matrix is not None and context.chance(0.7):
        return matrix
    turned = context.pick(lambda v: v.type == Type(element, shape[::-1]) and _is_small(v))
    if turned is not None and context.chance(0.5):
        return needed(moved(context, turned, "T"))
    return loaded(context, element, shape, "small")


RULES: dict[Rule, int] = {
    reduction: 6,
    custom_reduction: 6,
    mapping: 2,
    cumulative: 3,
    sorting: 3,
    histogram: 2,
    product: 3,
}
