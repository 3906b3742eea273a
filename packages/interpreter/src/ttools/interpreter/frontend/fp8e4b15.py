"""Conversions of `fp8e4b15`, which Triton's front end leaves to the backend.

The format has a bias of 15, no infinities or NaNs, and a largest magnitude of 1.75. The NVIDIA
backend inlines PTX (triton/language/extra/cuda/utils.py). This module performs the same steps with
Triton's integer operations.
"""

from __future__ import annotations

from typing import Any

from triton.language import core

_SIGN8, _MAGNITUDE8 = 0x80, 0x7F
_SIGN16, _MAGNITUDE16 = 0x8000, 0x7FFF
_LARGEST_FP16 = 0x3F00  # 1.75
_HALF_AN_ULP = 0x0080


@core.builtin  # type: ignore[untyped-decorator]
def convert_fp8e4b15(
    arg: Any, dst_ty: Any, fp_downcast_rounding: Any = None, _semantic: Any = None
) -> Any:
    """Convert a tensor to or from `fp8e4b15`, through fp16.

    Args:
        dst_ty: The target type, of the same shape.
        fp_downcast_rounding: Ignored, as by the NVIDIA backend.
        _semantic: Triton's semantic layer, which creates operations.
    """
    if arg.type.scalar.is_fp8e4b15():
        wide = _to_fp16(arg, _semantic)
        scalar = dst_ty.scalar
        return wide if scalar.is_fp16() else wide.to(scalar, _semantic=_semantic)
    if not arg.type.scalar.is_fp16():
        arg = arg.to(core.float32, _semantic=_semantic)
        arg = arg.to(core.float16, fp_downcast_rounding="rtz", _semantic=_semantic)
    return _from_fp16(arg, _semantic)


def _to_fp16(arg: Any, semantic: Any) -> Any:
    bits = arg.to(core.uint8, bitcast=True, _semantic=semantic)
    bits = bits.to(core.uint16, _semantic=semantic)
    sign = bits.__and__(_SIGN8, _semantic=semantic).__lshift__(8, _semantic=semantic)
    magnitude = bits.__and__(_MAGNITUDE8, _semantic=semantic).__lshift__(7, _semantic=semantic)
    joined = sign.__or__(magnitude, _semantic=semantic)
    return joined.to(core.float16, bitcast=True, _semantic=semantic)


def _from_fp16(arg: Any, semantic: Any) -> Any:
    bits = arg.to(core.uint16, bitcast=True, _semantic=semantic)
    magnitude = bits.__and__(_MAGNITUDE16, _semantic=semantic)
    in_range = magnitude.__lt__(_LARGEST_FP16, _semantic=semantic)
    magnitude = core.where(in_range, magnitude, _LARGEST_FP16, _semantic=semantic)
    magnitude = magnitude.to(core.uint16, _semantic=semantic)
    doubled = magnitude.__lshift__(1, _semantic=semantic)
    rounded = doubled.__add__(_HALF_AN_ULP, _semantic=semantic)
    sign = bits.__and__(_SIGN16, _semantic=semantic)
    high = sign.__or__(rounded, _semantic=semantic).__rshift__(8, _semantic=semantic)
    narrow = high.to(core.uint8, _semantic=semantic)
    return narrow.to(core.float8e4b15, bitcast=True, _semantic=semantic)
