"""Kinds of special values, and the changes of float inputs to such values.

Integer tensors are never changed, because they are lengths, offsets and indices.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

#: Large values by type; products of three of them are finite, except in f16.
_LARGE = {torch.float16: 6e4, torch.bfloat16: 1e12, torch.float32: 1e12, torch.float64: 1e50}
_DENORMAL = {torch.float16: 3e-7, torch.bfloat16: 1e-40, torch.float32: 1e-40}
_SCALE = {torch.float16: 40.0}
_OFFSET = {torch.float16: 100.0, torch.bfloat16: 100.0}


def _spots(x: torch.Tensor, *values: float) -> torch.Tensor:
    """Set some elements, far from each other, to these values."""
    flat = x.reshape(-1).clone()
    count = flat.numel()
    for index, value in enumerate(values):
        flat[(index * 2 + 1) * count // (2 * len(values))] = value
    return flat.reshape(x.shape)


def _some_rows(x: torch.Tensor, value: float) -> torch.Tensor:
    """Fill every third row, beginning with the second, or the second half of a vector."""
    changed = x.clone()
    if changed.dim() >= 2 and changed.shape[0] > 1:
        changed[1::3] = value
    else:
        changed.reshape(-1)[changed.numel() // 2 :] = value
    return changed


def _one_hot(x: torch.Tensor) -> torch.Tensor:
    changed = torch.zeros_like(x)
    if changed.dim() and changed.numel():
        changed[..., -1] = 1.0
    return changed


def _mixed(x: torch.Tensor) -> torch.Tensor:
    """Multiply neighbouring elements by large and small factors."""
    factors = torch.tensor([1.0, 1e-3, 30.0, 1e-2], dtype=torch.float64, device="cpu")
    steps = factors[torch.arange(x.numel(), device="cpu") % 4].reshape(x.shape)
    return (x.double() * steps).to(x.dtype)


def _sorted(x: torch.Tensor, descending: bool) -> torch.Tensor:
    return x.sort(dim=-1, descending=descending).values if x.dim() else x


def _permuted(x: torch.Tensor) -> torch.Tensor:
    """Return the same values in another order, except for some that keep their positions.

    The elements at both ends and some at regular distances keep their positions. Sums are the same,
    too. A candidate that detects new inputs by such elements or by sums therefore fails.
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


_inf = float("inf")
#: Kinds that keep finite values finite.
FINITE_KINDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "negative": lambda x: -x.abs() - 0.5,
    "zeros": lambda x: _some_rows(x, 0.0) * 0.0,
    "equal": lambda x: torch.full_like(x, 1.5),
    "scaled": lambda x: x * _SCALE.get(x.dtype, 1000.0),
    "shifted": lambda x: x + _OFFSET.get(x.dtype, 1000.0),
    "negative zeros": lambda x: _spots(_some_rows(x, -0.0), -0.0, 0.0),
    "ties": lambda x: (x * 2).round() / 2,  # equal elements, integers and halves
    "large negative": lambda x: -_LARGE[x.dtype] * (1 + x.clamp(-1, 1).abs() / 16),
    "one-hot": _one_hot,
    "tiny": lambda x: x * 1e-4,
    "denormal": lambda x: _spots(
        x, _DENORMAL.get(x.dtype, 1e-310), -_DENORMAL.get(x.dtype, 1e-310)
    ),
    "mixed sizes": _mixed,
    "ascending": lambda x: _sorted(x, False),
    "large positive": lambda x: _LARGE[x.dtype] * (1 + x.clamp(-1, 1).abs() / 16),
    "positive": lambda x: x.abs() + 0.5,
    "descending": lambda x: _sorted(x, True),
    "equal rows": lambda x: _some_rows(x, 2.0),
}
SPECIAL_KINDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nan": lambda x: _spots(x, float("nan")),
    "infinities": lambda x: _spots(x, _inf, -_inf),
    "infinity": lambda x: _spots(x, _inf),
    "negative infinity": lambda x: _spots(x, -_inf),
    "rows of negative infinity": lambda x: _some_rows(x, -_inf),
    "rows of nan": lambda x: _some_rows(x, float("nan")),
    "all nan": lambda x: torch.full_like(x, float("nan")),
}
#: The kinds that find the most failures come first.
KINDS = (
    "nan",
    "negative",
    "infinities",
    "scaled",
    "zeros",
    "shifted",
    "rows of negative infinity",
    "equal",
    "large negative",
    "negative zeros",
    "infinity",
    "ties",
    "mixed sizes",
    "denormal",
    "one-hot",
    "tiny",
    "ascending",
    "rows of nan",
    "negative infinity",
    "positive",
    "large positive",
    "descending",
    "equal rows",
    "all nan",
)


def changed(tensor: torch.Tensor, kind: str, *, is_finite: bool) -> torch.Tensor:
    """Return a float tensor with special values.

    Args:
        tensor: Tensor that `inputs` returned.
        kind: Kind of values: one of `KINDS`, `drawn` or `permuted`.
        is_finite: If True, kinds that could make values infinite or NaN have no effect.
    """
    if kind == "drawn" or not tensor.numel() or tensor.dtype not in _LARGE:
        return tensor
    if kind == "permuted":
        return _permuted(tensor)
    special = kind in SPECIAL_KINDS
    if is_finite and (special or kind in ("large negative", "large positive")):
        return tensor
    special_values = (SPECIAL_KINDS if special else FINITE_KINDS)[kind](tensor)
    return special_values.to(tensor.dtype).contiguous()
