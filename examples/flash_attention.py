"""Causal attention, forward and backward, that never stores the matrix of all scores.

The forward kernel iterates over blocks of keys and keeps, for each query, the largest score so far,
the sum of exponentials relative to it, and the output so far; a larger maximum rescales the other
two. It stores the logarithm of that sum, from which the backward kernels compute the
probabilities again, block by block. Scores are in base 2, whose exponential is the cheaper one.
"""

import math

import torch
import triton
import triton.language as tl

LOG2_E = math.log2(math.e)
BLOCK = 32


@triton.jit
def load_rows(base, rows, N, D: tl.constexpr):
    """Load rows of an [N, D] matrix; rows past its end are zero."""
    pointers = base + rows[:, None] * D + tl.arange(0, D)[None, :]
    return tl.load(pointers, mask=rows[:, None] < N, other=0.0)


@triton.jit
def store_rows(base, rows, N, D: tl.constexpr, value):
    pointers = base + rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(pointers, value, mask=rows[:, None] < N)


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, logsum_ptr, scale, N, D: tl.constexpr, BLOCK: tl.constexpr
):
    head = tl.program_id(1)
    base = head * N * D
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    q = load_rows(q_ptr + base, rows, N, D)
    largest = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    out = tl.zeros([BLOCK, D], tl.float32)
    # Blocks of keys past the diagonal are skipped: no query of this block may see them.
    for start in range(0, (tl.program_id(0) + 1) * BLOCK, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        k = load_rows(k_ptr + base, columns, N, D)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(rows[:, None] >= columns[None, :], scores, float("-inf"))
        # Every query sees its own key or an earlier one, so the maximum is finite from the first
        # block on.
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        probabilities = tl.exp2(scores - new_largest[:, None])
        rescale = tl.exp2(largest - new_largest)
        total = total * rescale + tl.sum(probabilities, axis=1)
        v = load_rows(v_ptr + base, columns, N, D)
        out = tl.dot(probabilities.to(v.dtype), v, out * rescale[:, None], input_precision="ieee")
        largest = new_largest
    out /= total[:, None]
    store_rows(out_ptr + base, rows, N, D, out.to(out_ptr.dtype.element_ty))
    tl.store(logsum_ptr + head * N + rows, largest + tl.log2(total), mask=rows < N)


@triton.jit
def row_dots_kernel(a_ptr, b_ptr, dots_ptr, N, D: tl.constexpr, BLOCK: tl.constexpr):
    """Store the dot product of each row of A and the same row of B."""
    base = tl.program_id(1) * N * D
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = load_rows(a_ptr + base, rows, N, D).to(tl.float32)
    b = load_rows(b_ptr + base, rows, N, D).to(tl.float32)
    tl.store(dots_ptr + tl.program_id(1) * N + rows, tl.sum(a * b, axis=1), mask=rows < N)


@triton.jit
def probabilities_again(q, k, rows, columns, logsum, scale):
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    probabilities = tl.exp2(scores - logsum[:, None])
    return tl.where(rows[:, None] >= columns[None, :], probabilities, 0.0)


@triton.jit
def backward_kv_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, dk_ptr, dv_ptr, logsum_ptr, dots_ptr,
    scale, softmax_scale, N, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of one block of keys and values from the queries that see it."""
    head = tl.program_id(1)
    base = head * N * D
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = load_rows(k_ptr + base, columns, N, D)
    v = load_rows(v_ptr + base, columns, N, D)
    dk = tl.zeros([BLOCK, D], tl.float32)
    dv = tl.zeros([BLOCK, D], tl.float32)
    for start in range(tl.program_id(0) * BLOCK, N, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        q = load_rows(q_ptr + base, rows, N, D)
        dout = load_rows(dout_ptr + base, rows, N, D)
        # Rows past the end: minus infinity would make their probabilities infinite.
        logsum = tl.load(logsum_ptr + head * N + rows, mask=rows < N, other=0.0)
        dots = tl.load(dots_ptr + head * N + rows, mask=rows < N, other=0.0)
        p = probabilities_again(q, k, rows, columns, logsum, scale)
        dv = tl.dot(tl.trans(p).to(dout.dtype), dout, dv, input_precision="ieee")
        dp = tl.dot(dout, tl.trans(v), input_precision="ieee")
        ds = p * (dp - dots[:, None])
        dk = tl.dot(tl.trans(ds).to(q.dtype), q, dk, input_precision="ieee")
    store_rows(dk_ptr + base, columns, N, D, (dk * softmax_scale).to(dk_ptr.dtype.element_ty))
    store_rows(dv_ptr + base, columns, N, D, dv.to(dv_ptr.dtype.element_ty))


@triton.jit
def backward_q_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, dq_ptr, logsum_ptr, dots_ptr,
    scale, softmax_scale, N, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of one block of queries from the keys that it sees."""
    head = tl.program_id(1)
    base = head * N * D
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    q = load_rows(q_ptr + base, rows, N, D)
    dout = load_rows(dout_ptr + base, rows, N, D)
    logsum = tl.load(logsum_ptr + head * N + rows, mask=rows < N, other=0.0)
    dots = tl.load(dots_ptr + head * N + rows, mask=rows < N, other=0.0)
    dq = tl.zeros([BLOCK, D], tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BLOCK, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        k = load_rows(k_ptr + base, columns, N, D)
        v = load_rows(v_ptr + base, columns, N, D)
        p = probabilities_again(q, k, rows, columns, logsum, scale)
        dp = tl.dot(dout, tl.trans(v), input_precision="ieee")
        ds = p * (dp - dots[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    store_rows(dq_ptr + base, rows, N, D, (dq * softmax_scale).to(dq_ptr.dtype.element_ty))


class Attention(torch.autograd.Function):
    """Causal attention over contiguous [heads, N, D]; D is a power of two of at least 16."""

    @staticmethod
    def forward(ctx, q, k, v):
        heads, N, D = q.shape
        out = torch.empty_like(q)
        logsum = torch.empty((heads, N), dtype=torch.float32, device=q.device)
        scale = LOG2_E / math.sqrt(D)
        grid = (triton.cdiv(N, BLOCK), heads)
        forward_kernel[grid](q, k, v, out, logsum, scale, N, D=D, BLOCK=BLOCK)
        ctx.save_for_backward(q, k, v, out, logsum)
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, logsum = ctx.saved_tensors
        dout = dout.contiguous()
        heads, N, D = q.shape
        dots = torch.empty_like(logsum)
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        softmax_scale = 1 / math.sqrt(D)
        scales = (softmax_scale * LOG2_E, softmax_scale)
        grid = (triton.cdiv(N, BLOCK), heads)
        sizes = {"D": D, "BLOCK": BLOCK}
        row_dots_kernel[grid](out, dout, dots, N, **sizes)
        backward_kv_kernel[grid](q, k, v, dout, dk, dv, logsum, dots, *scales, N, **sizes)
        backward_q_kernel[grid](q, k, v, dout, dq, logsum, dots, *scales, N, **sizes)
        return dq, dk, dv


def main() -> dict[str, torch.Tensor]:
    device = triton.runtime.driver.active.get_active_torch_device()
    torch.manual_seed(0)
    results = {}
    heads, N, D = 2, 150, 64
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.float16, 2e-2)):
        q, k, v, dout = (torch.randn(heads, N, D, device=device).to(dtype) for _ in range(4))
        inputs = [x.requires_grad_() for x in (q, k, v)]
        out = Attention.apply(*inputs)
        gradients = torch.autograd.grad(out, inputs, dout)
        exact = [x.detach().double().requires_grad_() for x in inputs]
        expected = torch.nn.functional.scaled_dot_product_attention(*exact, is_causal=True)
        expected_gradients = torch.autograd.grad(expected, exact, dout.double())
        names = ("out", "dq", "dk", "dv")
        for name, got, want in zip(
            names, (out, *gradients), (expected, *expected_gradients), strict=True
        ):
            results[f"{name} {dtype}"] = got.detach()
            torch.testing.assert_close(
                got.detach().double(), want.detach(), rtol=tolerance, atol=tolerance
            )
    print(f"ok flash_attention: {', '.join(names)} of {heads}x{N}x{D} on {device.type}")
    return results


if __name__ == "__main__":
    main()
