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


def _compare(call: Call, predicates: tuple[str, ...]) -> Vector:
    predicate = call.op.attributes["predicate"]
    if isinstance(predicate, int):
        predicate = predicates[predicate]
    left, right = call.operands
    return left.compare(str(predicate), right)


def _lower_cmpi(call: Call) -> Vector:
    return _compare(call, _CMPI)


def _lower_cmpf(call: Call) -> Vector:
    # bf16 is held as an exact float and compares as one.
    return _compare(call, _CMPF)


def _lower_select(call: Call) -> Vector:
    condition, then, otherwise = call.operands
    return condition.choose(then, otherwise)


COMPARISON: dict[str, Lowering] = {
    "arith.cmpi": _lower_cmpi,
    "arith.cmpf": _lower_cmpf,
    "arith.select": _lower_select,
}
