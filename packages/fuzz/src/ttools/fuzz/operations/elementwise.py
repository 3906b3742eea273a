"""Elementwise operations: arithmetic, comparisons, selection, casts, functions of one operand.

Operands are combined in the type that Triton promotes them to. f16 and bf16 are computed in f32,
and the result is rounded after every operation.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import triton
from triton.language.semantic import TritonSemantic

from ttools.fuzz.elements import BF16, F32, F64, I1, I32, Array, Element, promoted
from ttools.fuzz.facts import (
    WILD,
    Fact,
    added,
    either,
    fits,
    limited,
    multiplied,
    negated,
    whole,
    within,
)
from ttools.fuzz.operations.table import Frame, common_shape, operation
from ttools.fuzz.program import Expr, Type
from ttools.fuzz.rounding import convert

Compute = Callable[[Array, Array, Element], Array]


def _operands(expr: Expr, args: Sequence[Array]) -> list[Array]:
    element = expr.attrs["computation"]
    types = [arg.type.element for arg in expr.args]
    return [convert(x, source, element) for x, source in zip(args, types, strict=True)]


def _in_float(compute: Callable[..., Array], element: Element, *args: Array) -> Array:
    """Compute in f32 or wider, and round the result to the element type."""
    if element.is_float and element.bits < 32:
        return compute(*(x.astype(np.float32) for x in args)).astype(element.numpy)
    return compute(*args)


# ---- arithmetic


def _shift_left(x: Array, y: Array, element: Element) -> Array:
    bits = element.bits
    amount = y.astype(np.dtype(f"uint{bits}"))
    inside = amount < bits
    wide = x.astype(np.dtype(f"uint{bits}")) << np.where(inside, amount, 0)
    return np.where(inside, wide, 0).astype(element.numpy)


def _shift_right(x: Array, y: Array, element: Element) -> Array:
    bits = element.bits
    amount = np.minimum(y.astype(np.dtype(f"uint{bits}")), bits - 1).astype(element.numpy)
    shifted = x >> amount
    if element.kind == "signed":
        return np.asarray(shifted)
    return np.where(y.astype(np.dtype(f"uint{bits}")) >= bits, 0, shifted).astype(element.numpy)


def _quotient(x: Array, y: Array, element: Element) -> Array:
    """Divide with truncation; the smallest value divided by -1 wraps. Divisors must not be zero."""
    if element.kind == "unsigned":
        return np.asarray(x // y)
    quotient = x // y
    remainder = x - quotient * y
    truncated = quotient + ((remainder != 0) & ((x < 0) != (y < 0)))
    return np.asarray(truncated.astype(element.numpy))


def _remainder(x: Array, y: Array, element: Element) -> Array:
    return np.asarray((x - _quotient(x, y, element) * y).astype(element.numpy))


def _larger(x: Array, y: Array, element: Element) -> Array:
    if not element.is_float:
        return np.maximum(x, y)
    # `np.fmax` is not used: its result for a signalling NaN depends on the element's position in
    # the array.
    greater = np.where(np.isnan(y) | (x > y), x, y)
    zeros = (x == 0) & (y == 0)
    return np.asarray(np.where(zeros, _in_float(np.add, element, x, y), greater))


def _smaller(x: Array, y: Array, element: Element) -> Array:
    if not element.is_float:
        return np.minimum(x, y)
    return np.asarray(-_larger(-x, -y, element))


_BINARY: dict[str, tuple[str, Compute]] = {
    "add": ("({0} + {1})", lambda x, y, e: _in_float(np.add, e, x, y)),
    "sub": ("({0} - {1})", lambda x, y, e: _in_float(np.subtract, e, x, y)),
    "mul": ("({0} * {1})", lambda x, y, e: _in_float(np.multiply, e, x, y)),
    "divide": ("({0} / {1})", lambda x, y, e: _in_float(np.divide, e, x, y)),
    "quotient": ("({0} // {1})", _quotient),
    "remainder": ("({0} % {1})", _remainder),
    "and": ("({0} & {1})", lambda x, y, e: x & y),
    "or": ("({0} | {1})", lambda x, y, e: x | y),
    "xor": ("({0} ^ {1})", lambda x, y, e: x ^ y),
    "shl": ("({0} << {1})", _shift_left),
    "shr": ("({0} >> {1})", _shift_right),
    "maximum": ("tl.maximum({0}, {1})", _larger),
    "minimum": ("tl.minimum({0}, {1})", _smaller),
}
_COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "lt": ("({0} < {1})", np.less),
    "le": ("({0} <= {1})", np.less_equal),
    "gt": ("({0} > {1})", np.greater),
    "ge": ("({0} >= {1})", np.greater_equal),
    "eq": ("({0} == {1})", np.equal),
    "ne": ("({0} != {1})", np.not_equal),
}
BITWISE = ("and", "or", "xor")
COMPARISONS = tuple(_COMPARISONS)


def _register_binary(name: str, text: str, compute: Compute) -> None:
    @operation(name, text)
    def evaluate(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
        x, y = _operands(expr, args)
        with np.errstate(all="ignore"):
            return np.asarray(compute(x, y, expr.attrs["computation"]))


for _name, (_text, _compute) in _BINARY.items():
    _register_binary(_name, _text, _compute)
for _name, (_text, _compare) in _COMPARISONS.items():
    _register_binary(_name, _text, lambda x, y, e, f=_compare: np.asarray(f(x, y)))  # type: ignore[misc]


def _binary_fact(op: str, a: Fact, b: Fact, element: Element) -> Fact:
    if op in ("add", "sub"):
        fact = added(a, b if op == "add" else negated(b))
        if not fact.exact:
            fact = replace(WILD, product=False)
    elif op == "mul":
        fact = multiplied(a, b)
    elif op in ("maximum", "minimum"):
        fact = either(a, b)
        if element.is_float and not fact.exact:
            fact = replace(WILD, product=fact.product)
    elif op == "and" and b.low == b.high and b.low >= 0:
        fact = within(0, b.high)
    elif op == "remainder" and b.low == b.high != 0:
        limit = abs(b.high) - 1
        fact = within(0 if a.low >= 0 else -limit, limit)
    elif op == "shr" and 0 <= b.low == b.high and element.is_integer and a.size < math.inf:
        amount = int(b.low)
        fact = within(int(a.low) >> amount, int(a.high) >> amount)
    elif op in BITWISE and element.kind == "bool":
        fact = Fact(0, 1)
    else:
        fact = whole(element) if element.kind != "float" else WILD
    signless = a.signless or b.signless
    return replace(limited(fact, element), signless=signless)


def binary(op: str, a: Expr, b: Expr, element: Element | None = None) -> Expr:
    """Return a binary operation; operands that are `number`s take the other operand's type.

    Args:
        op: Name of an operation of `_BINARY`, or of a comparison.
        element: Type in which the operands are combined; None for the type that Triton promotes to.
    """
    element = element or _computation(op, a, b)
    shape = common_shape(a.type, b.type)
    attrs = {"computation": element}
    if op in _COMPARISONS:
        return Expr(op, Type(I1, shape), (a, b), attrs, Fact(0, 1))
    facts = [_converted(x, element) for x in (a, b)]
    fact = _binary_fact(op, facts[0], facts[1], element)
    if op == "divide":
        fact = Fact(approximate=True, exact=False, ulps=1)
    return Expr(op, Type(element, shape), (a, b), attrs, fact)


@cache
def _extremes_widen() -> bool:
    """Return whether the installed Triton converts operands of `minimum` and `maximum` to tensors.

    In that case, a Python number becomes an i32 or f32, and a bf16 becomes an f32.
    """
    return "to_tensor" in inspect.getsource(inspect.unwrap(triton.language.maximum))


def _computation(op: str, a: Expr, b: Expr) -> Element:
    element = promoted(a.type.element, b.type.element)
    widened = "number" in (a.op, b.op) or BF16 in (a.type.element, b.type.element)
    if widened and op in ("minimum", "maximum") and _extremes_widen():
        element = promoted(element, F32 if element.is_float else I32)
    if op == "divide" and element is not F64:
        return F32
    return element


def _converted(x: Expr, element: Element) -> Fact:
    return cast_fact(x.fact, x.type.element, element)


def cast_fact(fact: Fact, source: Element, target: Element) -> Fact:
    """Return the facts of a converted value."""
    if source is target:
        return fact
    if target.is_integer or target.kind == "bool":
        if not fact.exact or not math.isfinite(fact.size):
            return whole(target)
        return limited(Fact(math.trunc(fact.low), math.trunc(fact.high)), target)
    if fact.approximate:
        return replace(fact, ulps=fact.ulps if target.bits > source.bits else 1)
    if fact.exact and fits(fact, target) and fact.size <= target.largest:
        return replace(fact, product=False)
    return replace(WILD, product=fact.product, signless=fact.signless, nan=fact.nan)


def cast(x: Expr, element: Element) -> Expr:
    """Return `x.to(element)`."""
    if element is x.type.element:
        return x
    fact = cast_fact(x.fact, x.type.element, element)
    return Expr("cast", x.type.of(element), (x,), fact=fact)


def bitcast(x: Expr, element: Element) -> Expr:
    """Return `x.to(element, bitcast=True)`; both types have the same width."""
    fact = WILD if element.is_float else whole(element)
    return Expr("bitcast", x.type.of(element), (x,), fact=fact)


# ---- selection


@operation("where", "tl.where({0}, {1}, {2})")
def _where(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    element = expr.type.element
    x, y = (
        convert(v, a.type.element, element) for v, a in zip(args[1:], expr.args[1:], strict=True)
    )
    return np.where(args[0], x, y).astype(element.numpy)


def where(condition: Expr, a: Expr, b: Expr) -> Expr:
    """Return a `tl.where` expression; facts that hold for both values hold for the result."""
    element = promoted(a.type.element, b.type.element)
    fact = either(_converted(a, element), _converted(b, element))
    shape = common_shape(condition.type, a.type, b.type)
    return Expr("where", Type(element, shape), (condition, a, b), fact=fact)


@operation("clamp", "tl.clamp({0}, {1}, {2})")
def _clamp(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    return np.clip(args[0], args[1], args[2])


def clamp(x: Expr, low: Expr, high: Expr) -> Expr:
    """Return an expression for `tl.clamp` of a float that is not NaN."""
    fact = replace(x.fact, low=max(x.fact.low, low.fact.low), high=min(x.fact.high, high.fact.high))
    if fact.low > fact.high:
        fact = replace(x.fact, low=low.fact.low, high=high.fact.high)
    return Expr("clamp", x.type, (x, low, high), fact=replace(fact, signless=True))


# ---- one operand


@cache
def minus_subtracts() -> bool:
    """Return whether the installed Triton computes `-x` as `0 - x`, which is +0 for zero."""
    return "create_fneg" not in inspect.getsource(TritonSemantic.minus)


def _negative(x: Array, element: Element) -> Array:
    return np.asarray(x.dtype.type(0) - x if minus_subtracts() else -x)


_UNARY: dict[str, tuple[str, Callable[[Array, Element], Array]]] = {
    "neg": ("(-{0})", _negative),
    "invert": ("(~{0})", lambda x, e: ~x),
    "abs": ("tl.abs({0})", lambda x, e: np.abs(x)),
    "floor": ("tl.floor({0})", lambda x, e: np.floor(x)),
    "ceil": ("tl.ceil({0})", lambda x, e: np.ceil(x)),
}

#: Approximate functions: NumPy's function, the largest error of a result in units in the last
#: place, and the bounds of the operands.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], int, float, float]] = {
    "exp": (np.exp, 4, -20.0, 20.0),
    "exp2": (np.exp2, 4, -20.0, 20.0),
    "log": (np.log, 4, 2.0**-8, 2.0**20),
    "log2": (np.log2, 4, 2.0**-8, 2.0**20),
    "sqrt": (np.sqrt, 2, 0.0, 2.0**20),
    "rsqrt": (lambda x: 1.0 / np.sqrt(x), 4, 2.0**-8, 2.0**20),
    "sin": (np.sin, 4, -64.0, 64.0),
    "cos": (np.cos, 4, -64.0, 64.0),
}


def _register_unary(name: str, text: str, compute: Callable[[Array, Element], Array]) -> None:
    @operation(name, text)
    def evaluate(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(compute(args[0], expr.type.element))


def _function(x: Array, element: Element, compute: Callable[[Any], Any]) -> Array:
    return np.asarray(compute(x.astype(np.longdouble))).astype(element.numpy)


for _name, (_text, _one) in _UNARY.items():
    _register_unary(_name, _text, _one)
for _name, (_numpy, *_rest) in FUNCTIONS.items():
    _register_unary(_name, f"tl.{_name}({{0}})", lambda x, e, f=_numpy: _function(x, e, f))  # type: ignore[misc]


def unary(op: str, x: Expr) -> Expr:
    """Return an operation on one operand."""
    element, fact = x.type.element, x.fact
    if op == "neg":
        made = limited(negated(fact), element) if fact.exact else fact
    elif op == "abs":
        made = limited(Fact(0, fact.size, fact.grain), element) if fact.exact else fact
        if element.kind == "signed" and fact.low <= element.low:
            made = whole(element)
    elif op in FUNCTIONS:
        made = Fact(exact=False, approximate=True, ulps=FUNCTIONS[op][1])
    elif op in ("floor", "ceil"):
        made = replace(fact, low=fact.low - 1, high=fact.high + 1)
    else:
        made = whole(element)
    # If `0 - a * b` is fused, a result that underflows keeps its sign; otherwise it is +0.
    fused = op == "neg" and fact.product and minus_subtracts()
    return Expr(op, x.type, (x,), fact=replace(made, signless=fact.signless or fused))


def without_nan(x: Expr) -> Expr:
    """Return the value with NaNs replaced by zero."""
    if not x.fact.nan:
        return x
    same = binary("eq", x, x)
    zero = Expr("number", Type(x.type.element), attrs={"value": 0.0}, fact=within(0, 0))
    chosen = where(same, x, zero)
    return replace(chosen, fact=replace(chosen.fact, nan=False))


# ---- inline assembly


@operation(
    "sum_and_difference",
    'tl.inline_asm_elementwise("add.s32 $0, $2, $3; sub.s32 $1, $2, $3;", "=&r,=r,r,r", '
    "[{0}, {1}], dtype=(tl.int32, tl.int32), is_pure={pure}, pack=1)",
)
def _sum_and_difference(expr: Expr, args: Sequence[Array], frame: Frame) -> tuple[Array, Array]:
    return args[0] + args[1], args[0] - args[1]


def sum_and_difference(a: Expr, b: Expr, *, pure: bool) -> Expr:
    """Return one inline-assembly operation with two results, for tiles of one 32-bit type."""
    fact = whole(a.type.element)
    return Expr("sum_and_difference", a.type, (a, b), {"pure": pure}, fact, ((a.type, fact),))
