"""Finds effects of calls that remain afterwards, other than on the memory of arguments."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def settings() -> dict[str, str]:
    """Return settings of torch that affect code which runs after a call, by name."""
    is_deterministic = torch.are_deterministic_algorithms_enabled()
    return {
        "default type": str(torch.get_default_dtype()),
        "default device": str(torch.get_default_device()),
        "gradient mode": str(torch.is_grad_enabled()),
        "requirement of deterministic algorithms": str(is_deterministic),
    }


def changed_settings(before: dict[str, str]) -> list[str]:
    """Return the settings that have changed, with their values, as clauses.

    Args:
        before: Earlier result of `settings`.
    """
    now = settings()
    return [
        f"the {name} of torch from `{value}` to `{now[name]}`"
        for name, value in before.items()
        if value != now[name]
    ]


def attached(arguments: Sequence[tuple[str, torch.Tensor]]) -> list[str]:
    """Return the gradients and hooks of arguments, as clauses.

    Args:
        arguments: Names and values of the arguments that are tensors.
    """
    effects = []
    for name, tensor in arguments:
        if tensor.is_leaf and tensor.grad is not None:
            effects.append(f"a gradient to `{name}`")
        if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
            effects.append(f"a hook to `{name}`")
    return effects
