"""Rows of `triton.language.extra.libdevice`.

Bounds of inexact functions are the largest errors that the CUDA C++ Programming Guide documents
("Mathematical Functions"), plus 2 ulp (f64: 3) for the engine's error. For f32, Triton lets
libdevice flush denormals. Therefore denormal operands have separate rows, and a result next to the
smallest normal number may be flushed on one side only.
"""

from __future__ import annotations

from tools.gpu_op_table.rows import EXACT, Bound, Input, Operation, Output, Row, Sample, lanes

_FLUSHED = 1.2e-38
FLUSH = Bound(absolute=_FLUSHED, why="libdevice flushes denormals of f32")
#: Error bound of the engine's own functions, in units in the last place.
_OWN = {"f32": 2, "f64": 3}
_NORMAL: Sample = "normal"

#: Documented errors of a function in f32 and f64 (0: not compared), and the sample of operands.
_UNARY: dict[str, tuple[float, float, Sample]] = {
    "rsqrt": (2, 1, _NORMAL),
    "cbrt": (1, 1, _NORMAL),
    "rcbrt": (1, 1, _NORMAL),
    "exp": (2, 1, (-87.0, 87.0)),
    "exp2": (2, 1, (-125.0, 125.0)),
    "exp10": (2, 1, (-37.0, 37.0)),
    "expm1": (1, 1, (-87.0, 87.0)),
    "log": (1, 1, _NORMAL),
    "log2": (1, 1, _NORMAL),
    "log10": (2, 1, _NORMAL),
    "log1p": (1, 1, _NORMAL),
    "sin": (2, 2, _NORMAL),
    "cos": (2, 2, _NORMAL),
    "tan": (4, 2, _NORMAL),
    "sinpi": (1, 2, (-100.0, 100.0)),
    "cospi": (1, 2, (-100.0, 100.0)),
    "asin": (2, 2, (-1.0, 1.0)),
    "acos": (2, 2, (-1.0, 1.0)),
    "atan": (2, 2, _NORMAL),
    "sinh": (3, 2, (-80.0, 80.0)),
    "cosh": (2, 1, (-80.0, 80.0)),
    "tanh": (2, 1, _NORMAL),
    "asinh": (3, 3, _NORMAL),
    "acosh": (4, 3, (1.0, 1e6)),
    "atanh": (3, 2, (-1.0, 1.0)),
    "erf": (2, 2, _NORMAL),
    "erfc": (4, 5, (-5.0, 9.0)),
    "erfinv": (2, 5, (-1.0, 1.0)),
    "erfcinv": (4, 6, (0.001, 2.0)),
    "erfcx": (4, 4, (-5.0, 50.0)),
    "normcdf": (5, 5, (-5.0, 5.0)),
    "normcdfinv": (5, 8, (0.001, 1.0)),
    "lgamma": (6, 4, (3.0, 1e5)),
    "tgamma": (5, 10, (0.1, 33.0)),
    "cyl_bessel_i0": (6, 6, (-20.0, 20.0)),
    "cyl_bessel_i1": (6, 6, (-20.0, 20.0)),
}
_BINARY: dict[str, tuple[float, float, Sample]] = {
    "atan2": (3, 2, (-100.0, 100.0)),
    "hypot": (3, 2, (-1e6, 1e6)),
    "rhypot": (2, 1, (-1e6, 1e6)),
    "pow": (4, 2, (0.01, 20.0)),
}
#: Functions that are also compared on special values and random bits.
_ALL_VALUES = frozenset(
    (
        *("exp", "exp2", "exp10", "expm1", "sinpi", "cospi", "asin", "acos", "sinh", "cosh"),
        *("acosh", "atanh", "erfc", "erfinv", "normcdf", "tgamma", "atan2", "hypot", "pow"),
    )
)
#: Functions in which the engine is known to be less accurate than the GPU.
_DEVIATIONS = {
    ("normcdf", "f64"): "the engine's argument of erfc is rounded: 30 ulp for large |x|",
    ("cyl_bessel_i0", "f64"): "the engine's series is within 10 ulp",
    ("cyl_bessel_i1", "f64"): "the engine's series is within 10 ulp",
}
#: Functions whose documented errors are absolute.
_BESSEL = {"j0": 2.2e-6, "j1": 2.2e-6, "y0": 2.2e-6, "y1": 2.2e-6}

#: Exact functions as expressions, grouped by the type of their result.
_EXACT_BOTH = (
    *(f"{n}(x)" for n in ("abs", "ceil", "floor", "trunc", "rint", "nearbyint", "round")),
    *(f"{n}(x, y)" for n in ("copysign", "fdim", "fmod", "remainder", "nextafter")),
    "fma(x, y, z)",
    "logb(x)",
)
_DIRECTED = (
    *(f"{n}_{m}(x, y)" for n in ("add", "mul", "div") for m in ("rn", "rz", "rd", "ru")),
    *(f"{n}_{m}(x)" for n in ("sqrt", "rcp") for m in ("rn", "rz", "rd", "ru")),
    *(f"fma_{m}(x, y, z)" for m in ("rn", "rz", "rd", "ru")),
)
_TO_INTEGER = (("ilogb(x)", "i32"), ("llrint(x)", "i64"), ("llround(x)", "i64"))
_PREDICATES = (("isnan(x)", "i32"), ("isinf(x)", "i32"), ("signbit(x)", "i32"))
_MODES = ("rn", "rz", "rd", "ru")
_INTEGER = {
    "i32": (
        *("popc(x)", "clz(x)", "ffs(x)", "brev(x)", "mulhi(x, y)", "mul24(x, y)"),
        *("hadd(x, y)", "rhadd(x, y)", "byte_perm(x, y, z)"),
    ),
    "i64": ("popc(x)", "clz(x)", "ffs(x)", "brev(x)", "mulhi(x, y)"),
    "u32": ("mulhi(x, y)", "mul24(x, y)", "hadd(x, y)", "rhadd(x, y)"),
    "u64": ("mulhi(x, y)",),
}
_COUNTS = ("popc", "clz", "ffs")
_FAST_EXP = "fast_expf is ex2.approx(x·log2 e), within 2 + 1.17·|x| ulp"
_FAST: tuple[Operation, ...] = (
    Operation(
        "fast_sinf(x)",
        "libdevice.fast_sinf(x)",
        Bound(2, 2.0**-21.4, "sin.approx: 2^-21.41 absolute in [-π, π]"),
        (-3.14, 3.14),
    ),
    Operation(
        "fast_cosf(x)",
        "libdevice.fast_cosf(x)",
        Bound(2, 2.0**-21.1, "cos.approx: 2^-21.19 absolute in [-π, π]"),
        (-3.14, 3.14),
    ),
    Operation(
        "fast_tanf(x)",
        "libdevice.fast_tanf(x)",
        Bound(32, 2.0**-20, "the quotient of fast_sinf and fast_cosf"),
        (-1.0, 1.0),
    ),
    Operation("fast_expf(x)", "libdevice.fast_expf(x)", Bound(104, why=_FAST_EXP), (-87.0, 87.0)),
    Operation(
        "fast_exp10f(x)",
        "libdevice.fast_exp10f(x)",
        Bound(114, why="ex2.approx(x·log2 10), within 2 + 2.97·|x| ulp"),
        (-37.0, 37.0),
    ),
    *(
        Operation(
            f"fast_{name}f(x)",
            f"libdevice.fast_{name}f(x)",
            Bound(5, 2.0**-21.4, "lg2.approx: 3 ulp, near 1 absolute"),
            (1e-6, 1e6),
        )
        for name in ("log", "log2", "log10")
    ),
    Operation(
        "fast_powf(x, y)",
        "libdevice.fast_powf(x, y)",
        Bound(64, why="ex2.approx(y·lg2.approx(x)); no bound is documented"),
        (0.1, 6.0),
    ),
    Operation(
        "fast_dividef(x, y)",
        "libdevice.fast_dividef(x, y)",
        Bound(2, _FLUSHED, "div.approx: within 2 ulp"),
        (-1e6, 1e6),
    ),
)


def _documented(table: dict[str, tuple[float, float, Sample]], operands: str) -> list[Row]:
    rows = []
    for name, (single, double, sample) in table.items():
        rows += _of_denormals(name, operands, single)
        expression = f"libdevice.{name}({operands})"
        for dtype, error, absolute in (("f32", single, _FLUSHED), ("f64", double, 0.0)):
            why = f"documented within {error:g} ulp"
            bound = Bound(error + _OWN[dtype], absolute, why)
            operand_sample = "any" if dtype == "f64" and sample == _NORMAL else sample
            deviation = _DEVIATIONS.get((name, dtype), "")
            operation = Operation(
                f"{name}({operands})", expression, bound, operand_sample, deviation=deviation
            )
            rows += lanes("libdevice", [dtype], [operation])
            if name in _ALL_VALUES:
                all_values = "normal" if dtype == "f32" else "any"
                title = f"{name}({operands}), all values"
                operation = Operation(title, expression, bound, all_values, deviation=deviation)
                rows += lanes("libdevice", [dtype], [operation])
    return rows


def _of_denormals(name: str, operands: str, error: float) -> list[Row]:
    """Return f32 rows in which all operands, or one of two, are denormals."""
    bound = Bound(error + _OWN["f32"], _FLUSHED, f"documented within {error:g} ulp")
    samples: list[Sample | tuple[Sample, ...]] = ["denormal"]
    if operands == "x, y":
        samples = [("denormal", "any"), ("any", "denormal")]
    return [
        row
        for sample in samples
        for row in lanes(
            "libdevice",
            ["f32"],
            [
                Operation(
                    f"{name}({operands}), {_denormal_operand(sample)}",
                    f"libdevice.{name}({operands})",
                    bound,
                    sample,
                    deviation=_DENORMAL_DEVIATIONS.get((name, _denormal_operand(sample)), ""),
                )
            ],
        )
    ]


def _denormal_operand(sample: Sample | tuple[Sample, ...]) -> str:
    if isinstance(sample, tuple):
        return "x denormal" if sample[0] == "denormal" else "y denormal"
    return "denormals"


#: Functions for which a GPU does not flush denormals, but computes a wrong result for them.
_DENORMAL_DEVIATIONS = {
    ("pow", "x denormal"): "the GPU's logarithm of a denormal is off by up to 1",
}


def _exact(dtype: str, expression: str, result: str = "", bound: Bound = EXACT) -> list[Row]:
    operation = Operation(expression, f"libdevice.{expression}", bound, "any", result)
    return lanes("libdevice", [dtype], [operation])


def _integers() -> list[Row]:
    return [
        row
        for dtype, expressions in _INTEGER.items()
        for expression in expressions
        for row in _exact(
            dtype, expression, "i32" if expression.partition("(")[0] in _COUNTS else dtype
        )
    ]


def _mixed() -> list[Row]:
    """Return rows of functions whose operands have several types."""
    rows = [
        _row(f"{name}(x, y)", (Input(dtype, sample), Input("i32", (-200.0, 200.0))), dtype, bound)
        for name in ("ldexp", "scalbn")
        for dtype, sample, bound in (("f32", "any", FLUSH), ("f64", "any", EXACT))
    ]
    integer, unsigned = Input("i32"), Input("u32")
    for name, inputs, result in (
        ("float_as_int(x)", (Input("f32"),), "i32"),
        ("float_as_uint(x)", (Input("f32"),), "u32"),
        ("int_as_float(x)", (integer,), "f32"),
        ("uint_as_float(x)", (unsigned,), "f32"),
        ("double_as_longlong(x)", (Input("f64"),), "i64"),
        ("longlong_as_double(x)", (Input("i64"),), "f64"),
        ("hiloint2double(x, y)", (integer, integer), "f64"),
        ("sad(x, y, z)", (integer, integer, unsigned), "i32"),
    ):
        rows.append(_row(name, inputs, result))
    return rows


def _row(name: str, inputs: tuple[Input, ...], result: str, bound: Bound = EXACT) -> Row:
    types = ", ".join(operand.dtype for operand in inputs)
    return Row(
        family="libdevice",
        name=name,
        types=types,
        inputs=inputs,
        outputs=(Output(result),),
        body=f"{{0}} = libdevice.{name}",
        bound=bound,
    )


def _conversions() -> list[Row]:
    """Return rows of conversions with a rounding mode: to integers, and from integers and f64."""
    rows = []
    for mode in _MODES:
        for name, result in (("int", "i32"), ("ll", "i64"), ("uint", "u32"), ("ull", "u64")):
            rows += _exact("f32", f"float2{name}_{mode}(x)", result)
            rows += _exact("f64", f"double2{name}_{mode}(x)", result)
            rows += _exact(result, f"{name}2float_{mode}(x)", "f32")
        rows += _exact("i64", f"ll2double_{mode}(x)", "f64")
        rows += _exact("u64", f"ull2double_{mode}(x)", "f64")
        rows += _exact("f64", f"double2float_{mode}(x)", "f32", FLUSH)
    rows += _exact("f64", "double2hiint(x)", "i32") + _exact("f64", "double2loint(x)", "i32")
    return rows


def rows() -> list[Row]:
    """Return the rows in the order of the report."""
    all_rows = _documented(_UNARY, "x") + _documented(_BINARY, "x, y")
    for name, error in _BESSEL.items():
        bound = Bound(9 + _OWN["f32"], error, "documented within 9 ulp or 2.2e-6 absolute")
        operation = Operation(f"{name}(x)", f"libdevice.{name}(x)", bound, (0.01, 50.0))
        all_rows += lanes("libdevice", ["f32"], [operation])
        all_rows += _of_denormals(name, "x", 9)
    all_rows += lanes("libdevice", ["f32"], _FAST)
    for expression in (*_EXACT_BOTH, *_DIRECTED):
        all_rows += _exact("f32", expression, bound=FLUSH)
        all_rows += _exact("f64", expression)
    for expression, result in (*_TO_INTEGER, *_PREDICATES):
        for dtype in ("f32", "f64"):
            all_rows += _exact(dtype, expression, result)
    all_rows += _exact("f32", "saturatef(x)", bound=FLUSH)
    return [*all_rows, *_mixed(), *_integers(), *_conversions()]
