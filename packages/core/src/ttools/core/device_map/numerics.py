"""Functions of torch whose CPU versions are less precise than the CUDA ones that they stand in for.

A script compares its kernel with torch's result on the same device. Where torch's CPU kernel
accumulates in the tensors' own half precision and its CUDA kernel in float32, a right kernel would
seem wrong. Products that may give another type than their operands' exist for CUDA only. Tables
of such functions, and how they are widened.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from ttools.core.device_map.tensors import Usage

# layer_norm: on float16[1151, 8192], the sum over rows that is the gradient of the bias is off by
# 0.08 on the CPU (torch 2.13) and by 0.004 with float32 sums. Each takes the input first.
_NARROW_ON_CPU = ("layer_norm", "group_norm")
# Products that take `out_dtype`, and the tensors that come before it.
_OTHER_TYPE = {"mm": 2, "bmm": 2, "addmm": 3, "baddbmm": 3}


def numeric_replacements(torch: ModuleType, usage: Usage) -> Iterator[tuple[Any, str, Any]]:
    """Every (owner, attribute, value) that makes half-precision results as precise as CUDA's."""
    functional = torch.nn.functional
    for name in _NARROW_ON_CPU:
        yield functional, name, _widened(torch, usage, getattr(functional, name))
    for name, tensors in _OTHER_TYPE.items():
        yield torch, name, _of_other_type(torch, usage, getattr(torch, name), tensors)


def _widened(torch: ModuleType, usage: Usage, original: Callable[..., Any]) -> Callable[..., Any]:
    half = (torch.float16, torch.bfloat16)

    def wide(value: Any) -> Any:
        return value.float() if isinstance(value, torch.Tensor) and value.dtype in half else value

    @functools.wraps(original)
    def function(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not (usage.used and x.dtype in half):
            return original(x, *args, **kwargs)
        named = {name: wide(value) for name, value in kwargs.items()}
        return original(wide(x), *map(wide, args), **named).to(x.dtype)

    return function


def _of_other_type(
    torch: ModuleType, usage: Usage, original: Callable[..., Any], tensors: int
) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        named = dict(kwargs)
        out_dtype = args[tensors] if len(args) > tensors else named.pop("out_dtype", None)
        if not (usage.used and isinstance(out_dtype, torch.dtype)):
            return original(*args, **kwargs)

        def wide(name: str, value: Any) -> Any:
            widens = isinstance(value, torch.Tensor) and name != "out"
            return value.to(out_dtype) if widens else value

        operands = [wide("", value) for value in args[:tensors]]
        return original(*operands, **{name: wide(name, value) for name, value in named.items()})

    return function
