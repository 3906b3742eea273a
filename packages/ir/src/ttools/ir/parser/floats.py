"""Floating-point formats of MLIR types, and the rounding of decimal constants to these formats.

Rounding uses Python integers, so that it is exact in every format and needs no numeric library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """The layout of a float: a sign bit, `exponent` bits, `mantissa` bits.

    Attributes:
        specials: `ieee`: the largest exponent is used for infinities and NaNs. `fn`: it is used for
            finite values, and only the pattern of all ones is NaN. `fnuz`: it is used for finite
            values, and the pattern of minus zero is NaN. `none`: all patterns are finite values.
    """

    exponent: int
    mantissa: int
    bias: int
    specials: Literal["ieee", "fn", "fnuz", "none"] = "ieee"

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def _sign(self) -> int:
        return 1 << (self.width - 1)

    @property
    def _infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def _largest(self) -> int:
        """The bits of the largest finite value."""
        if self.specials == "ieee":
            return self._infinity - 1
        return self._sign - (2 if self.specials == "fn" else 1)

    @property
    def _nan(self) -> int:
        if self.specials == "ieee":
            return self._infinity | 1 << (self.mantissa - 1)
        return self._sign if self.specials == "fnuz" else self._sign - 1

    def encode(self, value: float) -> int:
        """Return the bits of `value` rounded to nearest even.

        A value that is too large becomes an infinity, or NaN in a format without infinities, as in
        LLVM's APFloat.
        """
        sign = self._sign if math.copysign(1.0, value) < 0 else 0
        if math.isnan(value):
            return self._nan | (0 if self.specials == "fnuz" else sign)
        bits = self._round(abs(value)) if math.isfinite(value) else self._largest + 1
        if bits > self._largest:
            bits = self._infinity if self.specials == "ieee" else self._nan
        if self.specials == "fnuz" and (bits == 0 or bits == self._nan):
            return bits
        return sign | bits

    def _round(self, magnitude: float) -> int:
        """Return the bits of a finite magnitude; rounding up may carry into the exponent."""
        numerator, denominator = magnitude.as_integer_ratio()
        if not numerator:
            return 0
        exponent = math.frexp(magnitude)[1] - 1
        exponent = max(exponent, 1 - self.bias)
        # The significand in units of the last place of this exponent.
        shift = self.mantissa - exponent
        numerator <<= max(shift, 0)
        denominator <<= max(-shift, 0)
        significand, remainder = divmod(numerator, denominator)
        if 2 * remainder + (significand & 1) > denominator:
            significand += 1
        # The implicit bit of a normal significand is bit number `mantissa`; the addition carries it
        # into the exponent. A subnormal significand has no implicit bit.
        return ((exponent + self.bias - 1) << self.mantissa) + significand


FORMATS = {
    "f64": FloatFormat(11, 52, 1023),
    "f32": FloatFormat(8, 23, 127),
    "f16": FloatFormat(5, 10, 15),
    "bf16": FloatFormat(8, 7, 127),
    "f8E5M2": FloatFormat(5, 2, 15),
    "f8E4M3": FloatFormat(4, 3, 7),
    "f8E3M4": FloatFormat(3, 4, 3),
    "f8E4M3FN": FloatFormat(4, 3, 7, "fn"),
    "f8E5M2FNUZ": FloatFormat(5, 2, 16, "fnuz"),
    "f8E4M3FNUZ": FloatFormat(4, 3, 8, "fnuz"),
    "f8E4M3B11FNUZ": FloatFormat(4, 3, 11, "fnuz"),
    "f6E3M2FN": FloatFormat(3, 2, 3, "none"),
    "f6E2M3FN": FloatFormat(2, 3, 1, "none"),
    "f4E2M1FN": FloatFormat(2, 1, 1, "none"),
}
"""Float formats by the name of the MLIR type."""
