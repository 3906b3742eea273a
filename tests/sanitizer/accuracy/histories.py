"""Small models of fixes of accuracy in public projects, each before and after the fix.

The kernels are our own; they only have the operation in common with the kernels that were fixed. A
comment with the name of a history marks the line at fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
HISTORIES: dict[str, History] = {}


@dataclass(frozen=True, kw_only=True)
class History:
    """A fix of a kernel's accuracy.

    Attributes:
        source: Issue or pull request on GitHub, as `owner/repository#number`.
        defect: The defect, as a phrase for tables.
        run: Runs the kernel before the fix, or after it if the argument is True.
    """

    source: str
    defect: str
    run: Callable[[bool], Any]


def history(source: str, defect: str) -> Callable[[Callable[[bool], Any]], Callable[[bool], Any]]:
    """Register a function that runs the kernel of a history."""

    def register(run: Callable[[bool], Any]) -> Callable[[bool], Any]:
        HISTORIES[run.__name__] = History(source=source, defect=defect, run=run)
        return run

    return register


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


# --- products and sums in a short type --------------------------------------------------------


@triton.jit
def causal_conv_kernel(x_ptr, w_ptr, o_ptr, T: tl.constexpr, FIXED: tl.constexpr):
    t = tl.arange(0, T)
    acc = tl.zeros([T], tl.float32)
    for j in tl.static_range(4):
        x, w = tl.load(x_ptr + t + j), tl.load(w_ptr + j)
        if FIXED:
            acc += x.to(tl.float32) * w.to(tl.float32)
        else:
            acc += x * w  # causal_conv
    tl.store(o_ptr + t, acc)


@history("vllm-project/vllm#52887", "products of bfloat16 are rounded before a float32 sum")
def causal_conv(fixed: bool) -> None:
    x, w, out = randn(67).to(BF16), randn(4, seed=1).to(BF16), torch.zeros(64)
    causal_conv_kernel[(1,)](x, w, out, T=64, FIXED=fixed)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, o_ptr, K, N: tl.constexpr, FIXED: tl.constexpr):
    i, k = tl.arange(0, N), tl.arange(0, N)
    acc = tl.zeros([N, N], tl.float32 if FIXED else tl.float16)
    for start in range(0, K, N):
        a = tl.load(a_ptr + i[:, None] * K + start + k[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * N + i[None, :])
        if FIXED:
            acc = tl.dot(a, b, acc)
        else:
            acc = tl.dot(a, b, acc, out_dtype=tl.float16)  # matmul_template
    tl.store(o_ptr + i[:, None] * N + i[None, :], acc)


@history("pytorch/pytorch#188998", "a loop over `tl.dot` accumulates in 16 bits")
def matmul_template(fixed: bool) -> None:
    a, b = rand(16, 512).to(F16), rand(512, 16, seed=1).to(F16)
    matmul_kernel[(1,)](a, b, torch.zeros(16, 16), 512, N=16, FIXED=fixed)


@triton.jit
def weight_gradient_kernel(
    dy_ptr, x_ptr, o_ptr, R: tl.constexpr, D: tl.constexpr, FIXED: tl.constexpr
):
    r, d = tl.arange(0, R)[:, None], tl.arange(0, D)
    dw = tl.zeros([D], tl.float32)
    for block in range(4):
        at = (block * R + r) * D + d[None, :]
        dy, x = tl.load(dy_ptr + at), tl.load(x_ptr + at)
        if FIXED:
            dw += tl.sum(dy.to(tl.float32) * x.to(tl.float32), 0)
        else:
            dw += tl.sum(dy * x, 0)  # weight_gradient
    tl.store(o_ptr + d, dw)


@history("linkedin/Liger-Kernel#950", "`tl.sum` of bfloat16 rows for a float32 gradient")
def weight_gradient(fixed: bool) -> None:
    dy, x, out = randn(64, 16).to(BF16), randn(64, 16, seed=1).to(BF16), torch.zeros(16)
    weight_gradient_kernel[(1,)](dy, x, out, R=16, D=16, FIXED=fixed)


@triton.jit
def rms_norm_kernel(x_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if FIXED:
        x = x.to(tl.float32)
    square = x * x  # rms_norm_casts, rms_norm_overflow
    mean = tl.sum(square.to(tl.float32), 0) / N
    tl.store(o_ptr + i, x.to(tl.float32) * (1 / tl.sqrt(mean + 1e-6)))


@history("linkedin/Liger-Kernel#92", "RMSNorm squares bfloat16 activations in bfloat16")
def rms_norm_casts(fixed: bool) -> None:
    rms_norm_kernel[(1,)](randn(128).to(BF16), torch.zeros(128), N=128, FIXED=fixed)


@history("young-geng/EasyLM#50", "RMSNorm squares float16 activations, which overflows")
def rms_norm_overflow(fixed: bool) -> None:
    rms_norm_kernel[(1,)]((400 * randn(128)).to(F16), torch.zeros(128), N=128, FIXED=fixed)


@triton.jit
def embedding_kernel(table_ptr, index_ptr, o_ptr, n, D: tl.constexpr, FIXED: tl.constexpr):
    d = tl.arange(0, D)
    acc = tl.zeros([D], tl.float32)
    for i in range(0, n, 2):
        first = tl.load(table_ptr + tl.load(index_ptr + i) * D + d)
        second = tl.load(table_ptr + tl.load(index_ptr + i + 1) * D + d)
        if FIXED:
            acc += first.to(tl.float32) + second.to(tl.float32)
        else:
            acc += first + second  # embedding_rows
    tl.store(o_ptr + d, acc)


@history("meta-pytorch/torchrec#3730", "rows of float16 are added in float16 first")
def embedding_rows(fixed: bool) -> None:
    table, index = randn(32, 16).to(F16), torch.arange(16) * 2 % 31
    embedding_kernel[(1,)](table, index, torch.zeros(16), 16, D=16, FIXED=fixed)


@triton.jit
def row_sum_kernel(x_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    if FIXED:
        x = x.to(tl.float32)
    total = tl.sum(x, 0)  # half_sum, half_sum_overflow
    tl.store(o_ptr, total.to(tl.float32) / N)


@history("pytorch/pytorch#141052", "a reduction of float16 is not promoted to float32")
def half_sum(fixed: bool) -> None:
    row_sum_kernel[(1,)](rand(512).to(F16), torch.zeros(1), N=512, FIXED=fixed)


@history("cactus-compute/cactus#344", "a sum of many float16 values overflows")
def half_sum_overflow(fixed: bool) -> None:
    row_sum_kernel[(1,)]((300 + rand(512)).to(F16), torch.zeros(1), N=512, FIXED=fixed)


@triton.jit
def running_sum_kernel(x_ptr, o_ptr, rows, D: tl.constexpr, FIXED: tl.constexpr):
    d = tl.arange(0, D)
    acc = tl.zeros([D], tl.float32 if FIXED else tl.float16)
    for i in range(rows):
        acc += tl.load(x_ptr + i * D + d)  # fp16_accumulator
    tl.store(o_ptr + d, acc.to(tl.float16))


@history("openvinotoolkit/openvino#25525", "small addends vanish in a float16 accumulator")
def fp16_accumulator(fixed: bool) -> None:
    x = rand(200, 16).to(F16)
    x[0] = 2048.0
    running_sum_kernel[(1,)](x, torch.zeros(16, dtype=F16), 200, D=16, FIXED=fixed)


@triton.jit
def column_mean_kernel(x_ptr, o_ptr, rows, D: tl.constexpr, FIXED: tl.constexpr):
    d = tl.arange(0, D)
    acc = tl.zeros([D], tl.float32 if FIXED else tl.bfloat16)
    for i in range(rows):
        acc += tl.load(x_ptr + i * D + d)  # bf16_accumulator
    tl.store(o_ptr + d, acc.to(tl.float32) / rows)


@history("vllm-project/vllm#15045", "a sum over tokens is kept in bfloat16")
def bf16_accumulator(fixed: bool) -> None:
    x = rand(150, 16).to(BF16)
    column_mean_kernel[(1,)](x, torch.zeros(16), 150, D=16, FIXED=fixed)


@triton.jit
def cumulative_kernel(g_ptr, o_ptr, T: tl.constexpr, FIXED: tl.constexpr):
    t = tl.arange(0, T)
    g = tl.load(g_ptr + t)
    if FIXED:
        g = g.to(tl.float32)
    total = tl.cumsum(g, 0)  # gate_cumsum
    tl.store(o_ptr + t, tl.exp(total.to(tl.float32)))


@history("fla-org/flash-linear-attention#361", "gates are cumulated in bfloat16 before `exp`")
def gate_cumsum(fixed: bool) -> None:
    cumulative_kernel[(1,)]((-rand(64) / 4).to(BF16), torch.zeros(64), T=64, FIXED=fixed)


@triton.jit
def prefix_sum_kernel(x_ptr, o_ptr, T, D: tl.constexpr, FIXED: tl.constexpr):
    d = tl.arange(0, D)
    carry = tl.zeros([D], tl.float32 if FIXED else tl.bfloat16)
    for t in range(T):
        carry += tl.load(x_ptr + t * D + d)  # long_cumsum
        tl.store(o_ptr + t * D + d, carry.to(tl.bfloat16))


@history("tenstorrent/tt-metal#41371", "the carry of a long cumulative sum is bfloat16")
def long_cumsum(fixed: bool) -> None:
    x, out = (rand(120, 16) / 4).to(BF16), torch.zeros(120, 16, dtype=BF16)
    x[0] = 100.0
    prefix_sum_kernel[(1,)](x, out, 120, D=16, FIXED=fixed)


@triton.jit
def recurrence_kernel(x_ptr, decay, o_ptr, T, D: tl.constexpr, FIXED: tl.constexpr):
    d = tl.arange(0, D)
    state = tl.zeros([D], tl.float32)
    for t in range(T):
        state = state * decay + tl.load(x_ptr + t * D + d)
        if not FIXED:
            state = state.to(tl.bfloat16).to(tl.float32)  # bf16_state
    tl.store(o_ptr + d, state)


@history("NVIDIA/TensorRT-LLM#14600", "the state of a recurrence is rounded to bfloat16")
def bf16_state(fixed: bool) -> None:
    recurrence_kernel[(1,)](rand(100, 16), 0.999, torch.zeros(16), 100, D=16, FIXED=fixed)


@triton.jit
def partial_sums_kernel(x_ptr, p_ptr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    total = tl.sum(tl.load(x_ptr + i).to(tl.float32), 0)
    tl.store(p_ptr + tl.program_id(0), total.to(p_ptr.dtype.element_ty))  # split_reduction


@triton.jit
def final_sum_kernel(p_ptr, o_ptr, P: tl.constexpr):
    tl.store(o_ptr, tl.sum(tl.load(p_ptr + tl.arange(0, P)).to(tl.float32), 0))


@history("pytorch/torchdynamo#484", "partial sums overflow in a float16 tensor between launches")
def split_reduction(fixed: bool) -> None:
    x = (1000 * rand(4, 256)).to(F16)
    partial = torch.zeros(4, dtype=F32 if fixed else F16)
    partial_sums_kernel[(4,)](x, partial, N=256)
    final_sum_kernel[(1,)](partial, torch.zeros(1), P=4)


@triton.jit
def row_products_kernel(g_ptr, x_ptr, o_ptr, rows, D: tl.constexpr, FIXED: tl.constexpr):
    d = tl.arange(0, D)
    acc = tl.zeros([D], tl.float32)
    for i in range(rows):
        g, x = tl.load(g_ptr + i * D + d), tl.load(x_ptr + i * D + d)
        product = g.to(tl.float32) * x
        if not FIXED:
            product = product.to(tl.bfloat16).to(tl.float32)  # cast_before_sum
        acc += product
    tl.store(o_ptr + d, acc)


@history("ml-explore/mlx-lm#938", "products are cast to bfloat16 before they are summed")
def cast_before_sum(fixed: bool) -> None:
    g, x = randn(40, 16).to(BF16), randn(40, 16, seed=1)
    row_products_kernel[(1,)](g, x, torch.zeros(16), 40, D=16, FIXED=fixed)


# --- values that are rounded too early --------------------------------------------------------


@triton.jit
def scaled_norm_kernel(x_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i).to(tl.float32)
    inverse = 1 / tl.sqrt(tl.sum(x * x, 0) / N + 1e-6)
    if not FIXED:
        inverse = inverse.to(tl.bfloat16).to(tl.float32)  # inverse_rms
    tl.store(o_ptr + i, x * inverse)


@history("amd/IRON#139", "the reciprocal RMS is rounded to bfloat16")
def inverse_rms(fixed: bool) -> None:
    scaled_norm_kernel[(1,)](randn(128), torch.zeros(128), N=128, FIXED=fixed)


@triton.jit
def unit_norm_kernel(x_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if FIXED:
        x = x.to(tl.float32)
    norm = tl.sqrt(tl.sum(x * x, 0).to(tl.float32))  # l2_norm
    tl.store(o_ptr + i, x.to(tl.float32) / norm)


@history("fla-org/flash-linear-attention#806", "the norm of a bfloat16 key is computed in bfloat16")
def l2_norm(fixed: bool) -> None:
    unit_norm_kernel[(1,)](randn(128).to(BF16), torch.zeros(128), N=128, FIXED=fixed)


@triton.jit
def rotary_angles_kernel(f_ptr, o_ptr, position, D: tl.constexpr, FIXED: tl.constexpr):
    d = tl.arange(0, D)
    frequency = tl.load(f_ptr + d)
    if not FIXED:
        frequency = frequency.to(tl.bfloat16).to(tl.float32)  # inverse_frequencies
    tl.store(o_ptr + d, tl.cos(frequency * position))


@history("sgl-project/sglang-jax#1473", "inverse frequencies are rounded to bfloat16")
def inverse_frequencies(fixed: bool) -> None:
    frequency = torch.exp(-0.3 * torch.arange(16))
    rotary_angles_kernel[(1,)](frequency, torch.zeros(16), 3000.0, D=16, FIXED=fixed)


@triton.jit
def narrow_scores_kernel(q_ptr, k_ptr, o_ptr, scale, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    q = tl.load(q_ptr + i[:, None] * N + i[None, :])
    k = tl.load(k_ptr + i[:, None] * N + i[None, :])
    scores = tl.dot(q, k)
    if not FIXED:
        scores = scores.to(tl.float16).to(tl.float32)  # attention_scores, narrow_logits
    scores = scores * scale
    p = tl.exp(scores - tl.max(scores, 1)[:, None])
    tl.store(o_ptr + i[:, None] * N + i[None, :], p / tl.sum(p, 1)[:, None])


@history("ROCm/aotriton#179", "attention scores overflow in float16 before they are scaled")
def attention_scores(fixed: bool) -> None:
    q, k = (90 * randn(16, 16)).to(F16), (90 * randn(16, 16, seed=1)).to(F16)
    q[0], k[:, 0] = 90.0, 90.0
    narrow_scores_kernel[(1,)](q, k, torch.zeros(16, 16), 1e-4, N=16, FIXED=fixed)


@history("ROCm/aiter#705", "attention scores have the type of their operands")
def narrow_logits(fixed: bool) -> None:
    q, k = (9 * randn(16, 16)).to(F16), (9 * randn(16, 16, seed=1)).to(F16)
    narrow_scores_kernel[(1,)](q, k, torch.zeros(16, 16), 0.25, N=16, FIXED=fixed)


@triton.jit
def narrow_softmax_kernel(x_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    if not FIXED:
        e = e.to(tl.float16).to(tl.float32)  # narrow_softmax
    tl.store(o_ptr + i, tl.log(e / tl.sum(e, 0)))


@history("fla-org/flash-linear-attention#384", "probabilities in float16 underflow")
def narrow_softmax(fixed: bool) -> None:
    narrow_softmax_kernel[(1,)](4 * randn(64), torch.zeros(64), N=64, FIXED=fixed)


@triton.jit
def merged_blocks_kernel(x_ptr, o_ptr, blocks, D: tl.constexpr, FIXED: tl.constexpr):
    d = tl.arange(0, D)
    acc = tl.zeros([D], tl.float32)
    for block in range(blocks):
        own = tl.load(x_ptr + block * D + d)
        if not FIXED:
            own = own.to(tl.bfloat16).to(tl.float32)  # ring_blocks
        acc = acc + (own - acc) / (block + 1)
    tl.store(o_ptr + d, acc)


@history("zhuzilin/ring-flash-attention#22", "results of blocks are merged in bfloat16")
def ring_blocks(fixed: bool) -> None:
    merged_blocks_kernel[(1,)](randn(16, 16), torch.zeros(16), 16, D=16, FIXED=fixed)


# --- differences of nearly equal numbers ------------------------------------------------------


@triton.jit
def suffix_sums_kernel(x_ptr, o_ptr, T: tl.constexpr, FIXED: tl.constexpr):
    t = tl.arange(0, T)
    x = tl.load(x_ptr + t)
    if FIXED:
        suffix = tl.cumsum(x, 0, reverse=True)
    else:
        prefix = tl.cumsum(x, 0)  # reverse_cumsum
        total = tl.sum(x, 0)  # reverse_cumsum
        suffix = total - prefix + x  # reverse_cumsum
    tl.store(o_ptr + t, suffix)


@history("fla-org/flash-linear-attention#1150", "a reverse cumulative sum as total minus prefix")
def reverse_cumsum(fixed: bool) -> None:
    x = rand(64)
    x[:32] *= 1e5
    x[32:] *= 1e-3
    suffix_sums_kernel[(1,)](x, torch.zeros(64), T=64, FIXED=fixed)


@triton.jit
def moments_kernel(x_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    mean = tl.sum(x, 0) / N  # variance_of_squares, negative_variance
    if FIXED:
        var = tl.sum((x - mean) * (x - mean), 0) / N
    else:
        square = tl.sum(x * x, 0) / N  # variance_of_squares, negative_variance
        var = square - mean * mean  # variance_of_squares, negative_variance
    tl.store(o_ptr + i, (x - mean) * (1 / tl.sqrt(var + 1e-12)))


@history("tenstorrent/tt-metal#45968", "the variance is E[x²] - E[x]²")
def variance_of_squares(fixed: bool) -> None:
    moments_kernel[(1,)](300 + 0.3 * randn(256), torch.zeros(256), N=256, FIXED=fixed)


@history("NVIDIA/trt-samples-for-hackathon-cn#88", "the variance becomes negative, its root NaN")
def negative_variance(fixed: bool) -> None:
    x = 300 + 1e-3 * randn(256, seed=1)
    moments_kernel[(1,)](x, torch.zeros(256), N=256, FIXED=fixed)


@triton.jit
def softplus_kernel(x_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if FIXED:
        y = libdevice.log1p(tl.exp(x))
    else:
        y = tl.log(1 + tl.exp(x))  # softplus
    tl.store(o_ptr + i, y)


@history("state-spaces/mamba#377", "softplus adds a small `exp(x)` to 1")
def softplus(fixed: bool) -> None:
    softplus_kernel[(1,)](-8 - 8 * rand(64), torch.zeros(64), N=64, FIXED=fixed)


@triton.jit
def sigmoid_gradient_kernel(x_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    s = 1 / (1 + tl.exp(-x))  # sigmoid_gradient
    if FIXED:
        e = tl.exp(-tl.abs(x))
        gradient = e / ((1 + e) * (1 + e))
    else:
        gradient = s * (1 - s)  # sigmoid_gradient
    tl.store(o_ptr + i, gradient)


@history("jax-ml/jax#40825", "the gradient of a sigmoid is `s (1 - s)`")
def sigmoid_gradient(fixed: bool) -> None:
    sigmoid_gradient_kernel[(1,)](8 + 8 * rand(64), torch.zeros(64), N=64, FIXED=fixed)


@triton.jit
def scaled_maximum_kernel(x_ptr, o_ptr, scale, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if FIXED:
        shifted = (x - tl.max(x, 0)) * scale
    else:
        m = tl.max(x, 0) * scale  # fused_maximum
        shifted = x * scale - m  # fused_maximum
    tl.store(o_ptr + i, tl.exp2(shifted))  # fused_maximum


@history("ROCm/aotriton#54", "a fused product minus the rounded product of the maximum")
def fused_maximum(fixed: bool) -> None:
    x = torch.full((16,), 17720934400.0) - 65536 * torch.arange(16)
    scaled_maximum_kernel[(1,)](x, torch.zeros(16), 0.36067376, N=16, FIXED=fixed)


# --- overflow, underflow and NaN --------------------------------------------------------------


@triton.jit
def softcap_kernel(x_ptr, o_ptr, cap, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i) / cap
    if FIXED:
        e = tl.exp(-2 * tl.abs(x))
        y = tl.where(x < 0, -1.0, 1.0) * (1 - e) / (1 + e)
    else:
        p, n = tl.exp(x), tl.exp(-x)  # softcap
        y = (p - n) / (p + n)  # softcap
    tl.store(o_ptr + i, cap * y)


@history("vllm-project/vllm#56578", "both exponentials of tanh overflow for large scores")
def softcap(fixed: bool) -> None:
    softcap_kernel[(1,)](torch.linspace(-9000, 9000, 16), torch.zeros(16), 50.0, N=16, FIXED=fixed)


@triton.jit
def log_softmax_kernel(x_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if FIXED:
        x = x - tl.max(x, 0)
    e = tl.exp(x)  # log_softmax
    tl.store(o_ptr + i, x - tl.log(tl.sum(e, 0)))


@history("tenstorrent/tt-metal#10001", "log-softmax without the maximum overflows")
def log_softmax(fixed: bool) -> None:
    log_softmax_kernel[(1,)](80 + 30 * rand(64), torch.zeros(64), N=64, FIXED=fixed)


@triton.jit
def online_maximum_kernel(x_ptr, o_ptr, blocks, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    m = tl.full([N], float("-inf"), tl.float32)
    total = tl.zeros([N], tl.float32)
    for block in range(blocks):
        x = tl.load(x_ptr + block * N + i)
        new = tl.maximum(m, x)
        if FIXED:
            factor = tl.where(m == new, 1.0, tl.exp(m - tl.where(m == new, 0.0, new)))
            own = tl.where(x == new, 1.0, tl.exp(x - tl.where(x == new, 0.0, new)))
            own = tl.where(new == float("-inf"), 0.0, own)
        else:
            factor = tl.exp(m - new)  # online_maximum
            own = tl.exp(x - new)  # online_maximum
        total = total * factor + own
        m = new
    tl.store(o_ptr + i, total)


@history("gabrieldemarmiesse/torch-mojo-backend#319", "`exp(-inf - -inf)` of masked logits is NaN")
def online_maximum(fixed: bool) -> None:
    x = randn(3, 16)
    x[0] = float("-inf")
    online_maximum_kernel[(1,)](x, torch.zeros(16), 3, N=16, FIXED=fixed)


@triton.jit
def cross_entropy_kernel(x_ptr, o_ptr, label, N: tl.constexpr, FIXED: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    m = tl.max(x, 0)
    total = tl.sum(tl.exp(x - m), 0)
    own = tl.load(x_ptr + label)
    if FIXED:
        loss = m + tl.log(total) - own
    else:
        loss = -tl.log(tl.exp(own - m) / total)  # log_of_softmax
    tl.store(o_ptr, loss)


@history("PaddlePaddle/Paddle#21165", "the logarithm of a probability that underflows")
def log_of_softmax(fixed: bool) -> None:
    x = randn(64)
    x[3] = -120.0
    cross_entropy_kernel[(1,)](x, torch.zeros(1), 3, N=64, FIXED=fixed)


@triton.jit
def decay_kernel(g_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    g = tl.load(g_ptr + i)
    below = i[:, None] >= i[None, :]
    difference = g[:, None] - g[None, :]
    if FIXED:
        decay = tl.exp(tl.where(below, difference, float("-inf")))
    else:
        decay = tl.exp(difference) * below.to(tl.float32)  # decay_mask
    tl.store(o_ptr + i[:, None] * N + i[None, :], decay)


@history("fla-org/flash-linear-attention#649", "decays above the diagonal overflow before the mask")
def decay_mask(fixed: bool) -> None:
    g = -20 * torch.arange(16, dtype=F32)
    decay_kernel[(1,)](g, torch.zeros(16, 16), N=16, FIXED=fixed)


@triton.jit
def adam_kernel(g_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    g = tl.load(g_ptr + i)
    if FIXED:
        g = g.to(tl.float32)
    second = g * g  # fp16_adam
    tl.store(o_ptr + i, g.to(tl.float32) / (tl.sqrt(second.to(tl.float32)) + 1e-8))


@history("chainer/chainer#7780", "Adam squares float16 gradients in float16")
def fp16_adam(fixed: bool) -> None:
    g = torch.cat([1e-4 * randn(8), 500 + randn(8)]).to(F16)
    adam_kernel[(1,)](g, torch.zeros(16), N=16, FIXED=fixed)


@triton.jit
def group_norm_kernel(x_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if FIXED:
        x = x.to(tl.float32)
    square = x * x  # group_norm
    scale = 1 / tl.sqrt(tl.sum(square.to(tl.float32), 0) / N)
    tl.store(o_ptr + i, (x.to(tl.float32) * scale).to(tl.float16))


@history("neuroneural/brainchop-cli#56", "group norm squares float16 activations above 255")
def group_norm(fixed: bool) -> None:
    x, out = (300 + 50 * randn(64)).to(F16), torch.zeros(64, dtype=F16)
    group_norm_kernel[(1,)](x, out, N=64, FIXED=fixed)


@triton.jit
def zero_row_kernel(x_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + i)
    square = tl.sum(x * x, 0)
    if FIXED:
        square += 1e-12
    scale = tl.rsqrt(square)  # zero_row
    tl.store(o_ptr + i, x * scale)  # zero_row


@history("keras-team/keras#23075", "the norm of a row of zeros has no epsilon")
def zero_row(fixed: bool) -> None:
    x = randn(2, 16)
    x[1] = 0.0
    zero_row_kernel[(2,)](x, torch.zeros(2, 16), N=16, FIXED=fixed)


# --- lanes behind a mask ----------------------------------------------------------------------


@triton.jit
def layer_norm_kernel(x_ptr, o_ptr, n, N: tl.constexpr, FIXED: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    d = x - tl.sum(x, 0) / n
    if FIXED:
        d = tl.where(i < n, d, 0.0)
    var = tl.sum(d * d, 0) / n  # tutorial_variance, padded_variance
    tl.store(o_ptr + i, d * (1 / tl.sqrt(var + 1e-5)), mask=i < n)


@history("triton-lang/triton#9838", "the variance counts lanes that the mask leaves out")
def tutorial_variance(fixed: bool) -> None:
    layer_norm_kernel[(1,)](3 + rand(3), torch.zeros(3), 3, N=4, FIXED=fixed)


@history("linkedin/Liger-Kernel#518", "the same for a number of features such as 768")
def padded_variance(fixed: bool) -> None:
    layer_norm_kernel[(1,)](3 + rand(96), torch.zeros(96), 96, N=128, FIXED=fixed)
