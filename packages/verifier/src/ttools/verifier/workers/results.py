"""What a function returned, as it is sent to whoever compares."""

from __future__ import annotations

from typing import Any

import torch

from ttools.verifier.cases.tensors import image_of, laid_out, name_of, tensor_of

#: How the names of results begin that are gradients.
GRADIENT = "gradient of "


def flat(value: Any, name: str = "result") -> list[tuple[str, Any]]:
    """The parts of a result by name; a single one is `result`."""
    if isinstance(value, (tuple, list)):
        return [part for index, each in enumerate(value) for part in flat(each, f"{name}[{index}]")]
    if isinstance(value, dict):
        return [part for key, each in value.items() for part in flat(each, f"{name}[{key!r}]")]
    return [(name, value)]


def described(name: str, value: Any, owners: dict[int, str]) -> dict[str, Any]:
    """One part of a result.

    Args:
        value: a tensor, a number, or anything else.
        owners: names of the arguments by the addresses of their storages.
    """
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        return {
            "name": name,
            "kind": "tensor",
            "dtype": name_of(value.dtype),
            "shape": list(value.shape),
            "strides": list(value.stride()),
            "device": value.device.type,
            "grad": value.requires_grad,
            "alias": owners.get(storage.data_ptr()) if storage.nbytes() else None,
            "image": image_of(value),
        }
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"name": name, "kind": type(value).__name__, "value": value}
    return {"name": name, "kind": type(value).__name__, "value": repr(type(value))}


def owners_of(arguments: dict[str, Any]) -> dict[int, str]:
    """The arguments that are tensors, by the addresses of their storages."""
    return {
        each.untyped_storage().data_ptr(): name
        for key, value in arguments.items()
        for name, each in flat(value, key)
        if isinstance(each, torch.Tensor) and each.untyped_storage().nbytes()
    }


def _differentiable(result: Any) -> list[torch.Tensor]:
    return [
        each for _, each in flat(result) if isinstance(each, torch.Tensor) and each.requires_grad
    ]


def is_lazy(value: Any) -> bool:
    """Whether a tensor is of a class that may compute when somebody looks at it."""
    if not isinstance(value, torch.Tensor):
        return False
    kinds = type(value).__mro__
    own = kinds[: kinds.index(torch.Tensor)]
    names = ("__torch_dispatch__", "__torch_function__")
    return any(
        name in vars(each) for each in own if each is not torch.nn.Parameter for name in names
    )


def weights_of(result: Any, view: str = "contiguous") -> list[torch.Tensor]:
    """What results that require gradients are weighted by: numbers of both signs, of size one.

    Args:
        view: how they lie in memory, as arguments may: those of `y.sum()` are expanded.
    """
    return [_weights(each, view) for each in _differentiable(result)]


def _weights(tensor: torch.Tensor, view: str) -> torch.Tensor:
    steps = torch.arange(tensor.numel(), dtype=torch.float64, device="cpu")
    plain = torch.cos(steps * 0.7 + 0.3).reshape(tensor.shape).to(tensor.dtype)
    if view == "contiguous":
        return plain.to(tensor.device)
    placed = laid_out(plain, view)
    weights = tensor_of(placed)
    return weights if tensor.device.type == "cpu" else weights.to(tensor.device)


def gradients(
    result: Any, arguments: dict[str, Any], weights: list[torch.Tensor]
) -> list[tuple[str, torch.Tensor | None]]:
    """Gradients of the arguments that require them, by the weighted sum of the results.

    Args:
        weights: of the results that require gradients, see `weights_of`.
    """
    leaves = [
        (name, each)
        for key, value in arguments.items()
        for name, each in flat(value, key)
        if isinstance(each, torch.Tensor) and each.requires_grad and each.is_leaf
    ]
    outputs = _differentiable(result)
    if not leaves or not outputs:
        return []
    found = torch.autograd.grad(
        outputs,
        [each for _, each in leaves],
        weights,
        allow_unused=True,
    )
    return [(f"{GRADIENT}{name}", grad) for (name, _), grad in zip(leaves, found, strict=True)]
