"""Rows of the mathematical functions of `triton.language`.

Bounds are the documented errors of the hardware or of libdevice, plus 2 ulp for the engine's error.
"""

from __future__ import annotations

from tools.gpu_op_table.rows import EXACT, Bound, Operation, Row, lanes

EX2 = "exp is ex2.approx(x·log2 e): the product's rounding grows with |x|"
EX2_APPROX = "exp2 is ex2.approx.f32, within 2 ulp; denormal results are flushed"
LIBDEVICE_1 = "libdevice, within 1 ulp"
LIBDEVICE_2 = "libdevice, within 2 ulp"
DENORMAL = 1.2e-38  # just above the smallest normal f32, so that flushing matters most

_F32 = (
    Operation("exp(x), |x| ≤ 1", "tl.exp(x)", Bound(4, why=EX2), (-1.0, 1.0)),
    Operation("exp(x), |x| ≤ 87", "tl.exp(x)", Bound(104, why=EX2), (-87.0, 87.0)),
    Operation("exp(x)", "tl.exp(x)", Bound(104, DENORMAL, EX2), "any"),
    Operation("exp2(x)", "tl.exp2(x)", Bound(4, DENORMAL, EX2_APPROX), "any"),
    Operation("log(x)", "tl.log(x)", Bound(4, why=LIBDEVICE_1), "any"),
    Operation("log2(x)", "tl.log2(x)", Bound(4, why=LIBDEVICE_1), "any"),
    Operation("sin(x), |x| ≤ 100", "tl.sin(x)", Bound(4, why=LIBDEVICE_2), (-100, 100)),
    Operation("cos(x), |x| ≤ 100", "tl.cos(x)", Bound(4, why=LIBDEVICE_2), (-100, 100)),
    Operation("sin(x)", "tl.sin(x)", Bound(4, why=LIBDEVICE_2), "any"),
    Operation("cos(x)", "tl.cos(x)", Bound(4, why=LIBDEVICE_2), "any"),
    Operation("erf(x)", "tl.erf(x)", Bound(4, DENORMAL, LIBDEVICE_2), "any"),
    Operation("sqrt(x)", "tl.sqrt(x)", Bound(2, why="sqrt.approx.f32"), "any"),
    Operation("sqrt_rn(x)", "tl.sqrt_rn(x)", EXACT, "any"),
    Operation("rsqrt(x)", "tl.rsqrt(x)", Bound(4, why="rsqrt.approx.f32, within 2 ulp"), "any"),
    Operation("sigmoid(x)", "tl.sigmoid(x)", Bound(104, DENORMAL, EX2), (-80.0, 80.0)),
    Operation("floor(x)", "tl.floor(x)", EXACT, "any"),
    Operation("ceil(x)", "tl.ceil(x)", EXACT, "any"),
)
_F64_WHY = "libdevice, within 1 to 2 ulp"
_F64 = (
    *(
        Operation(f"{name}(x)", f"tl.{name}(x)", Bound(4, why=_F64_WHY), "any")
        for name in ("exp", "exp2", "log", "log2", "erf", "rsqrt")
    ),
    *(
        Operation(f"{name}(x), |x| ≤ 100", f"tl.{name}(x)", Bound(4, why=_F64_WHY), (-100, 100))
        for name in ("sin", "cos")
    ),
    Operation("sqrt(x)", "tl.sqrt(x)"),
    Operation("floor(x)", "tl.floor(x)"),
    Operation("ceil(x)", "tl.ceil(x)"),
)


def rows() -> list[Row]:
    """Return the rows in the order of the report."""
    return [*lanes("math", ["f32"], _F32), *lanes("math", ["f64"], _F64)]
