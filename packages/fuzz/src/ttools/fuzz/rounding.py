"""Conversions between element types as an NVIDIA GPU performs them, in NumPy and ml_dtypes.

The rules are those of docs/design/numerics.md: round once, to nearest, ties to even.

A conversion through a wider type must not round twice. The intermediate step therefore rounds to
odd: if it is inexact, the last bit is set. For example, to convert 257 + 2**-40 (f64) to bf16,
rounding to the nearest f32 gives 257, a tie between 256 and 258, which would round to 256. Rounding
to odd gives 257 + 2**-15, which rounds to the correct result 258.
"""

from __future__ import annotations

import numpy as np

from ttools.fuzz.elements import BF16, F16, F32, FP8, I8, U8, Array, Element

_HALF_WAY = 0x7FF  # the low bits that a 64-bit integer loses when it is converted to f64


def convert(x: Array, source: Element, target: Element) -> Array:
    """Convert the elements of `x` to another type (`tl.cast`)."""
    with np.errstate(all="ignore"):
        if source is target:
            return x
        if target.kind == "bool":
            return np.asarray(x != 0)
        if source.is_float:
            return _from_float(x, source, target)
        if target.is_integer:
            return x.astype(target.numpy)
        return _float_from_integer(x, target)


def _from_float(x: Array, source: Element, target: Element) -> Array:
    if target.is_integer:
        return _to_integer(x, source, target)
    if target in FP8:
        # The conversion saturates, and preserves NaNs.
        wide = x.astype(np.float32)
        limit = np.float32(target.largest)
        return np.clip(wide, -limit, limit).astype(target.numpy)
    if target is BF16 and source.bits == 64:
        return _odd_f32(x).astype(target.numpy)
    if source in (BF16, *FP8) and target is not F32:
        x = x.astype(np.float32)
    return x.astype(target.numpy)


def _float_from_integer(x: Array, target: Element) -> Array:
    if target is BF16:
        return _odd_f32(_odd_f64(x)).astype(target.numpy)
    if target is F16:
        return _odd_f64(x).astype(target.numpy)
    return x.astype(target.numpy)


def _odd_f64(x: Array) -> Array:
    """Convert 64-bit integers to f64, rounded to odd, so that rounding again is correct."""
    if x.dtype.itemsize < 8:
        return x.astype(np.float64)
    negative = x < 0
    bits = x.astype(np.uint64)
    size = np.where(negative, np.uint64(0) - bits, bits)
    sticky = (size & np.uint64(_HALF_WAY)) != 0
    odd = (size & ~np.uint64(_HALF_WAY)) | (sticky.astype(np.uint64) << np.uint64(11))
    kept = np.where(size >= np.uint64(2**53), odd, size).astype(np.float64)
    return np.where(negative, -kept, kept)


def _odd_f32(x: Array) -> Array:
    """Convert f64 to f32, rounded to odd, so that rounding to bf16 afterwards is correct."""
    near = x.astype(np.float32)
    off = (near.astype(np.float64) != x) & np.isfinite(x)
    even = (near.view(np.uint32) & np.uint32(1)) == 0
    toward = np.where(near.astype(np.float64) < x, np.float32(np.inf), np.float32(-np.inf))
    return np.where(off & even, np.nextafter(near, toward), near).astype(np.float32)


def _to_integer(x: Array, source: Element, target: Element) -> Array:
    wide = x.astype(np.float64)
    # Conversions to 8 bits convert to 16 bits with saturation, then keep the low byte.
    through = target
    if target.bits == 8:
        low, high = (-(2**15), 2**15 - 1) if target is I8 else (0, 2**16 - 1)
    else:
        low, high = target.low, target.high
    whole = np.trunc(np.where(np.isnan(wide), 0.0, wide))
    # f64 cannot represent 2**63 - 1, so values beyond the range are selected separately.
    inside = (whole > float(low)) & (whole < float(high))
    kind = np.uint64 if target.kind == "unsigned" else np.int64
    result = np.where(inside, whole, 0.0).astype(kind)
    result = np.where(whole >= float(high), kind(high), result)
    result = np.where(whole <= float(low), kind(low), result)
    if through.bits == 64 and target.kind == "signed":
        result = np.where(np.isnan(wide), kind(low), result)
    return result.astype(np.uint8 if target is U8 else target.numpy)


def ordered(x: Array, element: Element) -> Array:
    """Map floats to integers in the same order, so that neighbours differ by one."""
    bits = x.view({8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}[element.bits])
    wide = bits.astype(np.int64)
    low = -(2 ** (element.bits - 1))
    return np.where(wide < 0, low - wide, wide)


def is_nan(x: Array, element: Element) -> Array:
    """Return a mask of the elements that are NaN."""
    if not element.is_float:
        return np.zeros(x.shape, bool)
    return np.isnan(x.astype(np.float32) if element.bits < 32 else x)
