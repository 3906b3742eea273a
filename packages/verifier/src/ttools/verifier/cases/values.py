"""Kinds of special values, and functions that change float inputs to such values.

Integer tensors are never changed, because they are lengths, offsets and indices. A change is an
expression. Generated test files contain this expression, together with the source of the functions
that it calls.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

#: Large values by type; products of three of them are finite, except in f16.
LARGE = {torch.float16: 6e4, torch.bfloat16: 1e12, torch.float32: 1e12, torch.float64: 1e50}
DENORMAL = {torch.float16: 3e-7, torch.bfloat16: 1e-40, torch.float32: 1e-40}
SCALE = {torch.float16: 40.0}
OFFSET = {torch.float16: 100.0, torch.bfloat16: 100.0}
#: Types of one byte that get special values. `float8_e8m0fnu` does not: it has only powers of two.
NARROW = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
#: Complex types that get special values.
_COMPLEX = (torch.complex64, torch.complex128)


def spots(x: torch.Tensor, *values: float) -> torch.Tensor:
    """Set some elements, far from each other, to these values."""
    flat = x.reshape(-1).clone()
    count = flat.numel()
    for index, value in enumerate(values):
        flat[(index * 2 + 1) * count // (2 * len(values))] = value
    return flat.reshape(x.shape)


def parts_of(x: torch.Tensor) -> torch.Tensor:
    """Return the parts of complex numbers, or one-byte floats as floats of 32 bits."""
    return torch.view_as_real(x) if x.is_complex() else x.float()


def of_parts(parts: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return numbers of the type of `x` from changed parts of `x`, see `parts_of`.

    Finite floats that one byte cannot hold become the largest or the smallest ones of the type.
    """
    if x.is_complex():
        return torch.view_as_complex(parts.contiguous())
    limits = torch.finfo(x.dtype)
    smallest = torch.tensor([1], dtype=torch.uint8, device="cpu").view(x.dtype).float()
    least = smallest.expand(parts.shape).copysign(parts)
    values = torch.where((parts != 0) & (parts.abs() < least.abs()), least, parts)
    return torch.where(parts.isinf(), parts, values.clamp(limits.min, limits.max)).to(x.dtype)


def some_rows(x: torch.Tensor, value: float) -> torch.Tensor:
    """Fill every third row, beginning with the second; of a vector, fill the second half."""
    changed = x.clone()
    if changed.dim() >= 2 and changed.shape[0] > 1:
        changed[1::3] = value
    else:
        changed.reshape(-1)[changed.numel() // 2 :] = value
    return changed


def one_hot(x: torch.Tensor) -> torch.Tensor:
    """Set the last element of each row to one, and the others to zero."""
    changed = torch.zeros_like(x)
    if changed.dim() and changed.numel():
        changed[..., -1] = 1.0
    return changed


def mixed(x: torch.Tensor) -> torch.Tensor:
    """Multiply neighbouring elements by factors of different magnitude."""
    factors = torch.tensor([1.0, 1e-3, 30.0, 1e-2], dtype=torch.float64, device="cpu")
    steps = factors[torch.arange(x.numel(), device="cpu") % 4].reshape(x.shape)
    return (x.double() * steps).to(x.dtype)


def graded(x: torch.Tensor) -> torch.Tensor:
    """Multiply each element by its own factor from 0.5 to 1.5, so that equal rows will differ."""
    index = torch.arange(x.numel(), dtype=torch.float64, device="cpu").reshape(x.shape)
    return (x.double() * (0.5 + (index * 0.618034) % 1.0)).to(x.dtype)


def ordered(x: torch.Tensor, descending: bool) -> torch.Tensor:
    """Sort each row."""
    return x.sort(dim=-1, descending=descending).values if x.dim() else x


def permuted(x: torch.Tensor) -> torch.Tensor:
    """Return the same values in a different order, except for some that keep their positions.

    The elements at both ends and some elements at regular distances keep their positions. The sum
    of all elements also stays the same. A candidate that detects new inputs by such elements or by
    the sum therefore fails.
    """
    flat = x.reshape(-1)
    count = flat.numel()
    moves = torch.ones(count, dtype=torch.bool, device="cpu")
    ends, parts = min(16, max(1, count // 8)), 4 if count < 128 else 16
    moves[:ends], moves[-ends:] = False, False
    moves[[part * count // parts for part in range(parts)]] = False
    changed = flat.clone()
    changed[moves] = flat[moves].flip(0)
    return changed.reshape(x.shape)


_NAMESPACE: dict[str, Any] = {
    "inf": float("inf"),
    "nan": float("nan"),
    **{name: globals()[name] for name in ("LARGE", "DENORMAL", "SCALE", "OFFSET")},
    **{f.__name__: f for f in (spots, some_rows, one_hot, mixed, graded, ordered, permuted)},
    **{f.__name__: f for f in (parts_of, of_parts)},
}


@dataclass(frozen=True)
class Kind:
    """A kind of special values.

    Attributes:
        text: Description of the values.
        expression: The values, as an expression of the float tensor `x` that `inputs` returned.
        is_special: If True, values may be infinite or NaN.
    """

    text: str
    expression: str
    is_special: bool = False

    def sources(self) -> dict[str, str]:
        """Return the sources of the functions and constants that the expression needs, by name."""
        words = dict.fromkeys(re.findall(r"[a-zA-Z_]+", self.expression))
        return {word: _source(_NAMESPACE[word], word) for word in words if word in _NAMESPACE}


def _source(value: Any, name: str) -> str:
    if inspect.isfunction(value):
        return inspect.getsource(value)
    return f"{name} = float({str(value)!r})" if isinstance(value, float) else f"{name} = {value!r}"


#: The kinds that find the most failures come first.
KINDS = {
    "nan": Kind("one NaN", "spots(x, nan)", True),
    "negative": Kind("negative floats", "-x.abs() - 0.5"),
    "infinities": Kind("infinities of both signs", "spots(x, inf, -inf)", True),
    "scaled": Kind("floats of larger magnitude", "x * SCALE.get(x.dtype, 1000.0)"),
    "zeros": Kind("zeros of both signs", "some_rows(x, 0.0) * 0.0"),
    "shifted": Kind("floats far from zero", "x + OFFSET.get(x.dtype, 1000.0)"),
    "rows of negative infinity": Kind("rows of -inf", "some_rows(x, -inf)", True),
    "equal": Kind("equal floats", "torch.full_like(x, 1.5)"),
    "large negative": Kind(
        "large negative floats", "-LARGE[x.dtype] * (1 + x.clamp(-1, 1).abs() / 16)"
    ),
    "negative zeros": Kind("some zeros of both signs", "spots(some_rows(x, -0.0), -0.0, 0.0)"),
    "infinity": Kind("one inf", "spots(x, inf)", True),
    "ties": Kind("many equal floats", "(x * 2).round() / 2"),
    "mixed sizes": Kind("neighbouring floats of different magnitudes", "mixed(x)"),
    "graded": Kind("floats that all differ, also in equal rows", "graded(x)"),
    "denormal": Kind(
        "two denormal floats",
        "spots(x, DENORMAL.get(x.dtype, 1e-310), -DENORMAL.get(x.dtype, 1e-310))",
    ),
    "one-hot": Kind("one-hot rows", "one_hot(x)"),
    "tiny": Kind("small floats", "x * 1e-4"),
    "ascending": Kind("ascending floats", "ordered(x, False)"),
    "rows of nan": Kind("rows of NaN", "some_rows(x, nan)", True),
    "negative infinity": Kind("one -inf", "spots(x, -inf)", True),
    "positive": Kind("positive floats", "x.abs() + 0.5"),
    "large positive": Kind(
        "large positive floats", "LARGE[x.dtype] * (1 + x.clamp(-1, 1).abs() / 16)"
    ),
    "descending": Kind("descending floats", "ordered(x, True)"),
    "equal rows": Kind("equal rows", "some_rows(x, 2.0)"),
    "all nan": Kind("NaN only", "torch.full_like(x, nan)", True),
}
#: A kind that is not in `KINDS`, because only sequences of calls use it; see `permuted`.
PERMUTED = Kind("the floats of the previous call in another order", "permuted(x)")
#: Kinds of finite values that may overflow in computations.
_LARGE_KINDS = ("large negative", "large positive")


def kind_of(name: str, dtype: torch.dtype | None = None) -> Kind:
    """Return a kind of `KINDS`, or the kind of `permuted` values.

    Args:
        name: Name of the kind.
        dtype: Type of the tensor `x` in the kind's expression; None for a type of `LARGE`.
    """
    kind = PERMUTED if name == "permuted" else KINDS[name]
    if dtype in NARROW or dtype in _COMPLEX:
        return replace(kind, expression=f"of_parts((lambda x: {kind.expression})(parts_of(x)), x)")
    return kind


@cache
def _function(expression: str) -> Callable[[torch.Tensor], torch.Tensor]:
    function: Callable[[torch.Tensor], torch.Tensor] = eval(
        f"lambda x: {expression}", {"torch": torch, **_NAMESPACE}
    )
    return function


def changed(tensor: torch.Tensor, kind: str, *, is_finite: bool) -> torch.Tensor:
    """Return a tensor of floats or complex numbers with special values.

    Args:
        tensor: Tensor that `inputs` returned.
        kind: Kind of values: one of `KINDS`, `drawn` or `permuted`.
        is_finite: If True, kinds that could make values infinite or NaN have no effect.
    """
    types = (*LARGE, *NARROW, *_COMPLEX)
    if kind == "drawn" or not tensor.numel() or tensor.dtype not in types:
        return tensor
    if is_finite and (kind_of(kind).is_special or kind in _LARGE_KINDS):
        return tensor
    function = _function(kind_of(kind, tensor.dtype).expression)
    return function(tensor).to(tensor.dtype).contiguous()
