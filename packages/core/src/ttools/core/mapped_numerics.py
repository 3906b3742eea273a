"""Functions of torch whose CPU versions are less precise than the CUDA ones that they stand in for.

A script compares its kernel with torch's result on the same device. Where torch's CPU kernel
accumulates in the tensors' own half precision and its CUDA kernel in float32, a right kernel would
be told wrong. A table of such functions, and how they are widened.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from ttools.core.mapped_tensors import Usage

# layer_norm: on float16[1151, 8192], the sum over rows that is the gradient of the bias is off by
# 0.08 on the CPU (torch 2.13) and by 0.004 with float32 sums. Each takes the input first.
_NARROW_ON_CPU = ("layer_norm", "group_norm")


def numeric_replacements(torch: ModuleType, usage: Usage) -> Iterator[tuple[Any, str, Any]]:
    """Every (owner, attribute, value) that makes half-precision results as precise as CUDA's."""
    functional = torch.nn.functional
    for name in _NARROW_ON_CPU:
        yield functional, name, _widened(torch, usage, getattr(functional, name))


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
