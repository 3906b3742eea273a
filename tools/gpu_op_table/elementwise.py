"""Rows of arithmetic, comparisons, selection and casts, lane by lane."""

from __future__ import annotations

from tools.gpu_op_table.rows import (
    DTYPES,
    EXACT,
    FLOATS,
    FP8,
    INTEGERS,
    TRITON_NAMES,
    Bound,
    Input,
    Operation,
    Output,
    Row,
    lanes,
)

NARROW_DIVISION = Bound(ulps=1, why="computed by f32's approximate division, then rounded")
TINY_QUOTIENT = Bound(
    ulps=2, absolute=1.2e-38, why="div.full.f32: within 2 ulp, denormal results may be flushed"
)

_FLOAT_ARITHMETIC = (
    Operation("x + y", "x + y"),
    Operation("x - y", "x - y"),
    Operation("x * y", "x * y"),
    Operation("-x", "-x"),
    Operation("abs(x)", "tl.abs(x)"),
    Operation("fma(x, y, z)", "tl.fma(x, y, z)"),
    Operation("x * y + z", "x * y + z", alone=True),
    Operation("x * y + z, positive", "x * y + z", sample=(0.5, 2.0), alone=True),
    Operation("z - x * y, cancelling", "z - x * y", sample=(0.9, 1.1), alone=True),
    Operation("x * y - z * z, cancelling", "x * y - z * z", sample=(0.9, 1.1), alone=True),
    Operation("x * y * z", "x * y * z", alone=True),
    Operation("x % y", "x % y"),
)
_DIVISIONS = {
    "f64": EXACT,
    "f32": TINY_QUOTIENT,
    "f16": NARROW_DIVISION,
    "bf16": NARROW_DIVISION,
}
_INTEGER_ARITHMETIC = (
    *(Operation(f"x {sign} y", f"x {sign} y") for sign in ("+", "-", "*", "&", "|", "^")),
    Operation("-x", "0 - x"),
    Operation("~x", "~x"),
    Operation("abs(x)", "tl.abs(x)"),
    Operation("x // y", "x // y", sample=("any", "nonzero")),
    Operation("x % y", "x % y", sample=("any", "nonzero")),
    Operation("x // 0", "x // y", sample=("any", "zero"), alone=True),
    Operation("x % 0", "x % y", sample=("any", "zero"), alone=True),
    Operation("x // y, y any", "x // y", alone=True),
    Operation("x % y, y any", "x % y", alone=True),
    Operation("x // y + x % y", "x // y + x % y", alone=True),
    Operation("x << y", "x << y", sample=("any", "shift")),
    Operation("x >> y", "x >> y", sample=("any", "shift")),
)
_WIDE_SHIFTS = (
    Operation("x << y, y too large", "x << y", sample=("any", "overshift")),
    Operation("x >> y, y too large", "x >> y", sample=("any", "overshift")),
    Operation("x << y, y any", "x << y"),
    Operation("x >> y, y any", "x >> y"),
)
_HIGH_PRODUCT = (Operation("umulhi(x, y)", "tl.umulhi(x, y)"),)
_LOGIC = tuple(Operation(f"x {sign} y", f"x {sign} y") for sign in ("&", "|", "^"))
_COMPARISONS = tuple(
    Operation(f"x {sign} y", f"x {sign} y", result="i1")
    for sign in ("<", "<=", ">", ">=", "==", "!=")
)
_SELECTION = (
    Operation("maximum(x, y)", "tl.maximum(x, y)"),
    Operation("minimum(x, y)", "tl.minimum(x, y)"),
    Operation("where(x < y, x, y)", "tl.where(x < y, x, y)"),
)
_ALL = "propagate_nan=tl.PropagateNan.ALL"
_FLOAT_SELECTION = (
    Operation("maximum(x, y), NaN propagated", f"tl.maximum(x, y, {_ALL})"),
    Operation("minimum(x, y), NaN propagated", f"tl.minimum(x, y, {_ALL})"),
    Operation("clamp(x, -1, 2)", "tl.clamp(x, -1.0, 2.0)"),
    Operation("clamp(x, -1, 2), NaN propagated", f"tl.clamp(x, -1.0, 2.0, {_ALL})"),
)
_BITCASTS = (("f32", "i32"), ("f64", "i64"), ("f16", "u16"), ("bf16", "i16"), ("i32", "f32"))
_CAST_DEVIATIONS = {
    ("fp8e5", "bf16"): "Triton's GPU code moves bits and makes finite numbers of infinity and NaN"
}
#: Casts with an explicit rounding mode.
_TOWARD_ZERO = (("f32", "f16"), ("f32", "bf16"), ("f32", "fp8e5"))


def rows() -> list[Row]:
    """Return the rows in the order of the report."""
    return [
        *lanes("float arithmetic", FLOATS, _FLOAT_ARITHMETIC),
        *(
            row
            for dtype, bound in _DIVISIONS.items()
            for row in lanes("float arithmetic", [dtype], [Operation("x / y", "x / y", bound)])
        ),
        *lanes("float arithmetic", ["f32"], [Operation("div_rn(x, y)", "tl.div_rn(x, y)")]),
        *lanes("integer arithmetic", INTEGERS, _INTEGER_ARITHMETIC),
        *lanes("integer arithmetic", INTEGERS, _WIDE_SHIFTS),
        *lanes("integer arithmetic", ("i32", "u32", "i64", "u64"), _HIGH_PRODUCT),
        *lanes("integer arithmetic", ["i1"], _LOGIC),
        *lanes("comparison", (*FLOATS, *INTEGERS), _COMPARISONS),
        *lanes("selection", (*FLOATS, *INTEGERS), _SELECTION),
        *lanes("selection", FLOATS, _FLOAT_SELECTION),
        *(_where(dtype) for dtype in FP8),
        *_casts(),
    ]


def _where(dtype: str) -> Row:
    return Row(
        family="selection",
        name="where(z, x, y)",
        types=dtype,
        inputs=(Input(dtype), Input(dtype), Input("i1")),
        outputs=(Output(dtype),),
        body="{0} = tl.where(z, x, y)",
    )


def _cast(source: str, target: str, arguments: str = "", label: str = "cast") -> Row:
    return Row(
        family="cast",
        name=f"{label} of {source}",
        types=target,
        inputs=(Input(source),),
        outputs=(Output(target),),
        deviation=_CAST_DEVIATIONS.get((source, target), ""),
        body=f"{{0}} = x.to(tl.{TRITON_NAMES[target]}{arguments})",
    )


def _casts() -> list[Row]:
    rows = [
        _cast(source, target)
        for source in DTYPES
        for target in DTYPES
        if source != target and not _refused(source, target)
    ]
    rounding = ', fp_downcast_rounding="rtz"'
    rows += [_cast(s, t, rounding, "cast toward zero") for s, t in _TOWARD_ZERO]
    rows += [_cast(s, t, ", bitcast=True", "bitcast") for s, t in _BITCASTS]
    return rows


def _refused(source: str, target: str) -> bool:
    """Return whether Triton rejects a cast: 8-bit floats convert to f32, f16 and bf16 only.

    Its front end rejects integers. Its NVIDIA backend (3.6.0) fails for f64 and for other 8-bit
    floats, although the engine supports these casts.
    """
    kinds = (source, target)
    return any(k in FP8 for k in kinds) and not any(k in ("f32", "f16", "bf16") for k in kinds)
