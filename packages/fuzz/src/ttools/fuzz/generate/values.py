"""Rules that compute values: arithmetic, comparisons, selection, casts, functions."""

from __future__ import annotations

from collections.abc import Callable

from ttools.fuzz.elements import (
    F16,
    F32,
    F64,
    FLOATS,
    FP8,
    I1,
    I32,
    INTEGERS,
    Element,
    promoted,
)
from ttools.fuzz.generate.context import Context, Rule, needed
from ttools.fuzz.operations import elementwise
from ttools.fuzz.operations.elementwise import binary, cast, sum_and_difference, unary, where
from ttools.fuzz.operations.movement import pair
from ttools.fuzz.operations.table import common_shape, number
from ttools.fuzz.program import Expr, Type


def _computable(v: Expr) -> bool:
    element = v.type.element
    return not v.fact.approximate and element not in FP8


def arithmetic_value(v: Expr) -> bool:
    """Return whether arithmetic is defined for a value."""
    return _computable(v) and v.type.element is not I1


def _broadcasts(a: Expr, v: Expr) -> bool:
    x, y = a.type.shape, v.type.shape
    if not y:
        return True
    return len(x) == len(y) and all(m in (1, n) or n == 1 for n, m in zip(x, y, strict=True))


def _constant(context: Context, element: Element) -> Expr:
    if element.is_float:
        return number(
            context.choose((0.5, 1.0, 2.0, 3.0, 7.0, 0.25)) * (1 if context.chance(0.7) else -1),
            element,
        )
    choices = [1, 2, 3, 5, 7, 31, 100]
    if element.kind == "signed":
        choices += [-1, -3, -100]
    return number(context.choose(choices), element)


def operands(
    context: Context, accepts: Callable[[Expr], bool] = arithmetic_value
) -> tuple[Expr, Expr] | None:
    """Return two values that can be combined; the second may be a number."""
    a = context.pick(accepts)
    if a is None:
        return None
    if context.chance(0.3):
        b: Expr | None = _constant(context, a.type.element)
    else:
        first = a
        b = context.pick(lambda v: accepts(v) and _broadcasts(first, v))
    if b is None or a.type.size * b.type.size > 2**16:
        return None
    result = common_shape(a.type, b.type)
    if Type(a.type.element, result).size > context.features.most_elements:
        return None
    if b.op != "number" and context.chance(0.5):
        a, b = b, a
    return a, b


def arithmetic(context: Context) -> None:
    """Add a sum, difference or product, for floats only if the rounding is unambiguous."""
    a, b = needed(operands(context))
    op = context.weighted({"add": 3, "sub": 2, "mul": 2})
    made = binary(op, a, b)
    if made.type.element.is_float and not made.fact.exact:
        if op == "mul" and context.chance(0.5):
            return
        if op != "mul" and (a.fact.product or b.fact.product):
            return
    context.bind(made)


def bitwise(context: Context) -> None:
    """Add a bitwise operation."""
    pair = operands(context, lambda v: v.type.element in INTEGERS)
    if context.chance(0.25):
        pair = operands(context, lambda v: v.type.element is I1)
        if pair is not None and pair[1].op == "number":
            return
    a, b = needed(pair)
    if context.chance(0.15):
        context.bind(unary("invert", a))
    else:
        context.bind(binary(context.choose(elementwise.BITWISE), a, b))


def shift(context: Context) -> None:
    """Add a shift; the amount may reach or exceed the width."""
    a = needed(context.pick(lambda v: v.type.element in INTEGERS))
    op = context.choose(("shl", "shr"))
    b = context.pick(lambda v: v.type.element is a.type.element and _broadcasts(a, v))
    if b is None or context.chance(0.5):
        amount: Expr = number(context.rng.randrange(a.type.element.bits), a.type.element)
    else:
        # Amounts that reach or exceed the width are defined, but a 64-bit shift on a GPU does not
        # follow the definition on every code path.
        most = a.type.element.bits * (1 if a.type.element.bits == 64 else 2)
        amount = binary("and", b, number(min(most, 128) - 1, a.type.element))
    context.bind(binary(op, a, amount))


def division(context: Context) -> None:
    """Add a truncated division or remainder; divisors are not zero."""
    a, b = needed(operands(context, lambda v: v.type.element in INTEGERS))
    if a.type.element.kind != b.type.element.kind:
        return
    if b.op != "number":
        b = binary("or", b, number(1, b.type.element))
    elif not b.attrs["value"]:
        return
    element = promoted(a.type.element, b.type.element)
    if element.kind == "signed" and (b.op != "number" or b.attrs["value"] == -1):
        # Dividing the smallest value by -1 is undefined.
        b = (
            binary("and", b, number(element.high if element.bits < 64 else 2**31 - 1, element))
            if b.op != "number"
            else number(3, element)
        )
        if b.op != "number":
            b = binary("or", b, number(1, element))
    context.bind(binary(context.choose(("quotient", "remainder")), a, b))


def extremes(context: Context) -> None:
    """Add `minimum`, `maximum`, `abs`, `clamp` or a negation."""
    form = context.weighted({"two": 5, "abs": 2, "neg": 2, "clamp": 2, "floor": 4})
    a = needed(context.pick(arithmetic_value))
    element = a.type.element
    if form == "two":
        pair = needed(operands(context))
        context.bind(binary(context.choose(("minimum", "maximum")), *pair))
    elif form == "clamp":
        if element is not F32 or a.fact.nan:
            return
        context.bind(elementwise.clamp(a, number(-2.0, F32), number(3.0, F32)))
    elif form == "floor":
        if element not in (F32, F64) or a.fact.nan or not a.fact.exact:
            return
        context.bind(unary(context.choose(("floor", "ceil")), a))
    elif form == "neg" and element.kind == "unsigned":
        return
    else:
        context.bind(unary(form, a))


def comparison(context: Context) -> None:
    """Add a comparison."""
    pair = needed(operands(context))
    context.bind(binary(context.choose(elementwise.COMPARISONS), *pair))


def selection(context: Context) -> None:
    """Add a `tl.where`."""
    a = needed(context.pick())
    b = needed(context.pick(lambda v: v.type.element is a.type.element and _broadcasts(a, v)))
    both = Expr("", Type(a.type.element, common_shape(a.type, b.type)))
    condition = context.pick(lambda v: v.type.element is I1 and _broadcasts(both, v))
    if condition is None or context.chance(0.3):
        compared = needed(context.pick(lambda v: arithmetic_value(v) and _broadcasts(both, v)))
        limit = _constant(context, compared.type.element)
        condition = binary(context.choose(elementwise.COMPARISONS), compared, limit)
    shape = common_shape(both.type, condition.type)
    if Type(I1, shape).size > context.features.most_elements:
        return
    context.bind(where(condition, a, b))


def castable(context: Context, x: Expr, target: Element) -> Expr | None:
    """Return a value that can be converted to the type with a defined result, or None."""
    source = x.type.element
    # In a wider type, the error of an approximate value would amount to more units in the last
    # place.
    if x.fact.approximate and not (target.is_float and 16 <= target.bits <= source.bits):
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


def conversion(context: Context) -> None:
    """Add a cast; narrowing casts are frequent."""
    x = needed(context.pick())
    target = context.element()
    ready = needed(castable(context, x, target))
    if target is x.type.element:
        return
    if target in FP8 and x.fact.approximate:
        return
    context.bind(cast(ready, target))


def bitcast(context: Context) -> None:
    """Add a bitcast to another type of the same width."""
    x = needed(context.pick(lambda v: v.type.element is not I1))
    if x.fact.approximate or x.fact.signless:
        return
    source = x.type.element
    if source.is_float and (x.fact.nan or not x.fact.exact):
        return  # the bits of a NaN are unspecified
    choices = [e for e in (*INTEGERS, *FLOATS, *FP8) if e.bits == source.bits and e is not source]
    context.bind(elementwise.bitcast(x, context.choose(choices)))


def function(context: Context) -> None:
    """Add an approximate function, or a division of floats."""
    name = context.choose([*elementwise.FUNCTIONS, "divide"])
    if name == "divide":
        a, b = needed(
            operands(context, lambda v: v.type.element in (F32, F16, F64) and v.fact.exact)
        )
        if b.op != "number":
            b = binary("maximum", b, number(1.0, b.type.element))
        elif b.attrs["value"] == 0:
            return
        if not a.fact.exact:
            return
        context.bind(binary("divide", a, b))
        return
    _, _, low, high = elementwise.FUNCTIONS[name]
    x = needed(context.pick(lambda v: v.type.element in (F32, F64) and v.fact.exact))
    if x.fact.low < low:
        x = binary("maximum", x, number(max(low, -16.0) if low < 0 else 0.5, x.type.element))
    if x.fact.high > high:
        x = binary("minimum", x, number(16.0, x.type.element))
    context.bind(unary(name, x))


def swap(context: Context) -> None:
    """Add a tuple assignment."""
    a, b = context.pick(), context.pick()
    context.bind(pair(needed(a), needed(b)))


def assembly(context: Context) -> None:
    """Add an inline-assembly operation with two results."""
    a = needed(context.pick(lambda v: v.type.element is I32 and bool(v.type.shape)))
    b = context.pick(lambda v: v.type == a.type) or a
    context.bind(sum_and_difference(a, b, pure=context.chance(0.7)))


RULES: dict[Rule, int] = {
    arithmetic: 10,
    bitwise: 4,
    shift: 4,
    division: 3,
    extremes: 8,
    comparison: 4,
    selection: 5,
    conversion: 8,
    bitcast: 2,
    function: 6,
    swap: 1,
    assembly: 1,
}
