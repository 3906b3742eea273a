"""Rules that compute: arithmetic, comparisons, selection, casts, functions, reductions."""

from __future__ import annotations

from dataclasses import replace

from ttools.fuzz import combining, elementwise
from ttools.fuzz.elements import (
    BF16,
    F16,
    F32,
    F64,
    FLOATS,
    FP8,
    FP8E4NV,
    FP8E5,
    I1,
    I8,
    I32,
    INTEGERS,
    SIGNED,
    Element,
)
from ttools.fuzz.elementwise import binary, cast, unary, where
from ttools.fuzz.facts import Fact, fits, within
from ttools.fuzz.generate.context import Context, Rule, same_shape
from ttools.fuzz.generate.moves import moved
from ttools.fuzz.movement import cat, pair
from ttools.fuzz.operations import number
from ttools.fuzz.program import Expr, Type


def _computable(v: Expr) -> bool:
    element = v.type.element
    return not v.fact.approximate and element not in FP8


def _arithmetic(v: Expr) -> bool:
    return _computable(v) and v.type.element is not I1


def _broadcasts(a: Expr, v: Expr) -> bool:
    x, y = a.type.shape, v.type.shape
    if not y:
        return True
    return len(x) == len(y) and all(m in (1, n) or n == 1 for n, m in zip(x, y, strict=True))


def _constant(context: Context, element: Element, *, positive: bool = False) -> Expr:
    if element.is_float:
        return number(
            context.choose((0.5, 1.0, 2.0, 3.0, 7.0, 0.25))
            * (1 if positive or context.chance(0.7) else -1),
            element,
        )
    choices = [1, 2, 3, 5, 7, 31, 100]
    if element.kind == "signed" and not positive:
        choices += [-1, -3, -100]
    return number(context.choose(choices), element)


def operands(context: Context, accepts=_arithmetic) -> tuple[Expr, Expr] | None:  # type: ignore[no-untyped-def]
    """Two values that can be combined; the second may be a number."""
    a = context.pick(accepts)
    if a is None:
        return None
    if context.chance(0.3):
        b: Expr | None = _constant(context, a.type.element)
    else:
        b = context.pick(lambda v: accepts(v) and _broadcasts(a, v))
    if b is None or a.type.size * b.type.size > 2**16:
        return None
    result = elementwise.common_shape(a.type, b.type)
    if Type(a.type.element, result).size > context.features.most_elements:
        return None
    if b.op != "number" and context.chance(0.5):
        a, b = b, a
    return a, b


def arithmetic(context: Context) -> bool:
    """A sum, difference or product, of floats whose rounding is certain."""
    found = operands(context)
    if found is None:
        return False
    a, b = found
    op = context.weighted({"add": 3, "sub": 2, "mul": 2})
    made = binary(op, a, b)
    if made.type.element.is_float and not made.fact.exact:
        if op == "mul" and context.chance(0.5):
            return False
        if op != "mul" and (a.fact.product or b.fact.product):
            return False
    context.bind(made)
    return True


def bitwise(context: Context) -> bool:
    """And, or, xor, not."""
    found = operands(context, lambda v: v.type.element in INTEGERS)
    if context.chance(0.25):
        found = operands(context, lambda v: v.type.element is I1)
        if found is not None and found[1].op == "number":
            return False
    if found is None:
        return False
    a, b = found
    if context.chance(0.15):
        context.bind(unary("invert", a))
    else:
        context.bind(binary(context.choose(elementwise.BITWISE), a, b))
    return True


def shift(context: Context) -> bool:
    """Shifts, also by the width and more."""
    a = context.pick(lambda v: v.type.element in INTEGERS)
    if a is None:
        return False
    op = context.choose(("shl", "shr"))
    b = context.pick(lambda v: v.type.element is a.type.element and _broadcasts(a, v))
    if b is None or context.chance(0.5):
        amount: Expr = number(context.rng.randrange(a.type.element.bits), a.type.element)
    else:
        # Amounts of the width and more are defined, but not on every path of a 64-bit GPU shift.
        most = a.type.element.bits * (1 if a.type.element.bits == 64 else 2)
        amount = binary("and", b, number(min(most, 128) - 1, a.type.element))
    context.bind(binary(op, a, amount))
    return True


def division(context: Context) -> bool:
    """Truncated division and remainder, of divisors that are not zero."""
    found = operands(context, lambda v: v.type.element in INTEGERS)
    if found is None:
        return False
    a, b = found
    if a.type.element.kind != b.type.element.kind:
        return False
    if b.op != "number":
        b = binary("or", b, number(1, b.type.element))
    elif not b.attrs["value"]:
        return False
    element = elementwise.promoted(a.type.element, b.type.element)
    if element.kind == "signed" and (b.op != "number" or b.attrs["value"] == -1):
        # The least value divided by -1 is not defined.
        b = (
            binary("and", b, number(element.high if element.bits < 64 else 2**31 - 1, element))
            if b.op != "number"
            else number(3, element)
        )
        if b.op != "number":
            b = binary("or", b, number(1, element))
    context.bind(binary(context.choose(("quotient", "remainder")), a, b))
    return True


def extremes(context: Context) -> bool:
    """`minimum`, `maximum`, `abs`, `clamp`, negation."""
    form = context.weighted({"two": 5, "abs": 2, "neg": 2, "clamp": 1, "floor": 1})
    a = context.pick(_arithmetic)
    if a is None:
        return False
    element = a.type.element
    if form == "two":
        found = operands(context)
        if found is None:
            return False
        context.bind(binary(context.choose(("minimum", "maximum")), *found))
    elif form == "clamp":
        if element is not F32 or a.fact.nan:
            return False
        context.bind(elementwise.clamp(a, number(-2.0, F32), number(3.0, F32)))
    elif form == "floor":
        if element not in (F32, F64) or a.fact.nan or not a.fact.exact:
            return False
        context.bind(unary(context.choose(("floor", "ceil")), a))
    elif form == "neg" and element.kind == "unsigned":
        return False
    else:
        context.bind(unary(form, a))
    return True


def comparison(context: Context) -> bool:
    """A comparison."""
    found = operands(context)
    if found is None:
        return False
    context.bind(binary(context.choose(elementwise.COMPARISONS), *found))
    return True


def selection(context: Context) -> bool:
    """`tl.where`."""
    a = context.pick()
    if a is None:
        return False
    b = context.pick(lambda v: v.type.element is a.type.element and _broadcasts(a, v))
    condition = context.pick(lambda v: v.type.element is I1 and _broadcasts(a, v))
    if b is None or condition is None:
        return False
    context.bind(where(condition, a, b))
    return True


def castable(context: Context, x: Expr, target: Element) -> Expr | None:
    """The value as something that a conversion to the type is defined for."""
    source = x.type.element
    if x.fact.approximate and not (target.is_float and target.bits >= 16):
        return None
    if (source in FP8 and target.kind != "float") or (target in FP8 and not source.is_float):
        return None
    if (source in FP8 and target in FP8) or (
        F64 in (source, target) and (source in FP8 or target in FP8)
    ):
        return None
    if not source.is_float or not target.is_integer:
        if target is I1 and source in FP8:
            return None
        return x
    if target.kind == "unsigned":
        return x if x.fact.exact and x.fact.low >= 0 and x.fact.high <= target.high else None
    if x.fact.exact and x.fact.low >= target.low and x.fact.high <= target.high:
        return x
    if source is F64 or target.bits != 32:
        return None
    return x


def conversion(context: Context) -> bool:
    """A cast, narrowing ones often."""
    x = context.pick()
    if x is None:
        return False
    target = context.element()
    ready = castable(context, x, target)
    if ready is None or target is x.type.element:
        return False
    if target in FP8 and x.fact.approximate:
        return False
    context.bind(cast(ready, target))
    return True


def bitcast(context: Context) -> bool:
    """The bits as another type of the same width."""
    x = context.pick(lambda v: v.type.element is not I1)
    if x is None or x.fact.approximate or x.fact.signless:
        return False
    source = x.type.element
    if source.is_float and (x.fact.nan or not x.fact.exact):
        return False  # the bits of a NaN are nobody's promise
    choices = [e for e in (*INTEGERS, *FLOATS, *FP8) if e.bits == source.bits and e is not source]
    context.bind(elementwise.bitcast(x, context.choose(choices)))
    return True


def function(context: Context) -> bool:
    """A function that is approximate, or a division of floats."""
    name = context.choose([*elementwise.FUNCTIONS, "divide"])
    if name == "divide":
        found = operands(context, lambda v: v.type.element in (F32, F16, F64) and v.fact.exact)
        if found is None:
            return False
        a, b = found
        if b.op != "number":
            b = binary("maximum", b, number(1.0, b.type.element))
        elif b.attrs["value"] == 0:
            return False
        if not a.fact.exact:
            return False
        context.bind(binary("divide", a, b))
        return True
    _, _, low, high = elementwise.FUNCTIONS[name]
    x = context.pick(lambda v: v.type.element in (F32, F64) and v.fact.exact)
    if x is None:
        return False
    if x.fact.low < low:
        x = binary("maximum", x, number(max(low, -16.0) if low < 0 else 0.5, x.type.element))
    if x.fact.high > high:
        x = binary("minimum", x, number(16.0, x.type.element))
    context.bind(unary(name, x))
    return True


# ---- reductions and scans


def reduction(context: Context) -> bool:
    """A reduction of the standard library."""
    x = context.pick(lambda v: bool(v.type.shape) and _arithmetic(v))
    if x is None:
        return False
    element = x.type.element
    forms = {"sum": 4, "max": 3, "min": 3, "argmax": 2, "argmin": 2, "xor_sum": 2}
    form = context.weighted(forms)
    axis: int | None = context.rng.randrange(len(x.type.shape))
    keep = context.chance(0.3)
    if element.is_float and (x.fact.nan or not x.fact.exact):
        return False
    if form == "xor_sum" and element.is_float:
        return False
    if form in ("argmax", "argmin"):
        if element.bits < 32:
            x = cast(x, F32 if element.is_float else I32)
    elif context.chance(0.25):
        axis = None
    made = combining.named_reduce(form, x, axis, keep)
    if made.type.element.is_float and not made.fact.exact:
        return False
    context.bind(made)
    return True


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
    others = [context.pick(same_shape(x)), context.pick(same_shape(x))]
    integers = [
        v if v is not None and v.type.element in INTEGERS else cast_to_i32(x) for v in others
    ]
    if name == "f_three":
        return [x, integers[0], integers[1]]
    return [x, integers[0]]


def cast_to_i32(x: Expr) -> Expr:
    """A value of that shape in i32, whatever `x` is."""
    return cast(binary("gt", x, number(0, x.type.element)), I32)


def custom_reduction(context: Context) -> bool:
    """`tl.reduce` or `tl.associative_scan` with a function of the kernel's own."""
    x = context.pick(lambda v: bool(v.type.shape) and _arithmetic(v))
    if x is None:
        return False
    scan = context.chance(0.5)
    names = [name for name, c in combining.COMBINES.items() if scan or c.commutative]
    name = context.choose(names)
    if name == "f_last" and x.fact.approximate:
        return False
    args = _combine_operands(context, name, x)
    if args is None:
        return False
    axis = context.rng.randrange(len(x.type.shape))
    if scan:
        made = combining.scan(name, args, axis, context.chance(0.4))
    else:
        made = combining.reduce(
            name, args, axis if context.chance(0.8) else None, context.chance(0.3)
        )
    facts = [(made.type, made.fact), *made.more]
    if any(t.element.is_float and not f.exact for t, f in facts) and name != "f_last":
        return False
    context.bind(made)
    return True


def cumulative(context: Context) -> bool:
    """`tl.cumsum`, `tl.cumprod`."""
    x = context.pick(lambda v: bool(v.type.shape) and _arithmetic(v) and v.type.element.bits >= 32)
    if x is None or (x.type.element.is_float and (not x.fact.exact or x.fact.nan)):
        return False
    form = "cumsum" if x.type.element.is_float or context.chance(0.7) else "cumprod"
    axis = context.rng.randrange(len(x.type.shape))
    made = combining.cumulative(form, x, axis, context.chance(0.4))
    if made.type.element.is_float and not made.fact.exact:
        return False
    context.bind(made)
    return True


def sorting(context: Context) -> bool:
    """`tl.sort`, of a tile or of two that are put together in any order."""
    x = context.pick(lambda v: bool(v.type.shape) and _arithmetic(v) and not v.fact.nan)
    if x is None or not 2 <= x.type.shape[-1] <= 64:
        return False
    if len(x.type.shape) == 1 and context.chance(0.3):
        other = context.pick(
            lambda v: v.type == x.type and not v.fact.nan and not v.fact.approximate
        )
        if other is not None:
            x = cat(x, other)
    context.bind(combining.sort(x, context.chance(0.4)))
    return True


def histogram(context: Context) -> bool:
    """`tl.histogram` of values that are made to lie in its bins."""
    x = context.pick(lambda v: v.type.element in INTEGERS and len(v.type.shape) == 1)
    if x is None:
        return False
    bins = context.choose((2, 4, 8, 16, 32))
    inside = binary("and", cast(x, I32), number(bins - 1, I32))
    context.bind(combining.histogram(inside, bins))
    return True


# ---- dot

_PRECISIONS = ("", "ieee", "tf32", "tf32x3")


def product(context: Context) -> bool:
    """`tl.dot` of small whole numbers, exact in every precision."""
    element = context.weighted({F16: 4, BF16: 4, F32: 4, I8: 2, FP8E5: 1, FP8E4NV: 1})
    small = not context.features.gpu and context.chance(0.4)
    extents = (1, 2, 4, 8, 16) if small else (16, 32)
    m, n = context.choose(extents), context.choose(extents)
    k = context.choose(extents) if element.bits > 8 or small else 32
    a = _matrix(context, element, (m, k))
    b = _matrix(context, element, (k, n))
    if a is None or b is None:
        return False
    out = element in (F16, FP8E5, FP8E4NV) and context.chance(0.3)
    result = I32 if element is I8 else F16 if out else F32
    precision = context.choose(_PRECISIONS) if element is F32 else ""
    acc = context.pick(lambda v: v.type == Type(result, (m, n)) and v.fact.exact and not v.fact.nan)
    if acc is not None and context.chance(0.3):
        acc = None
    made = combining.dot(a, b, acc, result, precision, out)
    if result.is_float and not made.fact.exact:
        return False
    context.bind(made)
    return True


def _matrix(context: Context, element: Element, shape: tuple[int, int]) -> Expr | None:
    """A matrix of small whole numbers: one in scope if it fits, else a new one."""
    from ttools.fuzz.generate.loads import loaded

    found = context.pick(
        lambda v: (
            v.type == Type(element, shape)
            and v.fact.exact
            and v.fact.size <= 16
            and not v.fact.nan
            and v.fact.grain >= 0
        )
    )
    if found is not None and context.chance(0.7):
        return found
    if context.chance(0.3):
        wide = context.pick(
            lambda v: (
                v.type.shape == shape[::-1]
                and v.type.element is element
                and v.fact.exact
                and v.fact.size <= 16
                and v.fact.grain >= 0
            )
        )
        if wide is not None:
            return moved(context, wide, "T")
    return loaded(context, element, shape, "small")


def swap(context: Context) -> bool:
    """A tuple assignment."""
    a, b = context.pick(), context.pick()
    if a is None or b is None:
        return False
    context.bind(pair(a, b))
    return True


RULES: dict[Rule, int] = {
    arithmetic: 10,
    bitwise: 4,
    shift: 3,
    division: 3,
    extremes: 5,
    comparison: 4,
    selection: 5,
    conversion: 8,
    bitcast: 2,
    function: 2,
    reduction: 6,
    custom_reduction: 5,
    cumulative: 3,
    sorting: 2,
    histogram: 1,
    product: 3,
    swap: 1,
}

__all__ = ["RULES", "Fact", "castable", "fits", "replace", "within", "SIGNED"]
