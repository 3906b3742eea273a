"""Comparisons and selection.

The predicates of MLIR's `arith` dialect are LLVM's; only their spelling as numbers is mapped.
"""

from __future__ import annotations

from ttools.interpreter.elementwise.vector import Call, Lowering, Vector

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
