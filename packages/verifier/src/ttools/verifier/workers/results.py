"""Describes results of functions, and computes gradients, for the process that compares results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

from ttools.verifier.cases.tensors import image_of, laid_out, name_of, tensor_of

#: Prefixes of the names of results that are gradients, and of the weights of results.
GRADIENT, WEIGHT = "gradient of ", "weight of "
#: Default phase of the weights of results, see `BackwardPass`.
PHASE = 0.3

#: How often gradients are computed: once, or twice from one graph of operators.
Passes: TypeAlias = Literal["once", "twice"]


@dataclass(frozen=True, kw_only=True)
class BackwardPass:
    """Describes how the gradients of a call are computed.

    Attributes:
        view: Memory layout of the weights of results, by the same names as layouts of arguments.
            For example, the backward pass of `y.sum()` receives an expanded tensor.
        phase: Phase of the cosine that yields the weights; a different phase yields different
            weights.
        only_output: Name of the only result whose gradients are computed; empty for all results.
        passes: How often the gradients are computed. If `twice`, the results of the second pass
            count.
    """

    view: str = "contiguous"
    phase: float = PHASE
    only_output: str = ""
    passes: Passes = "once"


#: The backward pass from all results, with contiguous weights.
WHOLE = BackwardPass()


def flat(value: Any, name: str = "result") -> list[tuple[str, Any]]:
    """Return the parts of a result with their names.

    A result that is not a list, tuple or dictionary is a single part, which is called `result` by
    default.
    """
    if isinstance(value, (tuple, list)):
        return [part for index, item in enumerate(value) for part in flat(item, f"{name}[{index}]")]
    if isinstance(value, dict):
        return [part for key, item in value.items() for part in flat(item, f"{name}[{key!r}]")]
    return [(name, value)]


def tensors_of(arguments: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors among the arguments and among their parts, with their names."""
    return [
        (name, part)
        for key, value in arguments.items()
        for name, part in flat(value, key)
        if isinstance(part, torch.Tensor)
    ]


def described(name: str, value: Any, owners: dict[int, str]) -> dict[str, Any]:
    """Describe one part of a result.

    Args:
        name: Name of the part.
        value: Tensor, number, or any other value.
        owners: Names of the arguments by the addresses of their storages.
    """
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        return {
            "name": name,
            "kind": "tensor",
            "dtype": name_of(value.dtype),
            "shape": list(value.shape),
            "device": value.device.type,
            "contiguous": value.is_contiguous(),
            "grad": value.requires_grad,
            "alias": owners.get(storage.data_ptr()) if storage.nbytes() else None,
            "image": image_of(value),
        }
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"name": name, "kind": type(value).__name__, "value": value}
    return {"name": name, "kind": type(value).__name__, "value": repr(type(value))}


def share(descriptions: list[dict[str, Any]], parts: list[tuple[str, Any]]) -> None:
    """Add the name of an earlier result in the same memory to descriptions of results, as `shares`.

    Gradients are left out, since a backward pass may return one tensor for several arguments.

    Args:
        descriptions: Descriptions of the parts, see `described`.
        parts: Names and values of the parts.
    """
    earlier: list[tuple[str, torch.Tensor]] = []
    for description, (name, part) in zip(descriptions, parts, strict=True):
        is_result = isinstance(part, torch.Tensor) and not name.startswith(GRADIENT)
        if is_result and description["kind"] == "tensor" and not is_lazy(part):
            others = [other for other, tensor in earlier if _overlap(tensor, part)]
            description["shares"] = others[0] if others else None
            earlier.append((name, part))


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors have elements in the same place of one storage."""
    storage = one.untyped_storage()
    if storage.data_ptr() != other.untyped_storage().data_ptr() or not storage.nbytes():
        return False
    if one.element_size() != other.element_size():
        return bool(one.numel() and other.numel())
    marks = torch.zeros(storage.nbytes() // one.element_size(), dtype=torch.bool, device="cpu")
    marks.as_strided(one.shape, one.stride(), one.storage_offset()).fill_(True)
    return bool(marks.as_strided(other.shape, other.stride(), other.storage_offset()).any())


def owners_of(arguments: dict[str, Any]) -> dict[int, str]:
    """Return the names of tensor arguments by the addresses of their storages."""
    return {
        part.untyped_storage().data_ptr(): name
        for name, part in tensors_of(arguments)
        if part.untyped_storage().nbytes()
    }


def differentiable(result: Any, only: str = "") -> list[tuple[str, torch.Tensor]]:
    """Return the parts of a result that require gradients, with their names.

    Args:
        result: Result of a function.
        only: Name of the only part to return; empty for all parts.
    """
    return [
        (name, part)
        for name, part in flat(result)
        if isinstance(part, torch.Tensor) and part.requires_grad and only in ("", name)
    ]


def _leaves(arguments: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """Return the arguments that require gradients, with their names."""
    tensors = tensors_of(arguments)
    return [(name, part) for name, part in tensors if part.requires_grad and part.is_leaf]


def is_lazy(value: Any) -> bool:
    """Return whether a tensor's class may compute the elements only when they are read."""
    if not isinstance(value, torch.Tensor):
        return False
    kinds = type(value).__mro__
    own = kinds[: kinds.index(torch.Tensor)]
    names = ("__torch_dispatch__", "__torch_function__")
    return any(name in vars(cls) for cls in own if cls is not torch.nn.Parameter for name in names)


def weights_of(result: Any, backward: BackwardPass = WHOLE) -> list[tuple[str, torch.Tensor]]:
    """Return weights between -1 and 1 for the results whose gradients are computed, by name.

    Args:
        result: Result of a function.
        backward: Backward pass in which the weights are used.
    """
    return [
        (f"{WEIGHT}{name}", weights_like(tensor, backward))
        for name, tensor in differentiable(result, backward.only_output)
    ]


def weights_like(tensor: torch.Tensor, backward: BackwardPass) -> torch.Tensor:
    """Return the weights of one result, see `weights_of`."""
    steps = torch.arange(tensor.numel(), dtype=torch.float64, device="cpu")
    plain = torch.cos(steps * 0.7 + backward.phase).reshape(tensor.shape).to(tensor.dtype)
    if backward.view == "contiguous":
        return plain.to(tensor.device)
    placed = laid_out(plain, backward.view)
    weights = tensor_of(placed)
    return weights if tensor.device.type == "cpu" else weights.to(tensor.device)


def gradients(
    result: Any,
    arguments: dict[str, Any],
    weights: list[torch.Tensor],
    backward: BackwardPass = WHOLE,
) -> list[tuple[str, torch.Tensor | None]]:
    """Return the gradients of the weighted sum of the results with respect to the arguments.

    Only arguments that require gradients are considered.

    Args:
        result: Result of a function.
        arguments: Arguments of the function.
        weights: Weights of the results whose gradients are computed, see `weights_of`.
        backward: Backward pass that computes the gradients.
    """
    leaves = _leaves(arguments)
    outputs = [output for _, output in differentiable(result, backward.only_output)]
    if not leaves or not outputs:
        return []
    inputs = [leaf for _, leaf in leaves]
    if backward.passes == "twice":
        torch.autograd.grad(outputs, inputs, weights, retain_graph=True, allow_unused=True)
    computed = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
    return [(f"{GRADIENT}{name}", grad) for (name, _), grad in zip(leaves, computed, strict=True)]


def derivatives(result: Any, arguments: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the derivatives, other than zero, of the sum of each result, with names of gradients.

    Args:
        result: Result of a function.
        arguments: Arguments of the function.
    """
    leaves = _leaves(arguments)
    for _, output in differentiable(result) if leaves else ():
        computed = torch.autograd.grad(
            output,
            [leaf for _, leaf in leaves],
            torch.ones_like(output),
            retain_graph=True,
            allow_unused=True,
        )
        for (name, _), derivative in zip(leaves, computed, strict=True):
            if derivative is not None and bool(derivative.any()):
                yield f"{GRADIENT}{name}", derivative
