"""Rules for bitcasts, for conversions between float types, and for float constants."""

from __future__ import annotations

import numpy as np

from ttools.ir import (
    Constant,
    FloatType,
    IntegerType,
    Operation,
    Type,
    element_type,
    shape_of,
)
from ttools.prove.attributes import same_elements
from ttools.prove.concrete.lanes import Lanes, hashed
from ttools.prove.concrete.operations import otherwise, rule
from ttools.prove.concrete.state import State


@rule("arith.bitcast", "tt.bitcast")
def _bitcast(run: State, op: Operation) -> Lanes:
    """Return the operand if both types are integers, or pointers to elements of equal size."""
    value = run.get(op.operands[0])
    kinds = [element_type(v.type) for v in (op.operands[0], op.results[0])]
    if all(isinstance(k, IntegerType) for k in kinds) or same_elements(*kinds):
        return value
    return otherwise(run, op, op.results[0])


@rule("arith.extf", "arith.truncf", "tt.fp_to_fp")
def _float_cast(run: State, op: Operation) -> Lanes:
    """Return the operand, because a float is represented by the same hash in every width."""
    return run.get(op.operands[0])


@rule("arith.constant")
def _constant(run: State, op: Operation) -> Lanes:
    value, result = op.attributes["value"], op.results[0]
    if not isinstance(value, Constant):
        return otherwise(run, op, result)
    kind, shape = element_type(result.type), shape_of(result.type)
    bits = [_float_hash(b, kind) for b in value.bits]
    if value.is_splat:
        return Lanes(np.full((run.count,) + (1,) * len(shape), bits[0], np.uint64))
    data = np.array(bits, np.uint64).reshape((1, *shape))
    return Lanes(np.broadcast_to(data, (run.count, *shape)))


def _float_hash(bits: int, kind: Type) -> np.uint64:
    if str(kind) in ("f16", "f32", "f64"):
        assert isinstance(kind, FloatType)
        size = kind.width // 8
        return hashed(float(np.array(bits, f"u{size}").view(f"f{size}")))
    return hashed(0.0) if bits == 0 else hashed("bits", str(kind), bits)
