"""What implementations return: its tensors, their bytes, and how far they are from a baseline's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in a structure of tuples, lists and dicts, in its order."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with tensors of their own, so that calls do not see what others wrote."""
    return _with_tensors(arguments, torch.Tensor.clone)


def on_gpu(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with their tensors on the GPU."""
    return _with_tensors(arguments, torch.Tensor.cuda)


def _with_tensors(
    arguments: Mapping[str, Any], change: Callable[[torch.Tensor], torch.Tensor]
) -> dict[str, Any]:
    """Arguments with others in place of tensors; what is passed twice is still one tensor."""
    changed: dict[int, torch.Tensor] = {}

    def other(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in changed:
            changed[id(leaf)] = change(leaf.detach()).requires_grad_(leaf.requires_grad)
        return changed[id(leaf)]

    found: dict[str, Any] = pytree.tree_map(other, dict(arguments))
    return found


def bytes_of(*values: Any) -> int:
    """Bytes of the tensors in each value; of one in two of them twice, being read and written."""
    return sum(
        each.numel() * each.element_size()
        for value in values
        for each in {id(tensor): tensor for tensor in tensors_in(value)}.values()
    )


def mismatch(results: list[torch.Tensor], wanted: list[torch.Tensor]) -> str:
    """In what results cannot be compared with the baseline's; empty where they can be."""
    if len(results) != len(wanted):
        return f"returns {len(results)} tensors, the baseline {len(wanted)}"
    for own, other in zip(results, wanted, strict=True):
        if own.shape != other.shape:
            return f"returns a tensor of {list(own.shape)}, the baseline one of {list(other.shape)}"
    return ""


def greatest_error(results: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    """The greatest difference of an element, by the greatest finite magnitude of the baseline's.

    Infinite where only one of both is NaN or infinite, and where it has only zeros and the result
    has not.
    """
    return max((_error(o, w) for o, w in zip(results, wanted, strict=True)), default=0.0)


def _error(own: torch.Tensor, other: torch.Tensor) -> float:
    if not own.numel():
        return 0.0
    a, b = _as_f64(own), _as_f64(other)
    equal = (a == b) | (a.isnan() & b.isnan())
    difference = (
        torch.where(equal, 0.0, (a - b).abs())
        .nan_to_num(nan=torch.inf, posinf=torch.inf)
        .max()
        .item()
    )
    if difference == 0:
        return 0.0
    scale = torch.where(b.isfinite(), b, 0.0).abs().max().item()
    return float(difference / scale) if scale else float("inf")


def _as_f64(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().cpu()
    return (torch.view_as_real(plain) if plain.is_complex() else plain).to(torch.float64)
