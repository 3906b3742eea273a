"""What libraries compute in CUDA around their Triton kernels of experts, in torch.

The functions stand in for those of binaries that are not there, so that the kernels between them
can run. They take and write what the binaries do.
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
    """Sorts tokens by expert, the tokens of each filled up to whole blocks.

    Args:
        topk_ids: The experts of each token, (tokens, k).
        experts: How many there are.
        block_size: Tokens of a block.
        sorted_ids: Gets positions in `topk_ids`, their number where a block is filled up.
        expert_ids: Gets the expert of each block.
        tokens_post_pad: Gets how many of `sorted_ids` count, (1,).
        first: The number of the first expert; -1 where an id of -1 is one, too.
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
    """Writes the k largest probabilities of each row of `logits` and where they are."""
    values, indices = logits.float().softmax(-1).topk(weights.shape[-1])
    weights.copy_(values / values.sum(-1, keepdim=True) if renormalize else values)
    ids.copy_(indices)


def silu_and_mul(x: torch.Tensor, out: torch.Tensor) -> None:
    """Writes silu of the first half of the columns times the second half."""
    gate, up = x.float().chunk(2, dim=-1)
    out.copy_(torch.nn.functional.silu(gate) * up)


def gelu_and_mul(x: torch.Tensor, out: torch.Tensor) -> None:
    """Writes gelu of the first half of the columns times the second half."""
    gate, up = x.float().chunk(2, dim=-1)
    out.copy_(torch.nn.functional.gelu(gate) * up)


def sum_of_experts(x: torch.Tensor, out: torch.Tensor, factor: float = 1.0) -> None:
    """Writes the sum over the experts of each token, (tokens, k, columns)."""
    out.copy_(x.float().sum(1) * factor)


def quantise_groups(
    x: torch.Tensor,
    quantised: torch.Tensor,
    scales: torch.Tensor,
    size: int,
    *_: object,
    **__: object,
) -> None:
    """Writes parts of rows, of `size` columns each, and what each was divided by.

    The largest magnitude of a part becomes the largest number of the narrow type. Integers are cut
    off, as SGLang cuts them.
    """
    kind = quantised.dtype
    limits = torch.finfo(kind) if kind.is_floating_point else torch.iinfo(kind)
    parts = x.float().reshape(*x.shape[:-1], -1, size)
    divisors = (parts.abs().amax(-1, keepdim=True) / limits.max).clamp(min=1e-10)
    values = (parts / divisors).clamp(limits.min, limits.max)
    quantised.copy_(values.flatten(-2).to(kind))
    scales.copy_(divisors.view(scales.shape))


def quantise_rows(x: torch.Tensor, quantised: torch.Tensor, scales: torch.Tensor) -> None:
    """Writes rows, each divided by a number of its own, and these numbers."""
    quantise_groups(x, quantised, scales, x.shape[-1])


def quantise_tensor(
    x: torch.Tensor, quantised: torch.Tensor, scale: torch.Tensor, static: bool
) -> None:
    """Writes a tensor divided by one number, which is given if `static`, else found."""
    if static:
        limit = torch.finfo(quantised.dtype).max
        quantised.copy_((x.float() / scale).clamp(-limit, limit).to(quantised.dtype))
    else:
        quantise_groups(x.reshape(1, -1), quantised.view(1, -1), scale, x.numel())
