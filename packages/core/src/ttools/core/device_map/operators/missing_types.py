"""Operators whose kernels on the CPU lack types that CUDA's have: computed in wider ones.

The table is of torch's own lists of types (`OpInfo.dtypesIfCUDA` without `dtypes`), so that what
neither has stays refused. All functions take and give CPU tensors. Must not know what becomes of
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

_HALF = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
_COMPLEX = {torch.complex32: torch.complex64}
_FFT = {torch.float16: torch.float32, **_COMPLEX}
_BOOL = {torch.bool: torch.uint8}
#: By the names of operators, their variants in place and with `out=` included.
_WIDER = {
    **dict.fromkeys(("_fft_c2c", "_fft_c2r", "_fft_r2c"), _FFT),
    **dict.fromkeys(("avg_pool3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"), _HALF),
    **dict.fromkeys(("multi_margin_loss", "multilabel_margin_loss", "rrelu_with_noise"), _HALF),
    **dict.fromkeys(("acos", "acosh", "angle", "asin", "asinh", "atan", "atanh"), _COMPLEX),
    **dict.fromkeys(("cos", "cosh", "div", "exp", "lerp", "log", "logaddexp", "pow"), _COMPLEX),
    **dict.fromkeys(("prod", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "sum"), _COMPLEX),
    **dict.fromkeys(("tan", "tanh"), _COMPLEX),
    "abs": _BOOL,
    "trace": {**_BOOL, **_COMPLEX},
}
_REFUSAL = re.compile("not implemented for|doesn't support tensors of type|on CPU does not support")


def with_missing_types(name: str, op: Any, compute: Callable[..., Any]) -> Callable[..., Any]:
    """A computation on the CPU that also takes the types that only CUDA's kernel has.

    Args:
        name: the operator's, with namespace and overload.
        compute: what refuses these types.
    """
    packet, _, overload = name.removeprefix("aten::").partition(".")
    short = packet.removesuffix("_backward").removesuffix("_forward").rstrip("_")
    if packet in _OWN:
        wider: Callable[..., Any] = _with_output(_OWN[packet]) if overload else _OWN[packet]
    elif name.startswith("aten::") and short in _WIDER:
        wider = _Wider(op, _WIDER[short])
    else:
        return compute

    def computed(*args: Any, **kwargs: Any) -> Any:
        try:
            return compute(*args, **kwargs)
        except RuntimeError as error:
            if not _REFUSAL.search(str(error)):
                raise
            try:
                return wider(*args, **kwargs)
            except _OtherTypeError:
                raise error from None

    return computed


class _OtherTypeError(Exception):
    """The operands are of a type that CUDA lacks as well."""


class _Wider:
    """An operator in a wider type, rounded once."""

    def __init__(self, op: Any, types: dict[torch.dtype, torch.dtype]) -> None:
        self._op = op
        self._types = types
        arguments = op._schema.arguments
        self._written = [
            (number, each.name)
            for number, each in enumerate(arguments)
            if each.alias_info and each.alias_info.is_write
        ]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
        narrow = next((x.dtype for x in tensors if x.dtype in self._types), None)
        if narrow is None:
            raise _OtherTypeError
        asked = kwargs.get("dtype")
        if asked in self._types:
            kwargs["dtype"] = asked = None
        wide_args = [self._widened(x) for x in args]
        wide_kwargs = {name: self._widened(x) for name, x in kwargs.items()}
        results = self._op(*wide_args, **wide_kwargs)
        for number, name in self._written:
            written, computed = (
                (kwargs[name], wide_kwargs[name])
                if name in kwargs
                else (args[number], wide_args[number])
            )
            if written is not computed:
                written.resize_(computed.shape).copy_(computed)
        if asked is not None:
            return results
        if isinstance(results, tuple):
            return tuple(_narrowed(x, narrow) for x in results)
        return _narrowed(results, narrow)

    def _widened(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.dtype in self._types:
            return x.to(self._types[x.dtype])
        return x


def _narrowed(x: Any, narrow: torch.dtype) -> Any:
    """A result in the operands' type, or in the real or complex one that goes with it."""
    if narrow is torch.bool:
        types = {torch.uint8: torch.bool}
    elif narrow is torch.bfloat16:
        types = {torch.float32: torch.bfloat16}
    else:
        types = {torch.float32: torch.float16, torch.complex64: torch.complex32}
    return x.to(types[x.dtype]) if x.dtype in types else x


def _histogram(x: Any, bins: int = 100, least: Any = 0, greatest: Any = 0) -> Any:
    """`histc` of integers, by CUDA's own division (`getBin` in ATen's SummaryOps.cu)."""
    if x.dtype.is_floating_point or x.dtype.is_complex or x.dtype is torch.bool:
        raise _OtherTypeError
    values = x.flatten().long()
    least, greatest = int(least), int(greatest)
    if least == greatest and values.numel():
        least, greatest = int(values.min()), int(values.max())
    if least == greatest:
        least, greatest = least - 1, greatest + 1
    values = values[(values >= least) & (values <= greatest)]
    places = ((values - least) * bins // (greatest - least)).clamp(max=bins - 1)
    return torch.bincount(places, minlength=bins).to(x.dtype)


def _complex_sum(x: Any, axes: Any = None, keep: bool = False, *, dtype: Any = None) -> Any:
    """`nansum` of complex numbers."""
    wide = x.to(torch.complex64) if x.dtype is torch.complex32 else x
    return torch.where(wide.isnan(), 0, wide).sum(axes, keep).to(dtype or x.dtype)


def _with_output(function: Callable[..., Any]) -> Callable[..., Any]:
    """Its variant with `out=`."""

    def computed(*args: Any, out: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return out.resize_(result.shape).copy_(result)

    return computed


#: Those that are no matter of width.
_OWN: dict[str, Callable[..., Any]] = {"histc": _histogram, "nansum": _complex_sum}
