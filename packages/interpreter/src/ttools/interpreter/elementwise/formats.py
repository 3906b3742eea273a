"""Float formats: widening to f32 and rounding from f32, for every float type of a kernel.

In registers, an f16 is LLVM's `half`, a bf16 is a float with the same value, and an fp8 number is
an i8 with its bits. Rounding to the nearest fp8 saturates to the largest finite value, even for
infinities, and keeps NaN, like the GPU's conversions (`cvt.rn.satfinite`, PTX ISA). Rounding to
bf16 uses integer arithmetic, because the CPU's own bf16 conversions flush denormals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ttools.core.errors import UnsupportedError
from ttools.interpreter.elementwise.vector import Vector, vector_of
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import SSAValue
from ttools.ir import FloatType, Type
from ttools.ir.type_names import type_in_words

Rounding = Literal["rtne", "rtz"]

_F32_MAGNITUDE = 0x7FFFFFFF
_F32_INFINITY = 0x7F800000


@dataclass(frozen=True, slots=True)
class Fp8Format:
    """An 8-bit float.

    Attributes:
        mantissa: Bits of the mantissa.
        bias: Bias of the exponent.
        largest: Bits of the largest finite value.
        nan: Bits of the NaN that conversions return.
        infinity: Bits of the infinity that rounding toward zero keeps; None if there is none.
        unsigned_zero: True for the FNUZ formats, whose only NaN is 0x80, and which have no -0 and
            no infinity.
    """

    mantissa: int
    bias: int
    largest: int
    nan: int
    infinity: int | None = None
    unsigned_zero: bool = False

    @property
    def largest_value(self) -> float:
        exponent = self.largest >> self.mantissa
        fraction = self.largest & ((1 << self.mantissa) - 1)
        return float((1 + fraction / (1 << self.mantissa)) * 2.0 ** (exponent - self.bias))


FP8: dict[str, Fp8Format] = {
    "f8E4M3FN": Fp8Format(3, 7, 0x7E, 0x7F),
    "f8E5M2": Fp8Format(2, 15, 0x7B, 0x7F, infinity=0x7C),
    "f8E4M3FNUZ": Fp8Format(3, 8, 0x7F, 0x80, unsigned_zero=True),
    "f8E5M2FNUZ": Fp8Format(2, 16, 0x7F, 0x80, unsigned_zero=True),
    "f8E4M3B11FNUZ": Fp8Format(3, 11, 0x7F, 0x80, unsigned_zero=True),
}


# ---- bf16
def round_bf16(value: Vector) -> Vector:
    """Round a float to the nearest bf16; the lower 16 bits of a NaN must be 0.

    Results of arithmetic on bf16 satisfy this: a NaN is the CPU's default NaN or that of an
    operand.
    """
    bits = value.as_int()
    odd = (bits >> 16) & 1
    return ((bits + odd + 0x7FFF) & 0xFFFF0000).as_float()


def round_any_bf16(value: Vector, rounding: Rounding = "rtne") -> Vector:
    """Round a float to bf16; any NaN stays NaN."""
    bits = value.as_int()
    if rounding == "rtz":
        rounded = bits & 0xFFFF0000
    else:
        rounded = round_bf16(value).as_int()
    quiet = (bits & 0xFFFF0000) | 0x00400000
    return value.is_nan().choose(quiet, rounded).as_float()


# ---- fp8
def _decode_fp8(bits: Vector, name: str) -> Vector:
    form = FP8[name]
    wide = bits.cast("zext", "i16")
    if form.bias == 15 and form.mantissa == 2:
        return (wide << 8).as_float("half").cast("fpext", "float")  # the upper byte of an f16
    sign = (wide & 0x80) << 8
    if form.mantissa == 3:
        half = (sign | ((wide & 0x7F) << 7)).as_float("half")
        value = half.cast("fpext", "float") * 2.0 ** (15 - form.bias)
    else:
        # Exponent 31 would be an infinity in f16, so the bits are placed in an f32. Denormals are
        # converted as integers, because f32 denormals may be slow.
        body = bits.cast("zext", "i32") & 0x7F
        normal = ((body << 21) + ((127 - form.bias) << 23)).as_float()
        tiny = body.cast("uitofp", "float") * 2.0 ** (1 - form.bias - form.mantissa)
        value = body.compare("ult", 1 << form.mantissa).choose(tiny, normal)
        value = (value.as_int() | (sign.cast("zext", "i32") << 16)).as_float()
    if form.unsigned_zero:
        is_nan = bits.compare("eq", -128)
    else:
        is_nan = (bits & 0x7F).compare("eq", 0x7F)
    return is_nan.choose(value.coerce(float("nan")), value)


def _encode_fp8(value: Vector, name: str, rounding: Rounding) -> Vector:
    form = FP8[name]
    lost = 23 - form.mantissa
    bits = value.as_int()
    magnitude = bits & _F32_MAGNITUDE
    # Values beyond the largest finite value saturate to it, so clamping first is exact.
    largest = value.coerce(form.largest_value).as_int()
    clamped = magnitude.minimum(largest, signed=False)

    rebias = (form.bias - 127) << 23
    if rounding == "rtne":
        odd = (clamped >> lost) & 1
        normal = (clamped + odd + (rebias + (1 << (lost - 1)) - 1)) >> lost
        # Adding a float whose ulp is the smallest denormal rounds to a multiple of that denormal.
        magic = 2.0 ** (1 - form.bias - form.mantissa + 23)
        summed = clamped.as_float() + magic
        tiny = summed.as_int() - summed.coerce(magic).as_int()
    else:
        normal = (clamped + rebias) >> lost
        scaled = clamped.as_float() * 2.0 ** (form.bias - 1 + form.mantissa)
        # Only results that are denormal are used. Larger numbers are replaced by 0, because
        # converting a number that does not fit in an i32 is undefined.
        tiny = scaled.compare("olt", 256.0).choose(scaled, 0.0).cast("fptoui", "i32")
    smallest_normal = (1 - form.bias + 127) << 23
    encoded = clamped.compare("ult", smallest_normal).choose(tiny, normal)

    if rounding == "rtz" and form.infinity is not None:
        is_infinite = magnitude.compare("eq", _F32_INFINITY)
        encoded = is_infinite.choose(encoded.coerce(form.infinity), encoded)

    sign = (bits >> 24) & 0x80
    if form.unsigned_zero:
        sign = encoded.compare("eq", 0).choose(sign.coerce(0), sign)
    signed = encoded | sign
    is_nan = magnitude.compare("ugt", _F32_INFINITY)
    return is_nan.choose(signed.coerce(form.nan), signed).cast("trunc", "i8")


# ---- f64 and f16
def round_f64_to_odd(value: Vector) -> Vector:
    """Convert a double to a float by rounding to odd: the last bit is set if the float is inexact.

    Rounding the result further, to 22 bits or fewer, gives the same number as rounding the double
    directly (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    nearest = value.cast("fptrunc", "float")
    back = nearest.cast("fpext", "double")
    bits = nearest.as_int()
    # Round toward zero first, by a step down if the magnitude was rounded up, possibly to infinity.
    too_big = back.abs().compare("ogt", value.abs())
    down = too_big.choose(bits - 1, bits)
    inexact = back.compare("one", value)
    return inexact.choose(down | 1, bits).as_float()


def _f64_toward_zero(value: Vector) -> Vector:
    nearest = value.cast("fptrunc", "float")
    bits = nearest.as_int()
    too_big = nearest.cast("fpext", "double").abs().compare("ogt", value.abs())
    return too_big.choose(bits - 1, bits).as_float()


def _round_f16(value: Vector, rounding: Rounding) -> Vector:
    nearest = value.cast("fptrunc", "half")
    if rounding == "rtne":
        return nearest
    bits = nearest.as_int()
    finite = value.abs().compare("olt", float("inf"))
    too_big = nearest.cast("fpext", "float").abs().compare("ogt", value.abs()) & finite
    return too_big.choose(bits - 1, bits).as_float("half")


# ---- any format
def _float_type(type: Type) -> FloatType:
    if isinstance(type, FloatType):
        return type
    raise UnsupportedError(f"{type_in_words(type)} where a float is needed")


def widen(value: Vector, type: Type) -> Vector:
    """Convert a value of a float type to f32. Only the conversion of f64 rounds, to nearest."""
    name = _float_type(type).name
    if name in ("f32", "bf16"):
        return value
    if name == "f16":
        return value.cast("fpext", "float")
    if name == "f64":
        return value.cast("fptrunc", "float")
    if name in FP8:
        return value.lanes.function(
            f"from.{name}", "float", lambda bits: _decode_fp8(bits, name), value
        )
    raise UnsupportedError(f"a value of type {type_in_words(type)}")


def narrow(value: Vector, type: Type, rounding: Rounding = "rtne") -> Vector:
    """Round an f32 to a float type; the conversion to f64 is exact."""
    name = _float_type(type).name
    simple: dict[str, Callable[[], Vector]] = {
        "f32": lambda: value,
        "f64": lambda: value.cast("fpext", "double"),
        "f16": lambda: _round_f16(value, rounding),
        "bf16": lambda: round_any_bf16(value, rounding),
    }
    if name in simple:
        return simple[name]()
    if name in FP8:
        return value.lanes.function(
            f"to.{name}.{rounding}", "i8", lambda x: _encode_fp8(x, name, rounding), value
        )
    raise UnsupportedError(f"a value of type {type_in_words(type)}")


def convert(value: Vector, source: Type, target: Type, rounding: Rounding = "rtne") -> Vector:
    """Convert between any two float types, rounding once."""
    if source == target:
        return value
    if _float_type(source).name != "f64":
        if _float_type(target).name == "f64" and value.scalar == "half":
            return value.cast("fpext", "double")
        return narrow(widen(value, source), target, rounding)
    if _float_type(target).name == "f32":
        return _f64_toward_zero(value) if rounding == "rtz" else widen(value, source)
    return narrow(round_f64_to_odd(value), target, rounding)


def widen_to_f32(builder: Builder, value: SSAValue, type: Type) -> SSAValue:
    """Convert lanes of any float type to f32.

    Args:
        value: The lanes, in the register type of `type`.
        type: Any float type; f64 is rounded to nearest, all others are converted exactly.
    """
    return widen(vector_of(builder, value), type).text


def narrow_from_f32(builder: Builder, value: SSAValue, type: Type) -> SSAValue:
    """Round lanes of f32 to any float type, to nearest even; fp8 saturates."""
    return narrow(vector_of(builder, value), type).text
