"""`tt.extern_elementwise`: the functions of CUDA's libdevice and of AMD's ocml and ockl.

A symbol is reduced to a name (`__nv_fast_sinf` and `__ocml_sin_f64` to `sin`), which is looked up
in a table of functions on vectors. These functions compute in float or double, depending on the
types of their arguments. Most "fast" functions are computed by the accurate functions of the same
name.

Functions that the C library lacks are computed in double. Inverses of erf start from Winitzki's
approximation and use Halley's method. Modified Bessel functions use their power series and, for
large arguments, their asymptotic series (DLMF 10.25.2, 10.40.1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial

from ttools.interpreter.elementwise.casts import float_to_integer
from ttools.interpreter.elementwise.denormals import as_in_libdevice
from ttools.interpreter.elementwise.directed import MODES, directed
from ttools.interpreter.elementwise.floating import maximum_number, minimum_number
from ttools.interpreter.elementwise.integer import count_zeros, high_product
from ttools.interpreter.elementwise.libm import FUNCTIONS, call_doubles, in_double
from ttools.interpreter.elementwise.mathematics import Function, evaluate
from ttools.interpreter.elementwise.power import exp10
from ttools.interpreter.elementwise.trigonometry import COSPI, SINPI
from ttools.interpreter.elementwise.vector import BITS, Call, Lowering, Vector

_NAN = float("nan")


def _sqrt(value: Vector) -> Vector:
    return value.lanes.intrinsic("sqrt", value)


# ---- inverses of the error function
_WINITZKI = 0.147


def _inverse_erf(a: Vector, q: Vector, log_product: Vector) -> Vector:
    """Return the y >= 0 with erf(y) = a.

    Args:
        a: The value of erf, from 0 to 1, exactly.
        q: 1 - a, exactly.
        log_product: The logarithm of 1 - a^2.
    """
    t = log_product * 0.5 + 2 / (math.pi * _WINITZKI)
    scaled = log_product * (-1 / _WINITZKI)
    y = _sqrt(scaled / (_sqrt(t * t + scaled) + t))
    small = a.compare("olt", 0.5)
    for _ in range(3):
        error = small.choose(call_doubles("erf", y) - a, q - call_doubles("erfc", y))
        u = error * (math.sqrt(math.pi) / 2) * call_doubles("exp", y * y)
        y = y - u / (y * u + 1.0)
    y = a.compare("oeq", 0.0).choose(a, y)
    return q.compare("oeq", 0.0).choose(y.coerce(_INFINITY), y)


def erfinv(x: Vector) -> Vector:
    """Return the y with erf(y) = x."""
    a = x.abs()
    y = _inverse_erf(a, 1.0 - a, call_doubles("log1p", -(x * x)))
    return x.lanes.intrinsic("copysign", y, x)


def erfcinv(x: Vector) -> Vector:
    """Return the y with erfc(y) = x."""
    above = x.compare("ogt", 1.0)
    q = above.choose(2.0 - x, x)
    y = _inverse_erf(1.0 - q, q, call_doubles("log", q * (2.0 - q)))
    return above.choose(-y, y)


def normcdf(x: Vector) -> Vector:
    """Return the cumulative standard normal distribution."""
    return call_doubles("erfc", x * -math.sqrt(0.5)) * 0.5


def normcdfinv(x: Vector) -> Vector:
    """Return the inverse of `normcdf`."""
    return erfcinv(x * 2.0) * -math.sqrt(2.0)


def erfcx(x: Vector) -> Vector:
    """Return `exp(x^2) * erfc(x)`."""
    lanes = x.lanes
    # For x > 26, erfc(x) is near the smallest double, but the asymptotic series is accurate, so its
    # value is selected below.
    bounded = x.compare("ogt", 26.0).choose(x.coerce(26.0), x)
    square = bounded * bounded
    lost = lanes.fma(bounded, bounded, -square)
    power = call_doubles("exp", square)
    near = lanes.fma(power, lost, power) * call_doubles("erfc", bounded)
    near = power.compare("oeq", _INFINITY).choose(power, near)
    r = 1.0 / x
    series = lanes.polynomial(r * r, (162.421875, -29.53125, 6.5625, -1.875, 0.75, -0.5, 1.0))
    far = r * (1 / math.sqrt(math.pi)) * series
    return x.compare("ogt", 26.0).choose(far, near)


# ---- modified Bessel functions
_SERIES_TERMS = 70
_ASYMPTOTIC_TERMS = 24
_SERIES_END = 30.0


def _modified_bessel(order: int) -> Callable[[Vector], Vector]:
    """Return the function I_0 or I_1."""

    def evaluate(x: Vector) -> Vector:
        lanes = x.lanes
        magnitude = x.abs()
        inside = magnitude.compare("olt", _SERIES_END)
        near = inside.choose(magnitude, 1.0)
        z = near * near * 0.25
        series = x.coerce(1.0)
        for k in range(_SERIES_TERMS, 0, -1):
            series = lanes.fma(series * z, 1 / (k * (k + order)), 1.0)
        if order:
            series = series * near * 0.5

        far = inside.choose(magnitude.coerce(_SERIES_END), magnitude)
        r = 1.0 / far
        tail = x.coerce(1.0)
        for k in range(_ASYMPTOTIC_TERMS, 0, -1):
            tail = lanes.fma(tail * r, ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k), 1.0)
        # The result is multiplied by exp(far / 2) twice, because exp(far) may overflow when the
        # result does not.
        half = call_doubles("exp", far * 0.5)
        tail = half * tail / _sqrt(far * (2 * math.pi)) * half
        tail = half.compare("oeq", _INFINITY).choose(half, tail)

        value = inside.choose(series, tail)
        return lanes.intrinsic("copysign", value, x) if order else value

    return evaluate


# ---- roots and norms
def _inverse(function: Callable[..., Vector]) -> Callable[..., Vector]:
    return lambda *arguments: 1.0 / function(*arguments)


def _reciprocal_norm(*components: Vector) -> Vector:
    """Return the reciprocal of `norm`; it is also correct where `norm` would overflow."""
    largest = components[0].abs()
    for component in components[1:]:
        largest = largest.lanes.intrinsic("maxnum", largest, component.abs())
    scale = largest.compare("ogt", 2.0**1000).choose(largest.coerce(0.25), 1.0)
    return scale / norm(*(component * scale for component in components))


def cbrt(x: Vector) -> Vector:
    """Return the cube root."""
    return call_doubles("cbrt", x)


def norm(*components: Vector) -> Vector:
    """Return the length of a vector of two to four components, without intermediate overflow."""
    length = components[0]
    for component in components[1:]:
        length = call_doubles("hypot", length, component)
    return length


#: Functions of doubles.
SPECIAL: dict[str, Callable[..., Vector]] = {
    "erfinv": erfinv,
    "erfcinv": erfcinv,
    "erfcx": erfcx,
    "normcdf": normcdf,
    "normcdfinv": normcdfinv,
    "cyl_bessel_i0": _modified_bessel(0),
    "cyl_bessel_i1": _modified_bessel(1),
    "i0": _modified_bessel(0),
    "i1": _modified_bessel(1),
    "rcbrt": _inverse(cbrt),
    "rhypot": _reciprocal_norm,
    "norm3d": norm,
    "norm4d": norm,
    "rnorm3d": _reciprocal_norm,
    "rnorm4d": _reciprocal_norm,
    "jn": lambda n, x: call_doubles("jn", n, x),
    "yn": lambda n, x: call_doubles("yn", n, x),
    "powi": lambda x, n: call_doubles("pow", x, n.cast("sitofp", "double")),
    "pown": lambda x, n: call_doubles("pow", x, n.cast("sitofp", "double")),
}


_INFINITY = float("inf")
_PREFIX = re.compile(r"__(nv|ocml|ockl|triton_hip)_(fast_)?")


# ---- integers
def _count_set(x: Vector) -> Vector:
    return x.lanes.intrinsic("ctpop", x)


def _find_first_set(x: Vector) -> Vector:
    return x.compare("eq", 0).choose(x, count_zeros("cttz", x) + 1)


def _byte_permute(x: Vector, y: Vector, selector: Vector) -> Vector:
    """Return bytes of x and y, each chosen by three bits of the selector."""
    both = (y.cast("zext", "i64") << 32) | x.cast("zext", "i64")
    result = x.coerce(0)
    for i in range(4):
        nibble = selector >> (4 * i)
        shift = ((nibble & 7) << 3).cast("zext", "i64")
        byte = both.binary("lshr", shift).cast("trunc", "i32") & 0xFF
        result = result | (byte << (8 * i))
    return result


def _sign_extend_24(x: Vector) -> Vector:
    return (x << 8).arithmetic_shift(8)


def _absolute_difference(signed: bool) -> Function:
    def function(x: Vector, y: Vector, z: Vector) -> Vector:
        return x.maximum(y, signed=signed) - x.minimum(y, signed=signed) + z

    return function


def _average(signed: bool, up: bool) -> Function:
    """Return a function that computes (x + y) / 2, rounded down or up, without overflow."""

    def function(x: Vector, y: Vector) -> Vector:
        difference = (x ^ y).arithmetic_shift(1) if signed else (x ^ y) >> 1
        return (x | y) - difference if up else (x & y) + difference

    return function


_INTEGERS: dict[str, Function] = {
    "popc": _count_set,
    "popcll": _count_set,
    "popcount_u32": _count_set,
    "popcount_u64": _count_set,
    **dict.fromkeys(("clz", "clzll", "clz_u32", "clz_u64"), lambda x: count_zeros("ctlz", x)),
    "ffs": _find_first_set,
    "ffsll": _find_first_set,
    "brev": lambda x: x.lanes.intrinsic("bitreverse", x),
    "brevll": lambda x: x.lanes.intrinsic("bitreverse", x),
    "byte_perm": _byte_permute,
    **dict.fromkeys(("mulhi", "mul64hi"), lambda x, y: high_product(x, y, signed=True)),
    **dict.fromkeys(("umulhi", "umul64hi"), lambda x, y: high_product(x, y, signed=False)),
    "mul24": lambda x, y: _sign_extend_24(x) * _sign_extend_24(y),
    "umul24": lambda x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF),
    "sad": _absolute_difference(signed=True),
    "usad": _absolute_difference(signed=False),
    "hadd": _average(signed=True, up=False),
    "rhadd": _average(signed=True, up=True),
    "uhadd": _average(signed=False, up=False),
    "urhadd": _average(signed=False, up=True),
    **dict.fromkeys(("llabs", "iabs"), lambda x: x.maximum(-x)),
    **dict.fromkeys(("min", "llmin"), lambda x, y: x.minimum(y)),
    **dict.fromkeys(("max", "llmax"), lambda x, y: x.maximum(y)),
    **dict.fromkeys(("umin", "ullmin"), lambda x, y: x.minimum(y, signed=False)),
    **dict.fromkeys(("umax", "ullmax"), lambda x, y: x.maximum(y, signed=False)),
}


# ---- floats
def _intrinsic(name: str) -> Function:
    return lambda *arguments: arguments[0].lanes.intrinsic(name, *arguments)


def _absolute(x: Vector) -> Vector:
    return x.abs() if x.is_float else x.maximum(-x)


def _saturate(x: Vector) -> Vector:
    return minimum_number(maximum_number(x, x.coerce(0.0)), x.coerce(1.0))


def _positive_difference(x: Vector, y: Vector) -> Vector:
    return x.compare("ole", y).choose(x.coerce(0.0), x - y)


def _next_after(x: Vector, y: Vector) -> Vector:
    bits = x.as_int()
    size = BITS[x.scalar]
    up = x.compare("olt", y)
    positive = bits.compare("sge", 0)
    away = ~(up ^ positive)  # away from zero: up and positive, or down and negative
    stepped = away.choose(bits + 1, bits - 1)
    # For x = 0, libdevice's `nextafterf` returns +-2^-126 and not the smallest denormal.
    first = 1 << 23 if x.scalar == "float" else 1
    smallest = up.choose(bits.coerce(first), bits.coerce(first | 1 << (size - 1)))
    value = x.compare("oeq", 0.0).choose(smallest, stepped).as_float(x.scalar)
    value = x.compare("oeq", y).choose(y, value)
    return x.compare("uno", y).choose(x + y, value)


def _load_exponent(x: Vector, exponent: Vector) -> Vector:
    if x.scalar == "double":
        return _of_doubles("ldexp")(x, exponent)
    # In double, the product of a float and the clamped power is exact, so only the final conversion
    # to float rounds.
    bounded = exponent.maximum(-300).minimum(300)
    power = ((bounded.cast("sext", "i64") + 1023) << 52).as_float("double")
    return (x.cast("fpext", "double") * power).cast("fptrunc", "float")


def _exponent(x: Vector) -> Vector:
    """Return the unbiased exponent of a finite nonzero number as an i32."""
    wide = x.cast("fpext", "double")
    tiny = wide.abs().compare("olt", 2.0**-1022)
    bits = tiny.choose(wide * 2.0**54, wide).as_int()
    exponent = ((bits >> 52) & 0x7FF).cast("trunc", "i32")
    return exponent - tiny.choose(exponent.coerce(1023 + 54), 1023)


def _ilogb(x: Vector) -> Vector:
    exponent = _exponent(x)
    undefined = x.compare("ueq", 0.0)
    value = undefined.choose(exponent.coerce(-(2**31)), exponent)
    return x.abs().compare("oeq", _INFINITY).choose(exponent.coerce(2**31 - 1), value)


def _logb(x: Vector) -> Vector:
    value = _exponent(x).cast("sitofp", x.scalar)
    magnitude = x.abs()
    value = magnitude.compare("olt", _INFINITY).choose(value, magnitude)
    return x.compare("oeq", 0.0).choose(value.coerce(-_INFINITY), value)


def _reciprocal_high(x: Vector) -> Vector:
    return ((1.0 / x).as_int() & -(1 << 32)).as_float("double")


def _rsqrt(x: Vector) -> Vector:
    return 1.0 / x.lanes.intrinsic("sqrt", x)


def _rsqrt_nearest(x: Vector) -> Vector:
    return _rsqrt(x.cast("fpext", "double")).cast("fptrunc", x.scalar)


def _of_doubles(name: str) -> Function:
    """Return a function that computes in double, even for floats."""

    def compute(*wide: Vector) -> Vector:
        if name not in SPECIAL:
            return evaluate(name, *wide)
        return wide[0].lanes.function(name, "double", SPECIAL[name], *wide, inline=False)

    return partial(in_double, compute)


def _common(name: str) -> Function:
    return lambda *arguments: evaluate(name, *arguments)


def _rounded_integer(rounding: str) -> Function:
    """Return a function that rounds to an integral value and converts it to an i64."""

    def function(x: Vector) -> Vector:
        return float_to_integer(x.lanes.intrinsic(rounding, x), "i64", signed=True)

    return function


_FLOATS: dict[str, Function] = {
    **{name: _common(name) for name in FUNCTIONS},
    **{name: _of_doubles(name) for name in SPECIAL},
    "exp10": exp10,
    "sinpi": SINPI,
    "cospi": COSPI,
    **{name: _intrinsic(name) for name in ("floor", "ceil", "trunc", "round", "sqrt", "fma")},
    **dict.fromkeys(("rint", "nearbyint"), _intrinsic("roundeven")),
    "copysign": _intrinsic("copysign"),
    "fmin": minimum_number,
    "fmax": maximum_number,
    "fabs": _absolute,
    "abs": _absolute,
    "rsqrt": _rsqrt,
    "frsqrt_rn": _rsqrt_nearest,
    "rcp64h": _reciprocal_high,
    "saturate": _saturate,
    "fdivide": lambda x, y: x / y,
    "fdim": _positive_difference,
    "nextafter": _next_after,
    "ldexp": _load_exponent,
    "scalbn": _load_exponent,
    "ilogb": _ilogb,
    "logb": _logb,
    "llrint": _rounded_integer("roundeven"),
    "llround": _rounded_integer("round"),
    **dict.fromkeys(("isnan", "isnand"), lambda x: x.is_nan()),
    **dict.fromkeys(("isinf", "isinfd"), lambda x: x.abs().compare("oeq", _INFINITY)),
    **dict.fromkeys(
        ("finite", "isfinite", "isfinited"), lambda x: x.abs().compare("olt", _INFINITY)
    ),
    **dict.fromkeys(("signbit", "signbitd"), lambda x: x.as_int().compare("slt", 0)),
}


# ---- bits
_BITS: dict[str, Function] = {
    **dict.fromkeys(("int_as_float", "uint_as_float"), lambda x: x.as_float("float")),
    "longlong_as_double": lambda x: x.as_float("double"),
    **dict.fromkeys(("float_as_int", "float_as_uint"), Vector.as_int),
    "double_as_longlong": Vector.as_int,
    "hiloint2double": lambda high, low: (
        (high.cast("zext", "i64") << 32) | low.cast("zext", "i64")
    ).as_float("double"),
    "double2loint": lambda x: x.as_int().cast("trunc", "i32"),
    "double2hiint": lambda x: (x.as_int() >> 32).cast("trunc", "i32"),
}


# ---- rounding modes
def _arithmetic(opcode: str, mode: str) -> Function:
    return lambda *arguments: directed(opcode, mode, *arguments)


def _reciprocal(mode: str) -> Function:
    return lambda x: directed("fdiv", mode, x.coerce(1.0), x)


def _to_float(opcode: str, scalar: str, mode: str) -> Function:
    return lambda x: directed(opcode, mode, x, result=scalar)


_INTEGRAL = {"rn": "roundeven", "rz": "trunc", "rd": "floor", "ru": "ceil"}


def _to_integer(scalar: str, mode: str, signed: bool) -> Function:
    def function(x: Vector) -> Vector:
        return float_to_integer(x.lanes.intrinsic(_INTEGRAL[mode], x), scalar, signed=signed)

    return function


def _directed_table() -> dict[str, Function]:
    table: dict[str, Function] = {}
    for mode in MODES:
        for prefix in "fd":
            for name in ("add", "sub", "mul", "div"):
                table[f"{prefix}{name}_{mode}"] = _arithmetic(f"f{name}", mode)
            table[f"{prefix}sqrt_{mode}"] = _arithmetic("sqrt", mode)
            table[f"{prefix}rcp_{mode}"] = _reciprocal(mode)
        table[f"fmaf_{mode}"] = table[f"fma_{mode}"] = _arithmetic("fma", mode)
        table[f"double2float_{mode}"] = _to_float("fptrunc", "float", mode)
        for integer, scalar in (("int", "i32"), ("ll", "i64")):
            for sign, signed in (("", True), ("u", False)):
                name = f"{sign}{integer}"
                opcode = "sitofp" if signed else "uitofp"
                for real in ("float", "double"):
                    table[f"{name}2{real}_{mode}"] = _to_float(opcode, real, mode)
                    table[f"{real}2{name}_{mode}"] = _to_integer(scalar, mode, signed)
    return table


_TABLE: dict[str, Function] = {**_INTEGERS, **_FLOATS, **_BITS, **_directed_table()}


def _fast_power(x: Vector, y: Vector) -> Vector:
    return evaluate("exp2", y * evaluate("log2", x))


def _fast_quotient(x: Vector, y: Vector) -> Vector:
    """Return the quotient of `div.approx`, which is 0 for a finite divisor larger than 2^126."""
    large = y.abs().compare("ogt", 2.0**126) & y.abs().compare("olt", _INFINITY)
    zero = x * y.lanes.intrinsic("copysign", y.coerce(0.0), y)
    return large.choose(zero, x / y)


#: Fast functions that are not computed by the accurate function of the same name.
_FAST: dict[str, Function] = {"pow": _fast_power, "fdivide": _fast_quotient}


def find(symbol: str) -> Function | None:
    """Return the function that a symbol of libdevice, ocml or ockl names; None if there is none."""
    prefix = _PREFIX.match(symbol)
    if prefix is None:
        return None
    name = symbol[prefix.end() :]
    if prefix[1] == "ocml":
        name = re.sub(r"_f(16|32|64)$", "", name)
    # The suffix `f` marks functions of floats, but names such as `erf` end in it, too. Therefore
    # the whole name is looked up first.
    if name not in _TABLE:
        name = name.removesuffix("f")
    function = _TABLE.get(name)
    if function is None or prefix[1] != "nv":
        return function
    fast = bool(prefix[2])
    return as_in_libdevice(name, _FAST.get(name, function) if fast else function, fast=fast)


def _fit(value: Vector, scalar: str) -> Vector:
    """Convert a predicate or a count to the integer type of the operation's result."""
    bits, wanted = BITS[value.scalar], BITS[scalar]
    if value.is_float or bits == wanted:
        return value
    return value.cast("trunc" if bits > wanted else "zext", scalar)


def _extern_elementwise(call: Call) -> Vector:
    symbol = str(call.op.attributes.get("symbol", ""))
    function = find(symbol)
    if function is None:
        raise call.unsupported(
            f"the external function {symbol}",
            "the only external functions that ttools supports are those of "
            "triton.language.extra.libdevice",
        )
    return _fit(function(*call.operands), call.result)


LIBDEVICE: dict[str, Lowering] = {"tt.extern_elementwise": _extern_elementwise}
