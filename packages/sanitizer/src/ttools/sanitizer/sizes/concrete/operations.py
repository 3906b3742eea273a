"""What single operations compute of lanes. Must not know control flow nor memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

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
from ttools.sanitizer.sizes.attributes import axis_of, range_of, width_of
from ttools.sanitizer.sizes.concrete.lanes import (
    Lanes,
    either,
    fit,
    hashed,
    mixed,
    select,
    spread,
    wrapped,
)
from ttools.sanitizer.sizes.concrete.state import State
from ttools.sanitizer.sizes.rules import Rules

_Rule: TypeAlias = "Callable[[State, Operation], Lanes]"
_rule: Rules[_Rule] = Rules()


def grown(run: State, start: Lanes, step: Any, times: int, culprit: Operation | None) -> Lanes:
    """A value after so many iterations that each add the same to it."""
    by = step.data
    data, amount = fit(np.asarray(start.data), np.asarray(by))
    exact, _ = fit(np.asarray(start.exact), np.asarray(by))
    total = exact + amount * np.int64(times)
    unknown = either(start.unknown, step.unknown)
    if start.base is not None or culprit is None:
        moved = data + amount * np.int64(times)
        wraps = start.wraps + step.wraps
        return Lanes(moved, None, wraps, unknown, start.base)
    kept = wrapped(data + amount * np.int64(times), width_of(culprit.results[0]))
    return _with_wraps(culprit, kept, total, (start,), unknown)


def _with_wraps(
    op: Operation, data: Any, exact: Any, operands: tuple[Lanes, ...], unknown: Any
) -> Lanes:
    lost = data != exact
    wraps = tuple(w for each in operands for w in each.wraps)
    if not lost.any():
        return Lanes(data, None, (), unknown)
    if 1 < width_of(op.results[0]) < 64 and declared(op.name).noun:
        # Where an operand was wrong before, the first operation counts.
        wraps = (*wraps, (op, lost))
    return Lanes(data, exact, wraps, unknown)


def evaluate(run: State, op: Operation) -> list[Lanes]:
    """The results of an operation that neither accesses memory nor has control flow."""
    rule = _rule.get(op.name)
    if rule is not None and len(op.results) == 1:
        return [rule(run, op)]
    return [_otherwise(run, op, result) for result in op.results]


def _otherwise(run: State, op: Operation, result: Value) -> Lanes:
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
    return Lanes(spread(mixed(op.name, *fit(*(p.data for p in parts))), shape))


def _arithmetic(function: Callable[[Any, Any], Any]) -> _Rule:
    def rule(run: State, op: Operation) -> Lanes:
        a, b = (run.get(v) for v in op.operands)
        width = width_of(op.results[0])
        if width == 1:
            return _otherwise(run, op, op.results[0])
        data = wrapped(function(*fit(a.data, b.data)), width)
        exact = function(*fit(a.exact, b.exact))
        return _with_wraps(op, data, exact, (a, b), either(a.unknown, b.unknown))

    return rule


def _plain(function: Callable[..., Any]) -> _Rule:
    """Operations at which a twin ends."""

    def rule(run: State, op: Operation) -> Lanes:
        parts = [run.get(v) for v in op.operands]
        data = function(*fit(*(p.data for p in parts)))
        if width_of(op.results[0]) == 1:
            data = np.asarray(data, bool)
        else:
            data = wrapped(data, width_of(op.results[0]))
        return Lanes(data, unknown=either(*(p.unknown for p in parts)))

    return rule


def _quotient(a: Any, b: Any) -> Any:
    safe = np.where(b == 0, 1, b)
    result = np.abs(a) // np.abs(safe)
    return np.where((a < 0) != (safe < 0), -result, result)


def _remainder(a: Any, b: Any) -> Any:
    return a - _quotient(a, b) * np.where(b == 0, 1, b)


def _divided(function: Callable[[Any, Any], Any]) -> _Rule:
    plain = _plain(function)

    def rule(run: State, op: Operation) -> Lanes:
        found, divisor = plain(run, op), run.get(op.operands[1])
        zero = divisor.data == 0
        if not zero.any():
            return found
        return Lanes(
            found.data, unknown=either(found.unknown, zero | np.zeros_like(found.data, bool))
        )

    return rule


def _logic(function: Callable[[Any, Any], Any], decisive: bool | None) -> Any:
    def rule(run: State, op: Operation) -> Lanes:
        a, b = (run.get(v) for v in op.operands)
        found = _plain(function)(run, op)
        if width_of(op.results[0]) != 1 or decisive is None or found.unknown is None:
            return found
        settled = [
            (np.asarray(p.data, bool) == decisive)
            & (~p.unknown if p.unknown is not None else np.ones(1, bool))
            for p in (a, b)
        ]
        sure = np.logical_or(*fit(*settled))
        unknown, sure = fit(found.unknown, sure)
        return Lanes(np.where(sure, decisive, found.data), unknown=unknown & ~sure)

    return rule


def _extreme(function: Callable[[Any, Any], Any]) -> _Rule:
    def rule(run: State, op: Operation) -> Lanes:
        a, b = (run.get(v) for v in op.operands)
        data = function(*fit(a.data, b.data))
        if not (a.wraps or b.wraps):
            return Lanes(data, unknown=either(a.unknown, b.unknown))
        exact = function(*fit(a.exact, b.exact))
        wraps = a.wraps + b.wraps
        return Lanes(data, exact, wraps, either(a.unknown, b.unknown))

    return rule


_PREDICATES: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@_rule("arith.cmpi")
def _compare(run: State, op: Operation) -> Lanes:
    predicate = str(op.attributes["predicate"])
    a, b = (run.get(v) for v in op.operands)
    left, right = fit(a.data, b.data)
    unknown = either(a.unknown, b.unknown)
    if a.base is not None or b.base is not None:
        unknown = np.ones(np.broadcast_shapes(left.shape, right.shape), bool)
    if predicate not in ("eq", "ne"):
        if predicate.startswith("u"):
            left, right = left.astype(np.uint64), right.astype(np.uint64)
        predicate = predicate[1:]
    return Lanes(_PREDICATES[predicate](left, right), unknown=unknown)


@_rule("arith.select")
def _select(run: State, op: Operation) -> Lanes:
    return select(*(run.get(v) for v in op.operands))


def _extended(signed: bool) -> _Rule:
    def rule(run: State, op: Operation) -> Lanes:
        value, width = run.get(op.operands[0]), width_of(op.operands[0])
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


@_rule("arith.trunci")
def _truncated(run: State, op: Operation) -> Lanes:
    value, width = run.get(op.operands[0]), width_of(op.results[0])
    if width == 1:
        return Lanes(np.asarray(value.data & 1, bool), unknown=value.unknown)
    return _with_wraps(op, wrapped(value.data, width), value.exact, (value,), value.unknown)


@_rule("arith.bitcast", "tt.bitcast")
def _bitcast(run: State, op: Operation) -> Lanes:
    value = run.get(op.operands[0])
    kinds = [element_type(v.type) for v in (op.operands[0], op.results[0])]
    if all(isinstance(k, (IntegerType, PointerType)) for k in kinds):
        if kinds[0] == kinds[1] or not isinstance(kinds[1], PointerType):
            return value
        return Lanes(value.data, unknown=np.ones(np.shape(value.data), bool))
    return _otherwise(run, op, op.results[0])


@_rule("arith.constant")
def _constant(run: State, op: Operation) -> Lanes:
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


@_rule("arith.extf", "arith.truncf", "tt.fp_to_fp")
def _float_cast(run: State, op: Operation) -> Lanes:
    """Constants stay what they are; others stand for themselves in another width."""
    return run.get(op.operands[0])


@_rule("tt.make_range")
def _range(run: State, op: Operation) -> Lanes:
    start, end = range_of(op)
    return Lanes(np.broadcast_to(np.arange(start, end, dtype=np.int64), (run.count, end - start)))


def _reshaped(run: State, op: Operation, move: Callable[[Any], Any]) -> Lanes:
    value = run.get(op.operands[0])
    shape = (run.count, *shape_of(op.operands[0].type))

    def moved(data: Any) -> Any:
        return None if data is None else move(spread(data, shape))

    wraps = tuple((o, moved(m)) for o, m in value.wraps)
    return Lanes(moved(value.data), moved(value.twin), wraps, moved(value.unknown), value.base)


@_rule("tt.splat")
def _splat(run: State, op: Operation) -> Lanes:
    rank = len(shape_of(op.results[0].type))
    return _reshaped(run, op, lambda d: d.reshape(d.shape[:1] + (1,) * rank))


@_rule("tt.expand_dims")
def _expand_dims(run: State, op: Operation) -> Lanes:
    axis = op.attributes["axis"]
    assert isinstance(axis, int)
    return _reshaped(run, op, lambda d: np.expand_dims(d, axis + 1))


@_rule("tt.trans")
def _transpose(run: State, op: Operation) -> Lanes:
    order = op.attributes["order"]
    assert isinstance(order, tuple)
    axes = (0, *(int(a) + 1 for a in order))  # type: ignore[arg-type]
    return _reshaped(run, op, lambda d: np.transpose(d, axes))


@_rule("tt.reshape")
def _reshape(run: State, op: Operation) -> Lanes:
    shape = (run.count, *shape_of(op.results[0].type))
    return _reshaped(run, op, lambda d: d.reshape(shape))


@_rule("tt.addptr")
def _add_pointer(run: State, op: Operation) -> Lanes:
    pointer, offset = (run.get(v) for v in op.operands)
    data = np.add(*fit(pointer.data, offset.data))
    wraps = list(pointer.wraps)
    if offset.twin is not None:
        wrong = offset.twin != offset.data
        wraps += [(op_, np.logical_and(*fit(wrong, m))) for op_, m in offset.wraps]
    unknown = either(pointer.unknown, offset.unknown)
    return Lanes(data, None, tuple(wraps), unknown, pointer.base)


@_rule("tt.get_program_id")
def _program_id(run: State, op: Operation) -> Lanes:
    return Lanes(run.programs[:, axis_of(op)])


@_rule("tt.get_num_programs")
def _num_programs(run: State, op: Operation) -> Lanes:
    return Lanes(np.full(run.count, run.grid[axis_of(op)], np.int64))


_COMBINING: dict[str, Any] = {
    "arith.addi": np.add, "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
}  # fmt: skip


@_rule("tt.reduce", "tt.scan")
def _combined(run: State, op: Operation) -> Lanes:
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


_rule("arith.addi")(_arithmetic(np.add))
_rule("arith.subi")(_arithmetic(np.subtract))
_rule("arith.muli")(_arithmetic(np.multiply))
_rule("arith.shli")(_arithmetic(np.left_shift))
_rule("arith.divsi")(_divided(_quotient))
_rule("arith.remsi")(_divided(_remainder))
_rule("arith.floordivsi")(_divided(lambda a, b: a // np.where(b == 0, 1, b)))
_rule("arith.minsi")(_extreme(np.minimum))
_rule("arith.maxsi")(_extreme(np.maximum))
_rule("arith.andi")(_logic(np.bitwise_and, False))
_rule("arith.ori")(_logic(np.bitwise_or, True))
_rule("arith.xori")(_logic(np.bitwise_xor, None))
_rule("arith.shrsi")(_plain(np.right_shift))
_rule("arith.extsi", "arith.index_cast")(_extended(True))
_rule("arith.extui")(_extended(False))
_rule("tt.broadcast")(lambda run, op: run.get(op.operands[0]))
