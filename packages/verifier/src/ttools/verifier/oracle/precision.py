"""Evaluates a torch function in another precision, f64 or f32.

Conversions to more precise types and new tensors get this precision. For example, `x.float()` in a
reference avoids half precision, so in double precision it becomes `x.double()`. Conversions to
types that are less precise than the arguments are intended and remain. Weights that are not
arguments keep their types, and are widened where an operator requires operands of one type.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ttools.verifier.cases.tensors import map_tensors

#: Numbers of bits of significands. Complex numbers have the precision of their parts.
_PRECISION = {
    torch.bfloat16: 8,
    torch.float16: 11,
    torch.float32: 24,
    torch.float64: 53,
    torch.complex32: 11,
    torch.complex64: 24,
    torch.complex128: 53,
}
_BY_METHOD = {
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "float": torch.float32,
    "chalf": torch.complex32,
    "cfloat": torch.complex64,
}


class InPrecision(TorchFunctionMode):
    """Replaces, while active, float types at least as precise as `least` by a wide type.

    Args:
        least: Least precise type that is replaced.
        wide: Type that replaces these types.
    """

    def __init__(self, least: torch.dtype, wide: torch.dtype = torch.float64) -> None:
        super().__init__()
        self._least, self._wide = _PRECISION.get(least, 24), wide

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {key: self._widened(value) for key, value in (kwargs or {}).items()}
        name = getattr(func, "__name__", "")
        if name in _BY_METHOD and args and isinstance(args[0], torch.Tensor):
            wide = self._widened(_BY_METHOD[name])
            return args[0].to(wide)
        args = [self._widened(argument) for argument in args]
        try:
            return func(*args, **kwargs)
        except RuntimeError:
            if name.endswith("_") or "out" in kwargs:
                raise  # values that are written to a widened copy would be lost
            same = map_tensors(self._of_one_type, (args, kwargs), torch.Tensor)
            return func(*same[0], **same[1])

    def _of_one_type(self, tensor: torch.Tensor) -> torch.Tensor:
        is_narrow = _PRECISION.get(tensor.dtype, 99) < _PRECISION[self._wide]
        return tensor.to(_widened(tensor.dtype, self._wide)) if is_narrow else tensor

    def _widened(self, value: Any) -> Any:
        if isinstance(value, torch.dtype) and _PRECISION.get(value, 99) < 53:
            return _widened(value, self._wide) if _PRECISION[value] >= self._least else value
        return value


def real_type(dtype: torch.dtype) -> torch.dtype:
    """Return the type of the parts of a complex type; other types are returned unchanged."""
    return dtype.to_real() if dtype.is_complex else dtype


def _widened(dtype: torch.dtype, wide: torch.dtype) -> torch.dtype:
    """Return a wide real type, or the corresponding complex type if `dtype` is complex."""
    return wide.to_complex() if dtype.is_complex else wide


def least_precise(tensors: list[torch.Tensor]) -> torch.dtype:
    """Return the least precise real type among tensors and their parts; f32 if there is none."""
    floats = [real_type(tensor.dtype) for tensor in tensors if tensor.dtype in _PRECISION]
    return min(floats, key=_PRECISION.__getitem__, default=torch.float32)


def is_perturbed(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is perturbed; types of one byte are not, as they contain data."""
    return tensor.dtype in _PRECISION


def in_double(value: torch.Tensor, wide: torch.dtype = torch.float64) -> torch.Tensor:
    """Return a copy of a tensor, converted to `wide` if its elements are floats or complex."""
    dtype = _widened(value.dtype, wide) if value.dtype in _PRECISION else value.dtype
    copy = value.detach().to(dtype).clone()
    return copy.requires_grad_() if value.requires_grad else copy
