"""Values in other types, and constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from ttools.ir import (
    Constant,
    FloatType,
    IntegerType,
    Operation,
    Type,
    as_signed,
    element_type,
    shape_of,
)
from ttools.prove.attributes import same_elements, width_of
from ttools.prove.concrete.lanes import Lanes, hashed, wrapped
from ttools.prove.concrete.operations import otherwise, rule, with_wraps
from ttools.prove.concrete.state import State


@rule("arith.extsi", "arith.index_cast")
def _extend(run: State, op: Operation) -> Lanes:
    value = run.get(op.operands[0])
    if width_of(op.operands[0]) == 1:
        return Lanes(-np.asarray(value.data, np.int64), unknown=value.unknown)
    return value


@rule("arith.extui")
def _extend_unsigned(run: State, op: Operation) -> Lanes:
    value, width = run.get(op.operands[0]), width_of(op.operands[0])
    if width == 1:
        return Lanes(np.asarray(value.data, np.int64), unknown=value.unknown)
    if width >= 64:
        return value
    data = value.data & np.int64((1 << width) - 1)
    if not value.wraps:
        return Lanes(data, unknown=value.unknown)
    return Lanes(data, value.exact, value.wraps, value.unknown)


@rule("arith.trunci")
def _truncate(run: State, op: Operation) -> Lanes:
    value, width = run.get(op.operands[0]), width_of(op.results[0])
    if width == 1:
        return Lanes(np.asarray(value.data & 1, bool), unknown=value.unknown)
    return with_wraps(op, wrapped(value.data, width), value.exact, (value,), value.unknown)


@rule("arith.bitcast", "tt.bitcast")
def _bitcast(run: State, op: Operation) -> Lanes:
    """Pointers to elements of one size count them alike; other values keep their bits."""
    value = run.get(op.operands[0])
    kinds = [element_type(v.type) for v in (op.operands[0], op.results[0])]
    if all(isinstance(k, IntegerType) for k in kinds) or same_elements(*kinds):
        return value
    return otherwise(run, op, op.results[0])


@rule("arith.extf", "arith.truncf", "tt.fp_to_fp")
def _float_cast(run: State, op: Operation) -> Lanes:
    """Constants stay what they are; others stand for themselves in another width."""
    return run.get(op.operands[0])


@rule("arith.constant")
def _constant(run: State, op: Operation) -> Lanes:
    value, result = op.attributes["value"], op.results[0]
    kind = element_type(result.type)
    if not isinstance(value, Constant):
        return otherwise(run, op, result)
    shape = (run.count,) + (1,) * len(shape_of(result.type))
    if isinstance(kind, IntegerType):
        bits: Any = [as_signed(b, kind.width) for b in value.bits]
    else:
        bits = [_float_hash(b, kind) for b in value.bits]
    if value.is_splat:
        dtype: Any = np.int64 if isinstance(kind, IntegerType) else np.uint64
        if isinstance(kind, IntegerType) and kind.width == 1:
            dtype = bool
        return Lanes(np.full(shape, bits[0], dtype))
    dtype = np.int64 if isinstance(kind, IntegerType) else np.uint64
    data = np.array(bits, dtype).reshape((1, *shape_of(result.type)))
    return Lanes(np.broadcast_to(data, (run.count, *shape_of(result.type))))


def _float_hash(bits: int, kind: Type) -> np.uint64:
    if str(kind) in ("f16", "f32", "f64"):
        assert isinstance(kind, FloatType)
        size = kind.width // 8
        return hashed(float(np.array(bits, f"u{size}").view(f"f{size}")))
    return hashed(0.0) if bits == 0 else hashed("bits", str(kind), bits)
