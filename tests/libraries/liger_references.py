"""References for operators of Liger-Kernel in plain torch, for inputs of any precision.

They are written from the formulas, independently of Liger's code. The tests call them with float32
copies of the operators' inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def rms_norm(offset: float = 0.0) -> Callable[..., Tensor]:
    """Return a function for `x / rms(x) * (weight + offset)`; the weight is optional."""

    def reference(x: Tensor, weight: Tensor | None = None) -> Tensor:
        normal = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return normal if weight is None else normal * (weight + offset)

    return reference


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(x, (x.shape[-1],), weight, bias, 1e-6)


def group_norm(groups: int) -> Callable[..., Tensor]:
    """Return a function for inputs (batch, channels, columns), with weight and bias per channel."""
    return lambda x, weight, bias: functional.group_norm(x, groups, weight, bias, 1e-6)


def geglu(gate: Tensor, up: Tensor) -> Tensor:
    return functional.gelu(gate, approximate="tanh") * up


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return functional.silu(gate) * up


def dynamic_tanh(x: Tensor, alpha: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return gamma * torch.tanh(alpha * x) + beta


def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate pairs (i, i + half) of each head; q and k are (batch, heads, positions, width)."""

    def rotate(x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
        return x * cos.unsqueeze(1) + turned * sin.unsqueeze(1)

    return rotate(q), rotate(k)


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=-1)


def sparsemax(x: Tensor) -> Tensor:
    """Project each row on the simplex (Martins and Astudillo, 2016)."""
    ordered = x.sort(dim=-1, descending=True).values
    excess = ordered.cumsum(-1) - 1
    ranks = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    support = (ordered * ranks > excess).sum(-1, keepdim=True)
    threshold = excess.gather(-1, support - 1) / support
    return torch.clamp(x - threshold, min=0)


def cross_entropy(
    *, softcap: float | None = None, z_scale: float = 0.0, **options: Any
) -> Callable[..., Tensor]:
    """Return a cross entropy with torch's options, capped logits and the z-loss of PaLM."""

    def reference(logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        if softcap is not None:
            logits = softcap * torch.tanh(logits / softcap)
        loss = functional.cross_entropy(logits, target, weight=weight, **options)
        kept = torch.ne(target, -100)
        squares = torch.logsumexp(logits, dim=-1)[kept].square()
        return loss + z_scale * squares.sum() / kept.sum()

    return reference


def linear_cross_entropy(x: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(functional.linear(x, weight, bias), target)


def kl_divergence(*, log_target: bool, reduction: str) -> Callable[..., Tensor]:
    return lambda x, y: functional.kl_div(x, y, reduction=reduction, log_target=log_target)


def jensen_shannon(beta: float) -> Callable[..., Tensor]:
    """Return a generalised divergence of log-probabilities, averaged over rows.

    It is `beta * KL(P | M) + (1 - beta) * KL(Q | M)` with `M = beta * P + (1 - beta) * Q`, where
    `x` is `log Q` and `y` is `log P`; for beta 0 and 1, it is a Kullback-Leibler divergence.
    """

    def divergence(log_of: Tensor, log_from: Tensor) -> Tensor:
        return (log_of.exp() * (log_of - log_from)).sum() / log_of.shape[0]

    def reference(x: Tensor, y: Tensor) -> Tensor:
        if beta == 0:
            return divergence(y, x)
        if beta == 1:
            return divergence(x, y)
        middle = torch.log(beta * y.exp() + (1 - beta) * x.exp())
        return beta * divergence(y, middle) + (1 - beta) * divergence(x, middle)

    return reference
