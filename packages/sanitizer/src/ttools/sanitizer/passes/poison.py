"""Fills lanes that a mask or padding leaves undefined with NaN, or with negative integers.

This is the pass of the option `poison`. GPUs usually return zeros in such lanes, but Triton does
not guarantee this. With the option, code that relies on these zeros computes visibly wrong results.
The pass runs after those of all checks.
"""

from __future__ import annotations

from ttools.ir import (
    FloatType,
    IntegerType,
    Module,
    Operation,
    Type,
    Value,
    element_type,
)
from ttools.ir.dialects.traits import LOADS
from ttools.ir.rewriting import Builder, Rewriter, add_operand, replace_uses
from ttools.sanitizer.analysis.dataflow import operations
from ttools.sanitizer.passes.check import Note
from ttools.sanitizer.passes.lanes import float_constant
from ttools.sanitizer.passes.rewrites import Pass
from ttools.sanitizer.passes.undefined_lanes import leaves_lanes_undefined, mask_of

#: Bits of NaN by element type. Triton's other 8-bit floats either have no NaN or have the same NaN
#: as the last entry.
_NANS = {
    "f16": 0x7E00,
    "bf16": 0x7FC0,
    "f32": 0x7FC00000,
    "f64": 0x7FF8 << 48,
    "f8E5M2": 0x7F,
    "f8E4M3FN": 0x7F,
    "f8E4M3FNUZ": 0x80,
    "f8E5M2FNUZ": 0x80,
    "f8E4M3B11FNUZ": 0x80,
}
#: Two bytes, repeated as in memory that was never written; negative as an integer of any width.
_JUNK = 0xE1D7E1D7E1D7E1D7


def is_needed(module: Module) -> bool:
    """Return whether masks leave lanes of a kernel undefined."""
    return any(_takes_poison(op) for op in operations(module.kernel))


def apply(module: Module) -> list[Note]:
    """Give undefined lanes of loads and atomics a value, in place; the returned list is empty."""
    rewriter = Rewriter()
    results: list[tuple[Operation, Value, Operation]] = []
    for op in [op for op in operations(module.kernel) if _takes_poison(op)]:
        (result,) = op.results
        if op.has(LOADS):
            add_operand(op, _poison(rewriter.before(op), result.type))
            if "operandSegmentSizes" in op.attributes:
                op.attributes["operandSegmentSizes"] = (1, 1, 1)
            continue
        mask = mask_of(op)
        assert mask is not None
        b = rewriter.after(op)
        chosen = b.select(mask, result, _poison(b, result.type))
        assert chosen.defining_op is not None
        results.append((op, chosen, chosen.defining_op))
    rewriter.apply()
    for op, chosen, select in results:
        replace_uses(op.result, chosen, keep=select)
    return []


#: There is a single object, because equal launches find their native code by the identity of the
#: pass.
PASS = Pass("poison", "poison", apply)


def _takes_poison(op: Operation) -> bool:
    if not leaves_lanes_undefined(op):
        return False
    element = element_type(op.results[0].type)
    return isinstance(element, IntegerType) or getattr(element, "name", "") in _NANS


def _poison(b: Builder, type: Type) -> Value:
    """Return the constant that fills undefined lanes of a type, as a scalar or as a tensor."""
    element = element_type(type)
    if isinstance(element, FloatType):
        return float_constant(b, type, _NANS[element.name])
    return b.constant(type, _JUNK)
