"""Costs of elementwise operations, by which the schedule decides whether to compute them twice.

A cost is an estimate of the cycles for 16 f32 lanes on an AVX-512 core. Only the order of the costs
matters.
"""

from __future__ import annotations

import ttools.ir as ir
from ttools.interpreter.elementwise.libm import FUNCTIONS
from ttools.interpreter.elementwise.transcendental import POLYNOMIALS

_CHEAP = 1
_ROUNDING_BF16 = 5
_LIBRARY_CALL = 300
_F64_FACTOR = 2

_COSTS: dict[str, int] = {
    **{f"math.{name}": _LIBRARY_CALL for name in FUNCTIONS},
    **{f"math.{name}": 14 for name in POLYNOMIALS},
    **{f"math.{name}": 26 for name in ("sin", "cos", "tan", "erf", "log1p")},
    "math.powf": 70,
    "arith.remf": 8,
    "math.fpowi": _LIBRARY_CALL,
    "tt.extern_elementwise": 40,
    **dict.fromkeys(("arith.divf", "tt.precise_divf", "tt.approx_divf"), 9),
    **dict.fromkeys(("math.sqrt", "tt.precise_sqrt"), 10),
    "math.rsqrt": 18,
    **dict.fromkeys(
        ("arith.maxnumf", "arith.minnumf", "arith.maximumf", "arith.minimumf"),
        4,
    ),
    "tt.clampf": 8,
    **dict.fromkeys(("arith.fptosi", "arith.fptoui"), 7),
    **dict.fromkeys(("arith.mulsi_extended", "arith.mului_extended", "tt.mulhiui"), 6),
}

_OF_TWO = ("math.powf",)

_DIVISIONS = frozenset(
    f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi")
) | {"arith.ceildivui"}

# Operations on bf16 that need no rounding, because their results are exact.
_UNROUNDED = frozenset(
    ("arith.select", "arith.negf", "arith.maxnumf", "arith.minnumf", "math.absf", "arith.extf")
)


def _division(op: ir.Operation) -> int:
    divisor = op.operands[1].defining_op
    if divisor is not None and divisor.name == "arith.constant":
        return 5
    return 60 if ir.element_type(op.results[0].type) == ir.IntegerType(64) else 30


def _float_cast(source: ir.Type, target: ir.Type) -> int:
    names = str(source), str(target)
    if names[1].startswith("f8"):
        return 16
    if names[0].startswith("f8"):
        return 8
    return _ROUNDING_BF16 if names[1] == "bf16" else 2


def cost(op: ir.Operation) -> int:
    """Return the estimated number of cycles of `op` on 16 lanes.

    An operation with a cost of up to 2 is as cheap as a load of its result. If the cost is 8 or
    more, storing the result is better than computing it twice.
    """
    if op.name in _DIVISIONS:
        return _division(op)
    if op.name == "tt.elementwise_inline_asm":
        # A statement costs about 3 on average; conversions to short floats and functions cost more.
        return 2 + 3 * str(op.attributes.get("asm_string", "")).count(";")
    target = ir.element_type(op.results[0].type)
    source = ir.element_type(op.operands[0].type) if op.operands else target
    if op.name in ("arith.truncf", "arith.extf", "tt.fp_to_fp"):
        return _float_cast(source, target)
    value = _COSTS.get(op.name, _CHEAP)
    if target == ir.FloatType("f64") and value > _CHEAP:
        is_function = op.name.removeprefix("math.") in POLYNOMIALS or op.name in _OF_TWO
        return _LIBRARY_CALL if is_function else value * _F64_FACTOR
    if target == ir.FloatType("bf16") and op.name not in _UNROUNDED:
        value += _ROUNDING_BF16
    return value
