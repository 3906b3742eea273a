"""Runs operators of Liger-Kernel, a library of training kernels, forward and backward.

It needs the distribution `liger-kernel`, and shows nothing without it.
"""

import importlib.util

import torch
import triton
from torch.nn import functional as F


def rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def rope(q, k, cos, sin):
    def turned(x):
        first, second = x.chunk(2, dim=-1)
        return x * cos[:, None] + torch.cat((-second, first), dim=-1) * sin[:, None]

    return turned(q), turned(k)


def angles(positions, width):
    frequencies = 10000.0 ** (-torch.arange(0, width, 2) / width)
    turns = torch.outer(torch.arange(float(positions)), frequencies).repeat(1, 2)[None]
    return turns.cos(), turns.sin()


def operators():
    """Return per operator: name, Liger's function, torch's, shapes with gradients, other inputs."""
    from liger_kernel.transformers import functional as liger

    return [
        ("rms_norm", lambda x, w: liger.liger_rms_norm(x, w, 1e-6), rms_norm,
         [(64, 512), (512,)], []),
        ("swiglu", liger.liger_swiglu, lambda gate, up: F.silu(gate) * up,
         [(64, 512), (64, 512)], []),
        ("geglu", liger.liger_geglu, lambda gate, up: F.gelu(gate, approximate="tanh") * up,
         [(64, 512), (64, 512)], []),
        ("softmax", liger.liger_softmax, lambda x: torch.softmax(x, -1), [(64, 500)], []),
        ("rope", liger.liger_rope, rope, [(2, 8, 32, 64), (2, 2, 32, 64)], [*angles(32, 64)]),
        ("cross_entropy", liger.liger_cross_entropy, F.cross_entropy,
         [(32, 32_000)], [torch.randint(32_000, (32,))]),
    ]  # fmt: skip


def forward_and_backward(function, shapes, others, device):
    """Return outputs, and gradients of inputs with these shapes; all calls use the same numbers."""
    torch.manual_seed(0)
    inputs = [torch.randn(shape).to(device).requires_grad_() for shape in shapes]
    outputs = function(*inputs, *(x.to(device) for x in others))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    # Liger's backward pass may overwrite the tensors that the forward pass returned.
    results = [x.detach().clone() for x in outputs]
    torch.autograd.backward(outputs, [torch.randn(x.shape).to(device) for x in outputs])
    return [*results, *(x.grad for x in inputs)]


def main() -> dict[str, torch.Tensor]:
    if importlib.util.find_spec("liger_kernel") is None:
        print("ok liger: nothing to show, liger-kernel is not installed")
        return {}
    device = triton.runtime.driver.active.get_active_torch_device()
    torch.manual_seed(0)
    results = {}
    for name, ours, theirs, shapes, others in operators():
        got = forward_and_backward(ours, shapes, others, device)
        wanted = forward_and_backward(theirs, shapes, others, device)
        error = 0.0
        for x, y in zip(got, wanted, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)
            error = max(error, (x - y).abs().max().item())
        print(f"   liger {name}: forward and backward as torch's, largest difference {error:.0e}")
        results |= {f"{name} {n}": x for n, x in enumerate(got)}
    print(f"ok liger: {len(operators())} operators on {device.type}")
    return results


if __name__ == "__main__":
    main()
