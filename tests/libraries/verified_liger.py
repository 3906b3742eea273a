"""Operators of Liger-Kernel with references and inputs, for `ttools verify`."""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

from typing import Annotated, Any

import torch
import torch.nn.functional as F
from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
from liger_kernel.ops.dyt import LigerDyTFunction
from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction
from liger_kernel.ops.geglu import LigerGELUMulFunction
from liger_kernel.ops.group_norm import LigerGroupNormFunction
from liger_kernel.ops.jsd import LigerJSDFunction
from liger_kernel.ops.kl_div import LigerKLDivLossFunction
from liger_kernel.ops.layer_norm import LigerLayerNormFunction
from liger_kernel.ops.rms_norm import LigerRMSNormFunction
from liger_kernel.ops.rope import LigerRopeFunction
from liger_kernel.ops.softmax import LigerSoftmaxFunction
from liger_kernel.ops.swiglu import LigerSiLUMulFunction
from liger_kernel.ops.tvd import LigerTVDLossFunction
from torch import Tensor

#: Arguments with finite values, since losses and normalisations of other values are unspecified.
FINITE = ["x", "a", "b", "w", "r", "p", "q", "k", "cos", "sin", "alpha"]
Rows = Annotated[int, (1, 40)]
Columns = Annotated[int, (1, 600)]
Types = Annotated[str, ["float32", "bfloat16"]]
Gradients = Annotated[bool, [False, True]]


def drawn(seed: int, dtype: str, *shape: int, grad: bool = False) -> Tensor:
    """Return normally distributed numbers."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(getattr(torch, dtype)).requires_grad_(grad)


def rows(M: Rows, N: Columns, dtype: Types, grad: Gradients, seed: int) -> dict[str, Any]:
    return {"x": drawn(seed, dtype, M, N, grad=grad)}


def softmax(x: Tensor) -> Any:
    return LigerSoftmaxFunction.apply(x)


def softmax_reference(x: Tensor) -> Any:
    return torch.softmax(x, -1)


def pairs(M: Rows, N: Columns, dtype: Types, grad: Gradients, seed: int) -> dict[str, Any]:
    return {"a": drawn(seed, dtype, M, N, grad=grad), "b": drawn(seed + 1, dtype, M, N, grad=grad)}


def swiglu(a: Tensor, b: Tensor) -> Any:
    return LigerSiLUMulFunction.apply(a, b)


def swiglu_reference(a: Tensor, b: Tensor) -> Any:
    return F.silu(a) * b


def geglu(a: Tensor, b: Tensor) -> Any:
    return LigerGELUMulFunction.apply(a, b)


def geglu_reference(a: Tensor, b: Tensor) -> Any:
    return F.gelu(a, approximate="tanh") * b


def weighted(M: Rows, N: Columns, dtype: Types, grad: Gradients, seed: int) -> dict[str, Any]:
    return {"x": drawn(seed, dtype, M, N, grad=grad), "w": drawn(seed + 1, dtype, N, grad=grad)}


def rms_norm(x: Tensor, w: Tensor) -> Any:
    return LigerRMSNormFunction.apply(x, w, 1e-3, 0.0, "gemma", False)


def rms_norm_reference(x: Tensor, w: Tensor) -> Any:
    wide = x.float()
    scale = (wide.square().mean(-1, keepdim=True) + 1e-3).rsqrt()
    return (wide * scale * w.float()).to(x.dtype)


def biased(M: Rows, N: Columns, dtype: Types, grad: Gradients, seed: int) -> dict[str, Any]:
    return {**weighted(M, N, dtype, grad, seed), "b": drawn(seed + 2, dtype, N, grad=grad)}


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return LigerLayerNormFunction.apply(x, w, b, 1e-3)


def layer_norm_reference(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return F.layer_norm(x.float(), x.shape[-1:], w.float(), b.float(), 1e-3).to(x.dtype)


def residual(M: Rows, N: Columns, dtype: Types, grad: Gradients, seed: int) -> dict[str, Any]:
    return {**weighted(M, N, dtype, grad, seed), "r": drawn(seed + 2, dtype, M, N, grad=grad)}


def fused_add_rms_norm(x: Tensor, r: Tensor, w: Tensor) -> Any:
    return LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-3, 0.0, "gemma", False)


def fused_add_rms_norm_reference(x: Tensor, r: Tensor, w: Tensor) -> Any:
    total = x + r
    return rms_norm_reference(total, w), total


def images(
    B: Annotated[int, (1, 3)],
    G: Annotated[int, (1, 4)],
    C: Annotated[int, (1, 4)],
    S: Annotated[int, (1, 90)],
    grad: Gradients,
    seed: int,
) -> dict[str, Any]:
    x = drawn(seed, "float32", B, G * C, S, grad=grad)
    w, b = (drawn(seed + n, "float32", G * C, grad=grad) for n in (1, 2))
    return {"x": x, "w": w, "b": b, "groups": G}


def group_norm(x: Tensor, w: Tensor, b: Tensor, groups: int) -> Any:
    return LigerGroupNormFunction.apply(x, w, b, x.shape[1], groups, 1e-3)


def group_norm_reference(x: Tensor, w: Tensor, b: Tensor, groups: int) -> Any:
    return F.group_norm(x, groups, w, b, 1e-3)


def tanh_inputs(M: Rows, N: Columns, dtype: Types, seed: int) -> dict[str, Any]:
    return {**biased(M, N, dtype, False, seed), "alpha": drawn(seed + 3, dtype, 1)}


def dyt(x: Tensor, w: Tensor, b: Tensor, alpha: Tensor) -> Any:
    return LigerDyTFunction.apply(x, alpha, w, b)


def dyt_reference(x: Tensor, w: Tensor, b: Tensor, alpha: Tensor) -> Any:
    return (w.float() * torch.tanh(alpha.float() * x.float()) + b.float()).to(x.dtype)


def heads(
    B: Annotated[int, (1, 3)],
    H: Annotated[int, (1, 4)],
    S: Annotated[int, (1, 40)],
    D: Annotated[int, (1, 20)],
    dtype: Types,
    seed: int,
) -> dict[str, Any]:
    angles = torch.arange(S)[:, None] * 10.0 ** (-torch.arange(D) / D)
    angles = torch.cat([angles, angles], -1)[None]
    return {
        "q": drawn(seed, dtype, B, 2 * H, S, 2 * D),
        "k": drawn(seed + 1, dtype, B, H, S, 2 * D),
        "cos": angles.cos().to(getattr(torch, dtype)),
        "sin": angles.sin().to(getattr(torch, dtype)),
    }


def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
    return LigerRopeFunction.apply(q, k, cos, sin)


def rope_reference(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
    def turned(x: Tensor) -> Tensor:
        first, two = x.float().chunk(2, -1)
        c, s = cos.float()[:, None], sin.float()[:, None]
        return (x.float() * c + torch.cat([-two, first], -1) * s).to(x.dtype)

    return turned(q), turned(k)


def labelled(M: Rows, N: Annotated[int, (2, 600)], grad: Gradients, seed: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, N, (M,), generator=generator)
    target[1::5] = -100
    return {"x": drawn(seed, "float32", M, N, grad=grad), "target": target}


def cross_entropy(x: Tensor, target: Tensor) -> Any:
    return LigerCrossEntropyFunction.apply(x, target, None)[0]


def cross_entropy_reference(x: Tensor, target: Tensor) -> Any:
    return F.cross_entropy(x, target)


def distributions(M: Rows, N: Columns, seed: int) -> dict[str, Any]:
    return {
        "p": drawn(seed, "float32", M, N).softmax(-1),
        "q": drawn(seed + 1, "float32", M, N).softmax(-1),
    }


def log_distributions(M: Rows, N: Columns, seed: int) -> dict[str, Any]:
    return {key: tensor.log() for key, tensor in distributions(M, N, seed).items()}


def tvd(p: Tensor, q: Tensor) -> Any:
    return LigerTVDLossFunction.apply(p, q)


def tvd_reference(p: Tensor, q: Tensor) -> Any:
    return 0.5 * (p - q).abs().sum() / p.shape[0]


def jsd(p: Tensor, q: Tensor) -> Any:
    return LigerJSDFunction.apply(p, q)


def jsd_reference(p: Tensor, q: Tensor) -> Any:
    middle = (0.5 * (p.exp() + q.exp())).log()
    both = q.exp() * (q - middle) + p.exp() * (p - middle)
    return 0.5 * both.sum() / p.shape[0]


def kl_div(p: Tensor, q: Tensor) -> Any:
    return LigerKLDivLossFunction.apply(p, q, "batchmean", True)


def kl_div_reference(p: Tensor, q: Tensor) -> Any:
    return F.kl_div(p, q, reduction="batchmean", log_target=True)
