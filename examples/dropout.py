"""Dropout that stores no mask: both passes compute the mask from a seed.

`tl.rand` is the counter-based Philox generator: its numbers depend only on the seed and the
position, not on the program or the order of execution. The backward pass draws the same numbers.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    keep = tl.rand(seed, offsets) > p
    # Dividing the kept elements by the fraction that is kept preserves the expected value.
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=inside)


def _dropout(x: torch.Tensor, p: float, seed: int, block: int) -> torch.Tensor:
    out = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), p, seed, BLOCK=block)
    return out


class Dropout(torch.autograd.Function):
    """Dropout whose only saved state is three numbers."""

    @staticmethod
    def forward(ctx, x, p, seed, block):
        ctx.settings = (p, seed, block)
        return _dropout(x, p, seed, block)

    @staticmethod
    def backward(ctx, gradient):
        return _dropout(gradient.contiguous(), *ctx.settings), None, None, None


def main() -> dict[str, torch.Tensor]:
    device = triton.runtime.driver.active.get_active_torch_device()
    torch.manual_seed(0)
    x = torch.randn(20_000, device=device, requires_grad=True)
    p, seed = 0.3, 1234
    out = Dropout.apply(x, p, seed, 1024)
    out.backward(torch.ones_like(out))
    kept = out != 0
    expected = torch.where(kept, x / (1 - p), 0.0)
    torch.testing.assert_close(out, expected)
    # The gradient is the scaled mask, which shows that the backward pass drew the same numbers.
    torch.testing.assert_close(x.grad, kept / (1 - p))
    # With another block size, the numbers for a position are drawn by another program.
    assert torch.equal(out, Dropout.apply(x, p, seed, 256))
    assert not torch.equal(out, Dropout.apply(x, p, seed + 1, 1024))
    share = kept.float().mean().item()
    assert abs(share - (1 - p)) < 0.02, share
    print(f"ok dropout: kept {share:.1%} of {x.numel()} on {device.type}")
    return {"out": out.detach(), "gradient": x.grad}


if __name__ == "__main__":
    main()
