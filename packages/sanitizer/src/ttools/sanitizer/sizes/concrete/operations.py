"""Lanes of values at one size as NumPy arrays: integers that wrap, with their exact twins.

Owns what single operations compute. Floats are numbers that stand for how they were computed:
equal ones are equal floats. Must not know control flow nor memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ttools.interpreter.dialects import declared
from ttools.interpreter.ir import (
    Constant,
    IntegerType,
    Operation,
    PointerType,
    Value,
    as_signed,
    element_type,
    shape_of,
)
from ttools.sanitizer.passes.combining import combined_by
from ttools.sanitizer.sizes.algebra.polynomials import Poly

if TYPE_CHECKING:
    from ttools.sanitizer.sizes.concrete.run import ConcreteRun


@dataclass(frozen=True, eq=False)
class Lanes:
    """One value in all programs: the first axis is that of programs.

    Attributes:
        data: integers, elements from the base of a pointer, truth, or how floats came about.
        twin: of integers, what they would be in 64 bits; None if the same.
        wraps: operations that have lost bits on the way, and in which lanes.
        unknown: where nothing is known; None for nowhere.
        base: of a pointer, the argument that it derives from.
    """

    data: Any
    twin: Any = None
    wraps: tuple[tuple[Operation, Any], ...] = ()
    unknown: Any = None
    base: int | None = None

    @property
    def exact(self) -> Any:
        return self.data if self.twin is None else self.twin


def integers(data: Any, unknown: Any = None) -> Lanes:
    """Integers that have not wrapped."""
    return Lanes(data, unknown=unknown)


def hashed(*what: object) -> np.uint64:
    """A number for something."""
    text = hashlib.blake2b(repr(what).encode(), digest_size=8).digest()
    number: np.uint64 = np.uint64(int.from_bytes(text, "little"))
    return number


def mixed(name: object, *parts: Any) -> Any:
    """A number for the result of an operation on operands."""
    total = hashed(name)
    for part in parts:
        value = np.asarray(part).astype(np.uint64)
        total = (total ^ value) * np.uint64(0x9E3779B97F4A7C15)
        total = total ^ (total >> np.uint64(29))
    return total


def spread(data: Any, shape: tuple[int, ...]) -> Any:
    """An array in the shape of a tile; a scalar per program becomes one in all lanes."""
    data = np.asarray(data)
    if data.ndim == 0:
        return np.broadcast_to(data, shape)
    if data.ndim < len(shape):
        data = data.reshape(data.shape[:1] + (1,) * (len(shape) - data.ndim) + data.shape[1:])
    return np.broadcast_to(data, shape)


def wrapped(data: Any, width: int) -> Any:
    """64-bit integers cut to fewer bits, read with their sign."""
    if width >= 64:
        return data
    shift = np.int64(64 - width)
    return (data << shift) >> shift


def _fit(*arrays: Any) -> tuple[Any, ...]:
    """Arrays with their program axis aligned."""
    rank = max(np.ndim(a) for a in arrays)
    return tuple(
        np.reshape(a, a.shape[:1] + (1,) * (rank - np.ndim(a)) + a.shape[1:])
        if np.ndim(a) < rank
        else a
        for a in arrays
    )


def either(*masks: Any) -> Any:
    """Where any is true; None if there is none."""
    found = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else np.logical_or(*_fit(found, mask))
    return found


def select(condition: Lanes, one: Lanes, other: Lanes) -> Lanes:
    """Lane by lane one or the other."""

    def chosen(a: Any, b: Any) -> Any:
        c, x, y = _fit(np.asarray(condition.data, bool), np.asarray(a), np.asarray(b))
        return np.where(c, x, y)

    twin = None
    if one.twin is not None or other.twin is not None:
        twin = chosen(one.exact, other.exact)
    unknown = condition.unknown
    if one.unknown is not None or other.unknown is not None:
        zero = np.zeros(1, bool)
        a = zero if one.unknown is None else one.unknown
        b = zero if other.unknown is None else other.unknown
        unknown = either(unknown, chosen(a, b))
    no = np.zeros(1, bool)
    wraps = tuple((op, chosen(m, no)) for op, m in one.wraps)
    wraps += tuple((op, chosen(no, m)) for op, m in other.wraps)
    base = one.base
    data = chosen(one.data, other.data)
    if one.base != other.base:
        base, unknown = None, np.ones(np.shape(data), bool)
    return Lanes(data, twin, wraps, unknown, base)


def grown(
    run: ConcreteRun, start: Lanes, step: Any, times: int, culprit: Operation | None
) -> Lanes:
    """A value after so many iterations that each add the same to it."""
    by = step.data
    data, amount = _fit(np.asarray(start.data), np.asarray(by))
    exact, _ = _fit(np.asarray(start.exact), np.asarray(by))
    total = exact + amount * np.int64(times)
    unknown = either(start.unknown, step.unknown)
    if start.base is not None or culprit is None:
        moved = data + amount * np.int64(times)
        wraps = start.wraps + step.wraps
        return Lanes(moved, None, wraps, unknown, start.base)
    kept = wrapped(data + amount * np.int64(times), _width(culprit.results[0]))
    return _with_wraps(culprit, kept, total, (start,), unknown)


def _width(value: Value) -> int:
    kind = element_type(value.type)
    return kind.width if isinstance(kind, IntegerType) else 64


def _with_wraps(
    op: Operation, data: Any, exact: Any, operands: tuple[Lanes, ...], unknown: Any
) -> Lanes:
    lost = data != exact
    wraps = tuple(w for each in operands for w in each.wraps)
    if not lost.any():
        return Lanes(data, None, (), unknown)
    if 1 < _width(op.results[0]) < 64 and declared(op.name).noun:
        # Where an operand was wrong before, the first operation counts.
        wraps = (*wraps, (op, lost))
    return Lanes(data, exact, wraps, unknown)


def evaluate(run: ConcreteRun, op: Operation) -> list[Lanes]:
    """The results of an operation that neither accesses memory nor has control flow."""
    rule = _RULES.get(op.name)
    if rule is not None and len(op.results) == 1:
        return [rule(run, op)]
    return [_otherwise(run, op, result) for result in op.results]


def _otherwise(run: ConcreteRun, op: Operation, result: Value) -> Lanes:
    kind = element_type(result.type)
    shape = (run.count, *shape_of(result.type))
    if isinstance(kind, IntegerType):
        data = np.zeros(shape, bool if kind.width == 1 else np.int64)
        return Lanes(data, unknown=np.ones(shape, bool))
    if isinstance(kind, PointerType):
        return Lanes(np.zeros(shape, np.int64), unknown=np.ones(shape, bool))
    parts = [run.get(v) for v in op.operands]
    if op.name == "tt.reduce" and len(parts) == 1:
        axis = op.attributes["axis"]
        assert isinstance(axis, int)
        whole = np.broadcast_to(parts[0].data, (run.count, *shape_of(op.operands[0].type)))
        return Lanes(
            mixed("reduce", np.sum(whole.astype(np.uint64), axis=axis + 1, dtype=np.uint64))
        )
    if any(shape_of(v.type) != shape[1:] for v in op.operands):
        rows = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(shape)
        return Lanes(mixed(op.name, rows, hashed(run.order(op))))
    return Lanes(spread(mixed(op.name, *_fit(*(p.data for p in parts))), shape))


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[ConcreteRun, Operation], Lanes]:
    def rule(run: ConcreteRun, op: Operation) -> Lanes:
        a, b = (run.get(v) for v in op.operands)
        width = _width(op.results[0])
        if width == 1:
            return _otherwise(run, op, op.results[0])
        data = wrapped(function(*_fit(a.data, b.data)), width)
        exact = function(*_fit(a.exact, b.exact))
        return _with_wraps(op, data, exact, (a, b), either(a.unknown, b.unknown))

    return rule


def _plain(function: Callable[..., Any]) -> Callable[[ConcreteRun, Operation], Lanes]:
    """Operations at which a twin ends."""

    def rule(run: ConcreteRun, op: Operation) -> Lanes:
        parts = [run.get(v) for v in op.operands]
        data = function(*_fit(*(p.data for p in parts)))
        if _width(op.results[0]) == 1:
            data = np.asarray(data, bool)
        else:
            data = wrapped(data, _width(op.results[0]))
        return Lanes(data, unknown=either(*(p.unknown for p in parts)))

    return rule


def _quotient(a: Any, b: Any) -> Any:
    safe = np.where(b == 0, 1, b)
    result = np.abs(a) // np.abs(safe)
    return np.where((a < 0) != (safe < 0), -result, result)


def _remainder(a: Any, b: Any) -> Any:
    return a - _quotient(a, b) * np.where(b == 0, 1, b)


def _divided(function: Callable[[Any, Any], Any]) -> Callable[[ConcreteRun, Operation], Lanes]:
    plain = _plain(function)

    def rule(run: ConcreteRun, op: Operation) -> Lanes:
        found, divisor = plain(run, op), run.get(op.operands[1])
        zero = divisor.data == 0
        if not zero.any():
            return found
        return Lanes(
            found.data, unknown=either(found.unknown, zero | np.zeros_like(found.data, bool))
        )

    return rule


def _logic(function: Callable[[Any, Any], Any], decisive: bool | None) -> Any:
    def rule(run: ConcreteRun, op: Operation) -> Lanes:
        a, b = (run.get(v) for v in op.operands)
        found = _plain(function)(run, op)
        if _width(op.results[0]) != 1 or decisive is None or found.unknown is None:
            return found
        settled = [
            (np.asarray(p.data, bool) == decisive)
            & (~p.unknown if p.unknown is not None else np.ones(1, bool))
            for p in (a, b)
        ]
        sure = np.logical_or(*_fit(*settled))
        unknown, sure = _fit(found.unknown, sure)
        return Lanes(np.where(sure, decisive, found.data), unknown=unknown & ~sure)

    return rule


def _extreme(function: Callable[[Any, Any], Any]) -> Callable[[ConcreteRun, Operation], Lanes]:
    def rule(run: ConcreteRun, op: Operation) -> Lanes:
        a, b = (run.get(v) for v in op.operands)
        data = function(*_fit(a.data, b.data))
        if not (a.wraps or b.wraps):
            return Lanes(data, unknown=either(a.unknown, b.unknown))
        exact = function(*_fit(a.exact, b.exact))
        wraps = a.wraps + b.wraps
        return Lanes(data, exact, wraps, either(a.unknown, b.unknown))

    return rule


_PREDICATES: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def _compare(run: ConcreteRun, op: Operation) -> Lanes:
    predicate = str(op.attributes["predicate"])
    a, b = (run.get(v) for v in op.operands)
    left, right = _fit(a.data, b.data)
    unknown = either(a.unknown, b.unknown)
    if a.base is not None or b.base is not None:
        unknown = np.ones(np.broadcast_shapes(left.shape, right.shape), bool)
    if predicate not in ("eq", "ne"):
        if predicate.startswith("u"):
            left, right = left.astype(np.uint64), right.astype(np.uint64)
        predicate = predicate[1:]
    return Lanes(_PREDICATES[predicate](left, right), unknown=unknown)


def _select(run: ConcreteRun, op: Operation) -> Lanes:
    return select(*(run.get(v) for v in op.operands))


def _extended(signed: bool) -> Callable[[ConcreteRun, Operation], Lanes]:
    def rule(run: ConcreteRun, op: Operation) -> Lanes:
        value, width = run.get(op.operands[0]), _width(op.operands[0])
        if width == 1:
            number = np.asarray(value.data, np.int64)
            return Lanes(-number if signed else number, unknown=value.unknown)
        if signed or width >= 64:
            return value
        top = np.int64((1 << width) - 1)
        data = value.data & top
        if not value.wraps:
            return Lanes(data, unknown=value.unknown)
        return Lanes(data, value.exact, value.wraps, value.unknown)

    return rule


def _truncated(run: ConcreteRun, op: Operation) -> Lanes:
    value, width = run.get(op.operands[0]), _width(op.results[0])
    if width == 1:
        return Lanes(np.asarray(value.data & 1, bool), unknown=value.unknown)
    return _with_wraps(op, wrapped(value.data, width), value.exact, (value,), value.unknown)


def _bitcast(run: ConcreteRun, op: Operation) -> Lanes:
    value = run.get(op.operands[0])
    kinds = [element_type(v.type) for v in (op.operands[0], op.results[0])]
    if all(isinstance(k, (IntegerType, PointerType)) for k in kinds):
        if kinds[0] == kinds[1] or not isinstance(kinds[1], PointerType):
            return value
        return Lanes(value.data, unknown=np.ones(np.shape(value.data), bool))
    return _otherwise(run, op, op.results[0])


def _constant(run: ConcreteRun, op: Operation) -> Lanes:
    value, result = op.attributes["value"], op.results[0]
    kind = element_type(result.type)
    if not isinstance(value, Constant):
        return _otherwise(run, op, result)
    shape = (run.count,) + (1,) * len(shape_of(result.type))
    if isinstance(kind, IntegerType):
        bits: Any = [as_signed(b, kind.width) for b in value.bits]
    else:
        bits = [_float_hash(b, str(kind)) for b in value.bits]
    if value.is_splat:
        dtype: Any = np.int64 if isinstance(kind, IntegerType) else np.uint64
        if isinstance(kind, IntegerType) and kind.width == 1:
            dtype = bool
        return Lanes(np.full(shape, bits[0], dtype))
    dtype = np.int64 if isinstance(kind, IntegerType) else np.uint64
    data = np.array(bits, dtype).reshape((1, *shape_of(result.type)))
    return Lanes(np.broadcast_to(data, (run.count, *shape_of(result.type))))


_FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_BITS = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}


def _float_hash(bits: int, kind: str) -> np.uint64:
    if kind in _FLOATS:
        return hashed(float(np.array(bits, _BITS[kind]).view(_FLOATS[kind])))
    return hashed(0.0) if bits == 0 else hashed("bits", kind, bits)


def _float_cast(run: ConcreteRun, op: Operation) -> Lanes:
    """Constants stay what they are; others stand for themselves in another width."""
    return run.get(op.operands[0])


def _range(run: ConcreteRun, op: Operation) -> Lanes:
    start, end = op.attributes["start"], op.attributes["end"]
    assert isinstance(start, int)
    assert isinstance(end, int)
    return Lanes(np.broadcast_to(np.arange(start, end, dtype=np.int64), (run.count, end - start)))


def _reshaped(run: ConcreteRun, op: Operation, move: Callable[[Any], Any]) -> Lanes:
    value = run.get(op.operands[0])
    shape = (run.count, *shape_of(op.operands[0].type))

    def moved(data: Any) -> Any:
        return None if data is None else move(spread(data, shape))

    wraps = tuple((o, moved(m)) for o, m in value.wraps)
    return Lanes(moved(value.data), moved(value.twin), wraps, moved(value.unknown), value.base)


def _splat(run: ConcreteRun, op: Operation) -> Lanes:
    rank = len(shape_of(op.results[0].type))
    return _reshaped(run, op, lambda d: d.reshape(d.shape[:1] + (1,) * rank))


def _expand_dims(run: ConcreteRun, op: Operation) -> Lanes:
    axis = op.attributes["axis"]
    assert isinstance(axis, int)
    return _reshaped(run, op, lambda d: np.expand_dims(d, axis + 1))


def _transpose(run: ConcreteRun, op: Operation) -> Lanes:
    order = op.attributes["order"]
    assert isinstance(order, tuple)
    axes = (0, *(int(a) + 1 for a in order))  # type: ignore[arg-type]
    return _reshaped(run, op, lambda d: np.transpose(d, axes))


def _reshape(run: ConcreteRun, op: Operation) -> Lanes:
    shape = (run.count, *shape_of(op.results[0].type))
    return _reshaped(run, op, lambda d: d.reshape(shape))


def _add_pointer(run: ConcreteRun, op: Operation) -> Lanes:
    pointer, offset = (run.get(v) for v in op.operands)
    data = np.add(*_fit(pointer.data, offset.data))
    wraps = list(pointer.wraps)
    if offset.twin is not None:
        wrong = offset.twin != offset.data
        wraps += [(op_, np.logical_and(*_fit(wrong, m))) for op_, m in offset.wraps]
    unknown = either(pointer.unknown, offset.unknown)
    return Lanes(data, None, tuple(wraps), unknown, pointer.base)


def _program_id(run: ConcreteRun, op: Operation) -> Lanes:
    return Lanes(run.programs[:, _axis(op)])


def _num_programs(run: ConcreteRun, op: Operation) -> Lanes:
    return Lanes(np.full(run.count, run.grid[_axis(op)], np.int64))


def _axis(op: Operation) -> int:
    axis = op.attributes["axis"]
    return axis if isinstance(axis, int) else "xyz".index(str(axis))


_COMBINING: dict[str, Any] = {
    "arith.addi": np.add, "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
}  # fmt: skip


def _combined(run: ConcreteRun, op: Operation) -> Lanes:
    combine = _COMBINING.get(combined_by(op) or "")
    value = run.get(op.operands[0])
    kind = element_type(op.operands[0].type)
    if combine is None or not isinstance(kind, IntegerType) or kind.width == 1:
        return _otherwise(run, op, op.results[0])
    if value.unknown is not None and value.unknown.any():
        return _otherwise(run, op, op.results[0])
    axis = op.attributes["axis"]
    assert isinstance(axis, int)
    shape = (run.count, *shape_of(op.operands[0].type))
    reverse = bool(op.attributes.get("reverse"))

    def over(data: Any) -> Any:
        data = spread(data, shape)
        if op.name == "tt.reduce":
            return combine.reduce(data, axis=axis + 1)
        if reverse:
            return np.flip(combine.accumulate(np.flip(data, axis + 1), axis=axis + 1), axis + 1)
        return combine.accumulate(data, axis=axis + 1)

    data = wrapped(over(value.data), kind.width)
    return _with_wraps(op, data, over(value.exact), (), None)


def evaluate_array(poly: Poly, values: Mapping[Any, Any]) -> Any:
    """The value of a polynomial where symbols are arrays of 64-bit integers."""
    functions: dict[str, Callable[..., Any]] = {
        "floordiv": lambda p, d: p // d,
        "mod": lambda p, d: p % d,
        "min": np.minimum,
        "max": np.maximum,
    }
    total: Any = 0
    for monomial, factor in poly.terms.items():
        term: Any = factor
        for symbol in monomial:
            if symbol.args:
                arguments = [evaluate_array(a, values) for a in symbol.args]
                term = term * functions[symbol.kind](*arguments)
            else:
                term = term * values[symbol]
        total = total + term
    return total


_RULES: dict[str, Callable[[ConcreteRun, Operation], Lanes]] = {
    "arith.addi": _arithmetic(np.add),
    "arith.subi": _arithmetic(np.subtract),
    "arith.muli": _arithmetic(np.multiply),
    "arith.shli": _arithmetic(np.left_shift),
    "arith.divsi": _divided(_quotient),
    "arith.remsi": _divided(_remainder),
    "arith.floordivsi": _divided(lambda a, b: a // np.where(b == 0, 1, b)),
    "arith.minsi": _extreme(np.minimum),
    "arith.maxsi": _extreme(np.maximum),
    "arith.andi": _logic(np.bitwise_and, False),
    "arith.ori": _logic(np.bitwise_or, True),
    "arith.xori": _logic(np.bitwise_xor, None),
    "arith.shrsi": _plain(np.right_shift),
    "arith.cmpi": _compare,
    "arith.select": _select,
    "arith.extsi": _extended(True),
    "arith.extui": _extended(False),
    "arith.index_cast": _extended(True),
    "arith.trunci": _truncated,
    "arith.bitcast": _bitcast,
    "arith.extf": _float_cast,
    "arith.truncf": _float_cast,
    "tt.fp_to_fp": _float_cast,
    "tt.bitcast": _bitcast,
    "arith.constant": _constant,
    "tt.make_range": _range,
    "tt.splat": _splat,
    "tt.broadcast": lambda run, op: run.get(op.operands[0]),
    "tt.expand_dims": _expand_dims,
    "tt.trans": _transpose,
    "tt.reshape": _reshape,
    "tt.addptr": _add_pointer,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _num_programs,
    "tt.reduce": _combined,
    "tt.scan": _combined,
}
