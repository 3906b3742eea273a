"""Lowering of elementwise operations on vectors to LLVM IR: one table per family of operations.

`lower` translates one operation on `width` lanes to instructions. Values have the LLVM type that
`register_type` returns for their element type. The schedule, not this package, decides when and
where an operation is computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import ttools.ir as ir
from ttools.core.errors import UnsupportedError
from ttools.interpreter.elementwise.casts import CASTS
from ttools.interpreter.elementwise.costs import cost
from ttools.interpreter.elementwise.floating import FLOATING
from ttools.interpreter.elementwise.formats import FP8, narrow_from_f32, widen_to_f32
from ttools.interpreter.elementwise.integer import INTEGER
from ttools.interpreter.elementwise.libdevice import LIBDEVICE
from ttools.interpreter.elementwise.mathematics import MATHEMATICS
from ttools.interpreter.elementwise.ptx import lower_inline_assembly, pack_of
from ttools.interpreter.elementwise.vector import Call, Lanes, Lowering, Vector
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import SSAValue
from ttools.ir.type_names import type_in_words

__all__ = [
    "cost",
    "has_effects",
    "is_elementwise",
    "is_lanewise",
    "lower",
    "narrow_from_f32",
    "widen_to_f32",
]

# The predicates of comparisons in the order of their numbers in MLIR; LLVM has the same names.
_CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_CMPF = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)


def _comparison(predicates: tuple[str, ...]) -> Lowering:
    def lower(call: Call) -> Vector:
        predicate = call.op.attributes["predicate"]
        if isinstance(predicate, int):
            predicate = predicates[predicate]
        left, right = call.operands
        return left.compare(str(predicate), right)

    return lower


def _lower_select(call: Call) -> Vector:
    condition, then, otherwise = call.operands
    return condition.choose(then, otherwise)


COMPARISON: dict[str, Lowering] = {
    "arith.cmpi": _comparison(_CMPI),
    "arith.cmpf": _comparison(_CMPF),  # bf16 is held as an exact float and compares as one
    "arith.select": _lower_select,
}


_LOWERINGS: dict[str, Lowering] = {
    **INTEGER,
    **FLOATING,
    **COMPARISON,
    **CASTS,
    **MATHEMATICS,
    **LIBDEVICE,
    "tt.elementwise_inline_asm": lower_inline_assembly,
}


# Operations on 8-bit floats; as on a GPU, there is no arithmetic with them.
_ANY_FLOAT = frozenset(CASTS) | {
    "arith.select",
    "arith.negf",
    "math.absf",
    "tt.elementwise_inline_asm",
}


def is_elementwise(name: str) -> bool:
    """Return whether `lower` supports the operation `name`."""
    return name in _LOWERINGS


def has_effects(op: ir.Operation) -> bool:
    """Return whether an elementwise operation must run once and in program order, even if unused.

    This is only the case for inline assembly that is not declared pure.
    """
    return op.name == "tt.elementwise_inline_asm" and not op.attributes.get("pure", False)


def is_lanewise(op: ir.Operation) -> bool:
    """Return whether each element of the results depends only on the same element of the operands.

    Inline assembly whose registers contain several elements may combine them. Such elements form
    groups that are aligned along the last axis. The elements of a group must be lowered together,
    even if all are equal.
    """
    return op.name != "tt.elementwise_inline_asm" or pack_of(op) == 1


def lower(
    builder: Builder, op: ir.Operation, width: int, operands: Sequence[SSAValue]
) -> list[SSAValue]:
    """Append the instructions for `op` on `width` lanes to a builder.

    Args:
        builder: Receives the instructions, and the functions that they call.
        op: An elementwise operation; only its types and attributes are used.
        width: The number of lanes; 1 means scalars.
        operands: For each operand, an SSA name or literal of the type
            `vector_type(register_type(element), width)`.

    Returns:
        The results, in the same form.

    Raises:
        UnsupportedError: The operation, or its type, has no lowering.
    """
    lowering = _LOWERINGS.get(op.name)
    if lowering is None:
        raise UnsupportedError(f"operation {op.name}", op.location)
    for operand in op.operands:
        element = ir.element_type(operand.type)
        if isinstance(element, ir.FloatType) and element.name in FP8 and op.name not in _ANY_FLOAT:
            raise UnsupportedError(
                f"{op.name} of {type_in_words(element)}",
                op.location,
                "convert 8-bit floats to float16 or wider before computing with them",
            )
    lanes = Lanes(builder, width)
    results = lowering(Call(lanes, op, tuple(map(lanes.value, operands))))
    if isinstance(results, Vector):
        return [results.text]
    return [vector.text for vector in results]
