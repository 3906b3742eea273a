"""Poison: lanes that a mask or padding leaves undefined hold NaN, or junk if they are integers.

GPUs give zeros there as a rule, which Triton does not promise. Code that relies on them shows in
its results so. Must not know what a check makes of such lanes: it comes behind their passes.
"""

from __future__ import annotations

from ttools.ir import (
    Constant,
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
from ttools.sanitizer.analysis.dataflow import is_read, operations
from ttools.sanitizer.passes.check import Note
from ttools.sanitizer.passes.rewrites import Pass
from ttools.sanitizer.passes.undefined_lanes import mask_of

#: NaN by the name of the type; the other 8-bit floats of Triton's have none, or the last of these.
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
#: Two bytes over and over, as in memory that was never written: negative in any width.
_JUNK = 0xE1D7E1D7E1D7E1D7


def is_needed(module: Module) -> bool:
    """Whether a kernel has lanes that its masks leave undefined."""
    return any(_leaves_undefined(op) for op in operations(module.kernel))


def apply(module: Module) -> list[Note]:
    """Gives undefined lanes of loads and atomics a value; the module is rewritten in place.

    Returns:
        Nothing: all of them can be given one.
    """
    rewriter = Rewriter()
    results: list[tuple[Operation, Value, Operation]] = []
    for op in [op for op in operations(module.kernel) if _leaves_undefined(op)]:
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


#: The one pass: equal launches find their native code by it.
PASS = Pass("poison", "poison", apply)


def _leaves_undefined(op: Operation) -> bool:
    if not (is_read(op) and op.results and mask_of(op) is not None):
        return False
    filled = op.has(LOADS) and len(op.operands) > 2
    element = element_type(op.results[0].type)
    known = isinstance(element, IntegerType) or getattr(element, "name", "") in _NANS
    return known and not filled


def _poison(b: Builder, type: Type) -> Value:
    """A constant, or a tensor of equal ones."""
    element = element_type(type)
    if isinstance(element, FloatType):
        bits = _NANS[element.name]
    else:
        assert isinstance(element, IntegerType)
        bits = _JUNK & ((1 << element.width) - 1)
    return b.value("arith.constant", [], type, {"value": Constant(type, (bits,))})
