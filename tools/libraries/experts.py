"""Functions of CUDA libraries for mixtures of experts, in torch.

Libraries call these functions of their CUDA binaries around their Triton kernels. The replacements
have the same arguments and results, so that tests can run the kernels without the binaries.
"""

from __future__ import annotations

import torch


def align_block_size(
    topk_ids: torch.Tensor,
    experts: int,
    block_size: int,
    sorted_ids: torch.Tensor,
    expert_ids: torch.Tensor,
    tokens_post_pad: torch.Tensor,
    first: int = 0,
) -> None:
    """Sort tokens by expert; the tokens of each expert are padded to whole blocks.

    Args:
        topk_ids: Experts of each token, (tokens, k).
        experts: Number of experts.
        block_size: Number of tokens per block.
        sorted_ids: Receives positions in `topk_ids`; entries for padding contain the number of
            positions.
        expert_ids: Receives the expert of each block.
        tokens_post_pad: Receives the number of entries of `sorted_ids` that are used, (1,).
        first: Id of the first expert; -1 if the id -1 counts as an expert.
    """
    flat = topk_ids.reshape(-1).cpu().long()
    sorted_ids.fill_(flat.numel())
    expert_ids.fill_(0)
    end = 0
    for expert in range(first, first + experts):
        positions = (flat == expert).nonzero()[:, 0]
        blocks = -(-len(positions) // block_size)
        sorted_ids[end : end + len(positions)] = positions.to(sorted_ids)
        expert_ids[end // block_size : end // block_size + blocks] = expert
        end += blocks * block_size
    tokens_post_pad.fill_(end)


def topk_softmax(
    weights: torch.Tensor, ids: torch.Tensor, logits: torch.Tensor, renormalize: bool
) -> None:
    """Write the k largest probabilities of each row of `logits`, and their indices."""
    values, indices = logits.float().softmax(-1).topk(weights.shape[-1])
    weights.copy_(values / values.sum(-1, keepdim=True) if renormalize else values)
    ids.copy_(indices)


def silu_and_mul(x: torch.Tensor, out: torch.Tensor) -> None:
    """Write SiLU of the first half of the columns times the second half."""
    gate, up = x.float().chunk(2, dim=-1)
    out.copy_(torch.nn.functional.silu(gate) * up)


def gelu_and_mul(x: torch.Tensor, out: torch.Tensor) -> None:
    """Write GELU of the first half of the columns times the second half."""
    gate, up = x.float().chunk(2, dim=-1)
    out.copy_(torch.nn.functional.gelu(gate) * up)


def sum_of_experts(x: torch.Tensor, out: torch.Tensor, factor: float = 1.0) -> None:
    """Write the sum over the experts of each token; `x` has the shape (tokens, k, columns)."""
    out.copy_(x.float().sum(1) * factor)


def quantise_groups(
    x: torch.Tensor,
    quantised: torch.Tensor,
    scales: torch.Tensor,
    size: int,
    *_: object,
    **__: object,
) -> None:
    """Quantise groups of `size` columns of each row; write the values and the scales.

    The scale maps the largest magnitude of a group to the largest number of the narrow type.
    Conversion to integers truncates, as in SGLang.
    """
    kind = quantised.dtype
    limits = torch.finfo(kind) if kind.is_floating_point else torch.iinfo(kind)
    parts = x.float().reshape(*x.shape[:-1], -1, size)
    divisors = (parts.abs().amax(-1, keepdim=True) / limits.max).clamp(min=1e-10)
    values = (parts / divisors).clamp(limits.min, limits.max)
    quantised.copy_(values.flatten(-2).to(kind))
    scales.copy_(divisors.view(scales.shape))


def quantise_rows(x: torch.Tensor, quantised: torch.Tensor, scales: torch.Tensor) -> None:
    """Quantise each row with a scale of its own; write the values and the scales."""
    quantise_groups(x, quantised, scales, x.shape[-1])


def quantise_tensor(
    x: torch.Tensor, quantised: torch.Tensor, scale: torch.Tensor, static: bool
) -> None:
    """Quantise a tensor with one scale, which is an input if `static`, otherwise an output."""
    if static:
        limit = torch.finfo(quantised.dtype).max
        quantised.copy_((x.float() / scale).clamp(-limit, limit).to(quantised.dtype))
    else:
        quantise_groups(x.reshape(1, -1), quantised.view(1, -1), scale, x.numel())
