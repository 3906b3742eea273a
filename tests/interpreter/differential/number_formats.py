"""Number formats with their names in torch, NumPy and Triton, sample values and conversions.

Conversions follow the GPU: to integers toward zero with saturation, and to 8-bit floats to nearest
even with saturation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Format:
    """One number format.

    Attributes:
        name: Name in Triton without `tl.`.
        torch: Type in torch.
        numpy: Type in NumPy, or in ml_dtypes if NumPy has none.
    """

    name: str
    torch: torch.dtype
    numpy: np.dtype[Any]

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.torch.is_floating_point

    @property
    def is_bool(self) -> bool:
        return self.torch is torch.bool

    @property
    def bits(self) -> int:
        return self.numpy.itemsize * 8


def _format(name: str, torch_type: torch.dtype, numpy_type: Any) -> Format:
    return Format(name, torch_type, np.dtype(numpy_type))


F64 = _format("float64", torch.float64, np.float64)
F32 = _format("float32", torch.float32, np.float32)
F16 = _format("float16", torch.float16, np.float16)
BF16 = _format("bfloat16", torch.bfloat16, ml_dtypes.bfloat16)
E4M3 = _format("float8e4nv", torch.float8_e4m3fn, ml_dtypes.float8_e4m3fn)
E5M2 = _format("float8e5", torch.float8_e5m2, ml_dtypes.float8_e5m2)
I8 = _format("int8", torch.int8, np.int8)
I16 = _format("int16", torch.int16, np.int16)
I32 = _format("int32", torch.int32, np.int32)
I64 = _format("int64", torch.int64, np.int64)
U8 = _format("uint8", torch.uint8, np.uint8)
U16 = _format("uint16", torch.uint16, np.uint16)
U32 = _format("uint32", torch.uint32, np.uint32)
U64 = _format("uint64", torch.uint64, np.uint64)
BOOL = _format("int1", torch.bool, np.bool_)

FP8 = (E4M3, E5M2)
SMALL_FLOATS = (F16, BF16, *FP8)
FLOATS = (F64, F32, *SMALL_FLOATS)
SIGNED = (I8, I16, I32, I64)
UNSIGNED = (U8, U16, U32, U64)
INTEGERS = (*SIGNED, *UNSIGNED)
ALL = (*FLOATS, *INTEGERS, BOOL)

_CARRIERS = {1: np.uint8, 2: np.int16}


def to_torch(array: Array) -> torch.Tensor:
    """Return a tensor with the same bits, of torch's type of the format."""
    array = np.ascontiguousarray(array)
    format_ = next(f for f in ALL if f.numpy == array.dtype)
    if format_ in (BF16, *FP8):
        return torch.from_numpy(array.view(_CARRIERS[format_.numpy.itemsize])).view(format_.torch)
    return torch.from_numpy(array)


def to_numpy(tensor: torch.Tensor) -> Array:
    """Return an array with the same bits."""
    format_ = next(f for f in ALL if f.torch == tensor.dtype)
    if format_ in (BF16, *FP8):
        carrier = {1: torch.uint8, 2: torch.int16}[format_.numpy.itemsize]
        return tensor.contiguous().view(carrier).numpy().view(format_.numpy)
    return tensor.numpy()


def empty(shape: int | tuple[int, ...], format: Format) -> torch.Tensor:
    """Return a tensor filled with a pattern that no test expects as a result."""
    count = int(np.prod(shape))
    array = np.full(count * format.numpy.itemsize, 1 if format.is_bool else 0x5A, np.uint8)
    return to_torch(array.view(format.numpy)).reshape(shape)


def samples(format: Format, count: int = 300, seed: int = 0) -> Array:
    """Return special values of a format, then random values of all its magnitudes.

    For formats of at most 8 bits, return all values instead.
    """
    rng = np.random.default_rng(seed)
    if format.is_bool:
        return np.array([False, True, True, False, True])
    if format.bits == 8:
        return np.arange(256, dtype=np.uint8).view(format.numpy)
    if format.is_float:
        info = ml_dtypes.finfo(format.numpy)
        special = np.array(
            [0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 0.5, 1.5, 2.5, -2.5, 300.7, -300.7]
            + [float(x) for x in (info.max, info.min, info.smallest_normal, info.eps)]
        )
        scale = np.exp2(rng.uniform(float(info.minexp), float(info.maxexp) - 1, count))
        values = np.concatenate([special, rng.uniform(-1, 1, count) * scale])
        values = np.concatenate([values, rng.normal(0, 20, count)])
        return values.astype(np.float32 if format.bits < 64 else np.float64).astype(format.numpy)
    info_i = np.iinfo(format.numpy)
    shifts = rng.integers(0, format.bits, count)
    wide = rng.integers(info_i.min, info_i.max, count, dtype=format.numpy, endpoint=True)
    special_i = np.array([0, 1, 2, 7, info_i.min, info_i.max, info_i.max - 1], format.numpy)
    return np.concatenate([special_i, wide >> shifts.astype(format.numpy)])


def small_samples(format: Format, count: int, seed: int = 0) -> Array:
    """Return small values, so that sums of a few products neither overflow nor round in f32."""
    rng = np.random.default_rng(seed)
    low = 0 if format in UNSIGNED or format.is_bool else -4
    high = 1 if format.is_bool else 4
    return rng.integers(low, high, count, endpoint=True).astype(np.float32).astype(format.numpy)


def _to_eight_bit_float(values: Array, target: Format) -> Array:
    limit = float(ml_dtypes.finfo(target.numpy).max)
    # Every sample is exact in f32, and ml_dtypes rounds to nearest even.
    return np.clip(values.astype(np.float32), -limit, limit).astype(target.numpy)


def _to_integer(values: Array, target: Format) -> Array:
    signed = target in SIGNED
    bits = max(32, target.bits)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    # PTX converts NaN to 0 for 32 bits and to the lowest value for 64.
    not_a_number = low if bits == 64 else 0
    exact = [
        not_a_number if np.isnan(v) else int(max(low, min(high, v))) if np.isinf(v) else int(v)
        for v in values.astype(np.float64)
    ]
    wrapped = [min(high, max(low, v)) % 2**target.bits for v in exact]
    return np.array(wrapped, np.uint64).astype(f"u{target.bits // 8}").view(target.numpy)


def convert(values: Array, source: Format, target: Format) -> Array:
    """Return the result of `x.to(target)` on a GPU."""
    if source is target:
        return values
    if target.is_bool:
        return values.astype(np.float64) != 0
    if target in FP8:
        return _to_eight_bit_float(values, target)
    with np.errstate(all="ignore"):
        if source.is_float and not target.is_float:
            return _to_integer(values, target)
        if target is BF16 and source.bits == 64:
            return values.astype(np.float32).astype(target.numpy)
        return values.astype(target.numpy)


def assert_same(got: Array, expected: Array, label: str = "") -> None:
    """Assert that values are equal; NaNs equal each other, and 0.0 does not equal -0.0."""
    assert got.dtype == expected.dtype, (label, got.dtype, expected.dtype)
    if got.dtype.kind in "iub":
        wrong = got != expected
    else:
        wide, wide_expected = got.astype(np.float64), expected.astype(np.float64)
        same = (wide == wide_expected) & (np.signbit(wide) == np.signbit(wide_expected))
        wrong = ~(same | (np.isnan(wide) & np.isnan(wide_expected)))
    where = np.flatnonzero(wrong)
    first = [(int(i), got.reshape(-1)[i], expected.reshape(-1)[i]) for i in where[:5]]
    assert where.size == 0, f"{label}: {where.size} differ; (index, got, expected): {first}"


def assert_ulps(got: Array, exact: Array, ulps: float, floor: float = 0.0, label: str = "") -> None:
    """Assert that errors are at most some units in the last place, or at most `floor`.

    Values that are not finite in the format of the results must be equal.

    Args:
        got: Results.
        exact: Exact values.
        ulps: Largest error in units in the last place of the format of `got`.
        floor: Absolute error that is always accepted.
        label: Text for error messages.
    """
    limits = ml_dtypes.finfo(got.dtype)
    finite = np.isfinite(exact) & (np.abs(exact) <= float(limits.max))
    with np.errstate(all="ignore"):
        assert_same(got[~finite], exact[~finite].astype(got.dtype), f"{label} not finite")
    got, reference = got[finite], exact[finite].astype(np.longdouble)
    magnitude = np.maximum(np.abs(reference), np.longdouble(float(limits.smallest_normal)))
    unit = np.exp2(np.floor(np.log2(magnitude))) * np.longdouble(float(limits.eps))
    difference = np.abs(got.astype(np.longdouble) - reference)
    error = np.where(difference <= floor, 0, difference / unit)
    assert not np.isnan(error).any(), f"{label}: NaN for {reference[np.isnan(error)][:5]}"
    worst = int(np.argmax(error))
    off = f"{label}: {error[worst]:.2f} ulp"
    assert error[worst] <= ulps, f"{off}: {got[worst]!r}, not {reference[worst]!r}"
