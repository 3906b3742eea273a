"""Operations that combine elements: reductions, scans, sorting, histograms, products of matrices.

Combining functions are folded in the order of the elements. The generator uses only operands for
which every other order gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ttools.fuzz.elements import F32, I32, U32, Array, Element
from ttools.fuzz.facts import Fact, either, limited, multiplied, repeated, whole, within
from ttools.fuzz.operations import elementwise
from ttools.fuzz.operations.table import Frame, operation
from ttools.fuzz.program import Expr, Type
from ttools.fuzz.rounding import convert

Fold = Callable[..., tuple[Array, ...]]


@dataclass(frozen=True)
class Combine:
    """A combining function.

    Attributes:
        operands: Number of tensors that it combines together, as in `tl.reduce((a, b), ...)`.
        text: Triton source of the function.
        fold: The function in NumPy; the types of the operands are its last arguments.
        commutative: If True, `tl.reduce` may use it on a GPU, too.
    """

    operands: int
    text: str
    fold: Fold
    commutative: bool = True


def _add(x: Array, y: Array, element: Element) -> Array:
    if element.is_float and element.bits < 32:
        return (x.astype(np.float32) + y.astype(np.float32)).astype(element.numpy)
    return np.asarray(x + y)


def _arg(v: Array, i: Array, w: Array, j: Array, *_: Element) -> tuple[Array, ...]:
    first = (v > w) | ((v == w) & (i < j))
    return np.where(first, v, w), np.where(first, i, j)


def _larger(x: Array, y: Array, element: Element) -> Array:
    return np.maximum(x, y)


COMBINES = {
    "f_add": Combine(1, "def f_add(a, b):\n    return a + b", lambda a, b, e: (_add(a, b, e),)),
    "f_max": Combine(
        1, "def f_max(a, b):\n    return tl.maximum(a, b)", lambda a, b, e: (_larger(a, b, e),)
    ),
    "f_or": Combine(1, "def f_or(a, b):\n    return a | b", lambda a, b, e: (a | b,)),
    "f_xor": Combine(1, "def f_xor(a, b):\n    return a ^ b", lambda a, b, e: (a ^ b,)),
    "f_mul": Combine(1, "def f_mul(a, b):\n    return a * b", lambda a, b, e: (a * b,)),
    "f_last": Combine(
        1, "def f_last(a, b):\n    return b", lambda a, b, e: (b,), commutative=False
    ),
    "f_set": Combine(
        1,
        "def f_set(a, b):\n    return tl.where(a != 0, a, b)",
        lambda a, b, e: (np.asarray(np.where(a != 0, a, b)),),
        commutative=False,
    ),
    "f_pick": Combine(
        1,
        "def f_pick(a, b):\n    if a < b:\n        return b\n    return a",
        lambda a, b, e: (np.asarray(np.where(a < b, b, a)),),
    ),
    "f_lin": Combine(
        2,
        "def f_lin(a0, b0, a1, b1):\n    return a0 * a1, b0 * a1 + b1",
        lambda a0, b0, a1, b1, e, f: (a0 * a1, b0 * a1 + b1),
        commutative=False,
    ),
    "f_arg": Combine(
        2,
        "def f_arg(v0, i0, v1, i1):\n"
        "    first = (v0 > v1) | ((v0 == v1) & (i0 < i1))\n"
        "    return tl.where(first, v0, v1), tl.where(first, i0, i1)",
        _arg,
    ),
    "f_three": Combine(
        3,
        "def f_three(a0, b0, c0, a1, b1, c1):\n    return a0 + a1, tl.maximum(b0, b1), c0 ^ c1",
        lambda a0, b0, c0, a1, b1, c1, e, f, g: (
            _add(a0, a1, e),
            _larger(b0, b1, f),
            c0 ^ c1,
        ),
    ),
}


def folded(
    name: str, values: Sequence[Array], types: Sequence[Element], axis: int, reverse: bool
) -> list[list[Array]]:
    """Return the folded values after each step along an axis; the arrays lack that axis."""
    fold = COMBINES[name].fold
    size = values[0].shape[axis]
    order = range(size - 1, -1, -1) if reverse else range(size)
    steps = [[np.take(v, i, axis) for v in values] for i in order]
    carry, carries = steps[0], [steps[0]]
    with np.errstate(all="ignore"):
        for step in steps[1:]:
            made = fold(*carry, *step, *types)
            carry = [np.asarray(x).astype(v.dtype) for x, v in zip(made, values, strict=True)]
            carries.append(carry)
    return carries


def _keeping(x: Array, expr: Expr) -> Array:
    return np.asarray(x).reshape(expr.type.shape)


def _axis(expr: Expr) -> int | None:
    axis: int | None = expr.attrs["axis"]
    return axis


def _write_reduce(expr: Expr, args: Sequence[str]) -> str:
    operand = args[0] if len(args) == 1 else f"({', '.join(args)})"
    keep = ", keep_dims=True" if expr.attrs["keep"] else ""
    return f"tl.reduce({operand}, {expr.attrs['axis']}, {expr.attrs['combine']}{keep})"


@operation("reduce", _write_reduce)
def _reduce(expr: Expr, args: Sequence[Array], frame: Frame) -> Any:
    axis = _axis(expr)
    values = [x.reshape(-1) for x in args] if axis is None else list(args)
    types = [arg.type.element for arg in expr.args]
    last = folded(expr.attrs["combine"], values, types, axis or 0, False)[-1]
    results = tuple(_keeping(x, expr) for x in last)
    return results if expr.more else results[0]


def reduced_shape(x: Type, axis: int | None, keep: bool) -> tuple[int, ...]:
    """Return the shape of a reduction's result."""
    if axis is None:
        return (1,) * len(x.shape) if keep else ()
    middle = (1,) if keep else ()
    return (*x.shape[:axis], *middle, *x.shape[axis + 1 :])


def combine_facts(name: str, args: Sequence[Expr], count: int) -> list[Fact]:
    """Return the facts of a combining function's result for up to `count` elements."""
    facts = [arg.fact for arg in args]
    elements = [arg.type.element for arg in args]
    if name == "f_add":
        facts = [repeated(facts[0], count)]
    elif name == "f_three":
        facts = [repeated(facts[0], count), facts[1], whole(elements[2])]
    elif name in ("f_mul", "f_lin", "f_or", "f_xor"):
        facts = [whole(element) for element in elements]
    return [
        replace(limited(fact, element), signless=element.is_float)
        for fact, element in zip(facts, elements, strict=True)
    ]


def reduce(name: str, args: Sequence[Expr], axis: int | None, keep: bool) -> Expr:
    """Return an expression for `tl.reduce` with a combining function of COMBINES."""
    count = args[0].type.size if axis is None else args[0].type.shape[axis]
    shape = reduced_shape(args[0].type, axis, keep)
    facts = combine_facts(name, args, count)
    types = [Type(arg.type.element, shape) for arg in args]
    more = tuple(zip(types[1:], facts[1:], strict=True))
    attrs = {"axis": axis, "keep": keep, "combine": name}
    return Expr("reduce", types[0], tuple(args), attrs, facts[0], more)


def _write_scan(expr: Expr, args: Sequence[str]) -> str:
    operand = args[0] if len(args) == 1 else f"({', '.join(args)})"
    reverse = ", reverse=True" if expr.attrs["reverse"] else ""
    return f"tl.associative_scan({operand}, {expr.attrs['axis']}, {expr.attrs['combine']}{reverse})"


def _scanned(expr: Expr, name: str, args: Sequence[Array]) -> tuple[Array, ...]:
    axis, reverse = expr.attrs["axis"], expr.attrs["reverse"]
    types = [arg.type.element for arg in expr.args]
    steps = folded(name, args, types, axis, reverse)
    if reverse:
        steps.reverse()
    return tuple(np.stack([step[i] for step in steps], axis) for i in range(len(args)))


@operation("scan", _write_scan)
def _scan(expr: Expr, args: Sequence[Array], frame: Frame) -> Any:
    results = _scanned(expr, expr.attrs["combine"], args)
    return results if expr.more else results[0]


def scan(name: str, args: Sequence[Expr], axis: int, reverse: bool) -> Expr:
    """Return a `tl.associative_scan` expression with a combining function of COMBINES."""
    facts = combine_facts(name, args, args[0].type.shape[axis])
    more = tuple((arg.type, fact) for arg, fact in zip(args[1:], facts[1:], strict=True))
    attrs = {"axis": axis, "reverse": reverse, "combine": name}
    return Expr("scan", args[0].type, tuple(args), attrs, facts[0], more)


@operation("map", "tl.map_elementwise({combine}, {0}, {1})")
def _map(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    x, y = np.broadcast_arrays(*args)
    (result,) = COMBINES[expr.attrs["combine"]].fold(x, y, expr.type.element)
    return np.asarray(result).astype(expr.type.element.numpy)


def mapped(name: str, x: Expr, y: Expr) -> Expr:
    """Return a `tl.map_elementwise` expression whose function chooses one of its operands."""
    fact = replace(either(x.fact, y.fact), signless=x.type.element.is_float)
    return Expr("map", x.type, (x, y), {"combine": name}, fact)


def _write_cumulative(expr: Expr, args: Sequence[str]) -> str:
    reverse = ", reverse=True" if expr.attrs["reverse"] else ""
    return f"tl.{expr.attrs['form']}({args[0]}, {expr.attrs['axis']}{reverse})"


@operation("cumulative", _write_cumulative)
def _cumulative(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    name = "f_add" if expr.attrs["form"] == "cumsum" else "f_mul"
    return _scanned(expr, name, args)[0]


def cumulative(form: str, x: Expr, axis: int, reverse: bool) -> Expr:
    """Return a `tl.cumsum` or `tl.cumprod` expression over elements with 32 bits or more."""
    name = "f_add" if form == "cumsum" else "f_mul"
    fact = combine_facts(name, (x,), x.type.shape[axis])[0]
    return Expr("cumulative", x.type, (x,), {"form": form, "axis": axis, "reverse": reverse}, fact)


# ---- named reductions


def _write_named(expr: Expr, args: Sequence[str]) -> str:
    keep = ", keep_dims=True" if expr.attrs["keep"] else ""
    return f"tl.{expr.attrs['form']}({args[0]}, {expr.attrs['axis']}{keep})"


_FOLDS = {"sum": "f_add", "xor_sum": "f_xor", "max": "f_max"}


@operation("named_reduce", _write_named)
def _named_reduce(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    axis, form = _axis(expr), expr.attrs["form"]
    x = convert(args[0], expr.args[0].type.element, _named_element(form, expr.args[0].type.element))
    flat = x.reshape(-1) if axis is None else x
    axis = axis or 0
    if form in ("argmax", "argmin"):
        indices = np.argmax(flat, axis) if form == "argmax" else np.argmin(flat, axis)
        return _keeping(indices.astype(np.int32), expr)
    if form == "min":
        return _keeping(np.min(flat, axis), expr)
    return _keeping(folded(_FOLDS[form], [flat], [expr.type.element], axis, False)[-1][0], expr)


def _named_element(form: str, element: Element) -> Element:
    """Return the type in which Triton's standard library reduces."""
    if form in ("max", "min") and element.bits < 32:
        return F32 if element.is_float else I32
    if form == "sum" and element.bits < 32 and not element.is_float:
        return I32 if element.kind == "signed" else U32
    return element


def named_reduce(form: str, x: Expr, axis: int | None, keep: bool) -> Expr:
    """Return an expression for `tl.sum`, `max`, `min`, `xor_sum`, `argmax` or `argmin`."""
    element = _named_element(form, x.type.element)
    count = x.type.size if axis is None else x.type.shape[axis]
    fact = elementwise.cast_fact(x.fact, x.type.element, element)
    if form == "sum":
        fact = limited(repeated(fact, count), element)
    elif form == "xor_sum":
        fact = whole(element)
    if form in ("argmax", "argmin"):
        element, fact = I32, within(0, count - 1)
    shape = reduced_shape(x.type, axis, keep)
    attrs = {"form": form, "axis": axis, "keep": keep}
    fact = replace(fact, signless=element.is_float)
    return Expr("named_reduce", Type(element, shape), (x,), attrs, fact)


# ---- sorting, counting, products


def _write_sort(expr: Expr, args: Sequence[str]) -> str:
    return f"tl.sort({args[0]}{', descending=True' if expr.attrs['descending'] else ''})"


@operation("sort", _write_sort)
def _sort(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    ascending = np.sort(args[0], axis=-1)
    return np.flip(ascending, -1) if expr.attrs["descending"] else ascending


def sort(x: Expr, descending: bool) -> Expr:
    """Return an expression for `tl.sort` along the last axis, of values without NaN."""
    fact = replace(x.fact, signless=x.type.element.is_float)
    return Expr("sort", x.type, (x,), {"descending": descending}, fact)


@operation("histogram", "tl.histogram({0}, {bins})")
def _histogram(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    return np.bincount(args[0], minlength=expr.attrs["bins"]).astype(np.int32)


def histogram(x: Expr, bins: int) -> Expr:
    """Return a `tl.histogram` expression for a vector of i32, each element of which is in a bin."""
    fact = within(0, x.type.size)
    return Expr("histogram", Type(I32, (bins,)), (x,), {"bins": bins}, fact)


def _write_dot(expr: Expr, args: Sequence[str]) -> str:
    parts = [args[0], args[1]]
    if len(args) == 3:
        parts.append(f"acc={args[2]}")
    if expr.attrs["precision"]:
        parts.append(f"input_precision={expr.attrs['precision']!r}")
    if expr.attrs["out"]:
        parts.append(f"out_dtype=tl.{expr.type.element.triton}")
    return f"tl.dot({', '.join(parts)})"


@operation("dot", _write_dot)
def _dot(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    kind = np.float64 if expr.type.element.is_float else np.int64
    product = np.matmul(args[0].astype(kind), args[1].astype(kind))
    if len(args) == 3:
        product = product + args[2].astype(kind)
    return np.asarray(product).astype(expr.type.element.numpy)


def dot(
    a: Expr, b: Expr, acc: Expr | None, element: Element, precision: str = "", out: bool = False
) -> Expr:
    """Return a `tl.dot` expression of whole numbers whose result the type represents exactly."""
    depth = a.type.shape[-1]
    fact = repeated(multiplied(a.fact, b.fact), depth)
    if acc is not None:
        fact = replace(fact, low=fact.low + acc.fact.low, high=fact.high + acc.fact.high)
    shape = (*a.type.shape[:-1], b.type.shape[-1])
    attrs = {"precision": precision, "out": out}
    operands = (a, b) if acc is None else (a, b, acc)
    fact = replace(limited(fact, element), signless=True)
    return Expr("dot", Type(element, shape), operands, attrs, fact)
