"""Tests of typical kernels of neural networks, compared with torch."""

from __future__ import annotations

import math

import pytest
import torch
import triton
from kernel_text import kernel as kernel_of
from kernel_text import module

pytestmark = pytest.mark.usefixtures("schedule")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def test_rms_norm_in_a_loop_over_a_long_row() -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, w_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64) * columns
        squares = tl.zeros([BLOCK], tl.float32)
        for start in range(0, columns, BLOCK):
            lanes = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + row + lanes, mask=lanes < columns, other=0.0).to(tl.float32)
            squares += x * x
        scale = tl.rsqrt(tl.sum(squares) / columns + eps)
        for start in range(0, columns, BLOCK):
            lanes = start + tl.arange(0, BLOCK)
            mask = lanes < columns
            x = tl.load(x_ptr + row + lanes, mask=mask, eviction_policy="evict_first")
            w = tl.load(w_ptr + lanes, mask=mask, cache_modifier=".ca")
            tl.store(out_ptr + row + lanes, (x * scale).to(w.dtype) * w, mask=mask)
    """
    x, w = torch.randn(7, 3000).bfloat16(), torch.randn(3000).bfloat16()
    out = torch.empty_like(x)
    kernel_of(text)[(7,)](x, w, out, 3000, 1e-6, BLOCK=512)
    wide = x.float()
    normal = (wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + 1e-6)).bfloat16()
    torch.testing.assert_close(out, normal * w)


def test_rotary_embedding_in_place() -> None:
    text = """
    @triton.jit
    def kernel(q_ptr, cos_ptr, sin_ptr, heads, HALF: tl.constexpr):
        token, head = tl.program_id(0), tl.program_id(1)
        lanes = tl.arange(0, HALF)
        base = q_ptr + (token * heads + head) * 2 * HALF
        cos = tl.load(cos_ptr + token * HALF + lanes)
        sin = tl.load(sin_ptr + token * HALF + lanes)
        left, right = tl.load(base + lanes), tl.load(base + HALF + lanes)
        tl.store(base + lanes, left * cos - right * sin)
        tl.store(base + HALF + lanes, right * cos + left * sin)
    """
    q, angle = torch.randn(9, 4, 64), torch.randn(9, 1, 32)
    left, right = q[..., :32], q[..., 32:]
    expected = torch.cat(
        [left * angle.cos() - right * angle.sin(), right * angle.cos() + left * angle.sin()], -1
    )
    kernel_of(text)[(9, 4)](q, angle.cos().contiguous(), angle.sin().contiguous(), 4, HALF=32)
    torch.testing.assert_close(q, expected)


def test_cross_entropy_with_a_running_maximum_and_its_gradient() -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, label_ptr, loss_ptr, dx_ptr, columns, IGNORED: tl.constexpr,
               BLOCK: tl.constexpr):
        row = tl.program_id(0)
        label = tl.load(label_ptr + row)
        if label == IGNORED:
            for start in range(0, columns, BLOCK):
                lanes = start + tl.arange(0, BLOCK)
                tl.store(dx_ptr + row * columns + lanes, 0.0, mask=lanes < columns)
            return
        largest, total = float("-inf"), 0.0
        for start in range(0, columns, BLOCK):
            lanes = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=float("-inf"))
            new = tl.maximum(largest, tl.max(x))
            total = total * tl.exp(largest - new) + tl.sum(tl.exp(x - new))
            largest = new
        tl.store(loss_ptr + row, tl.log(total) + largest - tl.load(x_ptr + row * columns + label))
        for start in range(0, columns, BLOCK):
            lanes = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=float("-inf"))
            p = tl.exp(x - largest) / total
            tl.store(dx_ptr + row * columns + lanes, tl.where(lanes == label, p - 1, p),
                     mask=lanes < columns)
    """
    x = (torch.randn(20, 1111) * 5).requires_grad_()
    labels = torch.randint(0, 1111, (20,))
    labels[3] = labels[11] = -100
    loss, dx = torch.zeros(20), torch.full((20, 1111), 9.0)
    kernel_of(text)[(20,)](x.detach(), labels, loss, dx, 1111, IGNORED=-100, BLOCK=256)
    expected = torch.nn.functional.cross_entropy(x, labels, reduction="none")
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(dx, torch.autograd.grad(expected.sum(), x)[0])


def test_swiglu_with_weights_of_four_bits() -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, w_ptr, scale_ptr, out_ptr, M, N, K, TM: tl.constexpr, TN: tl.constexpr,
               TK: tl.constexpr):
        m = tl.program_id(0) * TM + tl.arange(0, TM)
        n = tl.program_id(1) * TN + tl.arange(0, TN)
        gate = tl.zeros((TM, TN), tl.float32)
        up = tl.zeros((TM, TN), tl.float32)
        for start in range(0, K, TK):
            k = start + tl.arange(0, TK)
            x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0)
            # Two weights to a byte, along K; the second half of the rows is `up`.
            w_ptrs = w_ptr + (k[:, None] // 2) * (2 * N) + n[None, :]
            nibble = (k[:, None] % 2) * 4
            g = ((tl.load(w_ptrs) >> nibble) & 0xF).to(tl.float32) - 8
            u = ((tl.load(w_ptrs + N) >> nibble) & 0xF).to(tl.float32) - 8
            gate = tl.dot(x, g, gate, input_precision="ieee")
            up = tl.dot(x, u, up, input_precision="ieee")
        gate *= tl.load(scale_ptr + n)[None, :]
        up *= tl.load(scale_ptr + N + n)[None, :]
        out = gate * tl.sigmoid(gate) * up
        tl.store(out_ptr + m[:, None] * N + n[None, :], out, mask=m[:, None] < M)
    """
    M, N, K = 37, 64, 96
    x, scale = torch.randn(M, K), torch.rand(2 * N) / 10
    packed = torch.randint(0, 256, (K // 2, 2 * N), dtype=torch.uint8)
    w = torch.stack([packed & 15, packed >> 4], 1).reshape(K, 2 * N).float() - 8
    out = torch.empty(M, N)
    kernel_of(text)[(2, 2)](x, packed, scale, out, M, N, K, TM=32, TN=32, TK=32)
    gate, up = (x @ w * scale).split(N, 1)
    torch.testing.assert_close(out, torch.nn.functional.silu(gate) * up, rtol=1e-4, atol=1e-4)


def test_attention_over_pages_for_one_query_each() -> None:
    text = """
    @triton.jit
    def kernel(q_ptr, k_ptr, v_ptr, table_ptr, length_ptr, out_ptr, scale, most_pages,
               PAGE: tl.constexpr, D: tl.constexpr):
        sequence = tl.program_id(0)
        d = tl.arange(0, D)
        q = tl.load(q_ptr + sequence * D + d)
        length = tl.load(length_ptr + sequence)
        largest, total = float("-inf"), 0.0
        out = tl.zeros([D], tl.float32)
        for i in range(tl.cdiv(length, PAGE)):
            page = tl.load(table_ptr + sequence * most_pages + i).to(tl.int64)
            tokens = tl.arange(0, PAGE)
            offsets = (page * PAGE + tokens[:, None]) * D + d[None, :]
            valid = i * PAGE + tokens < length
            k = tl.load(k_ptr + offsets, mask=valid[:, None], other=0.0)
            score = tl.where(valid, tl.sum(q[None, :] * k, 1) * scale, float("-inf"))
            new = tl.maximum(largest, tl.max(score, 0))
            p = tl.exp(score - new)
            keep = tl.exp(largest - new)
            v = tl.load(v_ptr + offsets, mask=valid[:, None], other=0.0)
            out = out * keep + tl.sum(p[:, None] * v, 0)
            total = total * keep + tl.sum(p, 0)
            largest = new
        tl.store(out_ptr + sequence * D + d, out / total)
    """
    page, D, lengths = 16, 32, [1, 16, 45, 100]
    k, v = torch.randn(64, page, D), torch.randn(64, page, D)
    q, out = torch.randn(4, D), torch.empty(4, D)
    table = torch.randperm(64)[: 4 * 8].reshape(4, 8).to(torch.int32)
    kernel_of(text)[(4,)](
        q, k, v, table, torch.tensor(lengths), out, 1 / math.sqrt(D), 8, PAGE=page, D=D
    )
    for i, length in enumerate(lengths):
        keys, values = (t[table[i].long()].reshape(-1, D)[:length] for t in (k, v))
        expected = torch.softmax(q[i] @ keys.T / math.sqrt(D), 0) @ values
        torch.testing.assert_close(out[i], expected)


def test_selective_scan_of_a_state_space() -> None:
    text = """
    @triton.jit
    def step(a, b, c, d):
        return a * c, b * c + d

    @triton.jit
    def kernel(x_ptr, decay_ptr, out_ptr, length, T: tl.constexpr, D: tl.constexpr):
        t, d = tl.arange(0, T), tl.arange(0, D)
        carried = tl.zeros([D], tl.float32)
        for start in range(0, length, T):
            offsets = (start + t[:, None]) * D + d[None, :]
            mask = (start + t[:, None]) < length
            x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
            a = tl.load(decay_ptr + offsets, mask=mask, other=1.0)
            through, h = tl.associative_scan((a, x), 0, step)
            h += through * carried[None, :]
            tl.store(out_ptr + offsets, h, mask=mask)
            carried = tl.sum(tl.where((t == T - 1)[:, None], h, 0.0), 0)
    """
    x, a = torch.randn(100, 16), torch.rand(100, 16)
    out = torch.empty_like(x)
    kernel_of(text)[(1,)](x, a, out, 100, T=32, D=16)
    h, expected = torch.zeros(16), []
    for t in range(100):
        h = h * a[t] + x[t]
        expected.append(h)
    torch.testing.assert_close(out, torch.stack(expected), rtol=1e-4, atol=1e-5)


def test_convolution_as_a_product_of_gathered_patches() -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, w_ptr, out_ptr, C, H, W, O, R: tl.constexpr, TP: tl.constexpr,
               TO: tl.constexpr, TK: tl.constexpr):
        pixels = tl.program_id(0) * TP + tl.arange(0, TP)
        o = tl.arange(0, TO)
        y, x = pixels // W, pixels % W
        out = tl.zeros((TP, TO), tl.float32)
        for start in range(0, C * R * R, TK):
            k = start + tl.arange(0, TK)
            c, dy, dx = k // (R * R), k // R % R - R // 2, k % R - R // 2
            row, column = y[:, None] + dy[None, :], x[:, None] + dx[None, :]
            inside = (row >= 0) & (row < H) & (column >= 0) & (column < W)
            inside &= (k < C * R * R)[None, :] & (pixels < H * W)[:, None]
            patch = tl.load(x_ptr + c[None, :] * H * W + row * W + column, mask=inside, other=0.0)
            w = tl.load(w_ptr + o[None, :] * C * R * R + k[:, None],
                        mask=(k < C * R * R)[:, None] & (o < O)[None, :], other=0.0)
            out = tl.dot(patch, w, out, input_precision="ieee")
        tl.store(out_ptr + o[None, :] * H * W + pixels[:, None], out,
                 mask=(pixels < H * W)[:, None] & (o < O)[None, :])
    """
    x, w = torch.randn(5, 13, 17), torch.randn(12, 5, 3, 3)
    out = torch.empty(12, 13, 17)
    kernel_of(text)[(triton.cdiv(13 * 17, 32),)](x, w, out, 5, 13, 17, 12, R=3, TP=32, TO=16, TK=16)
    expected = torch.nn.functional.conv2d(x[None], w, padding=1)[0]
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)


def test_matrix_product_split_along_its_inner_dimension() -> None:
    text = """
    @triton.jit
    def kernel(a_ptr, b_ptr, c_ptr, M, N, K, TILE: tl.constexpr, SPLITS: tl.constexpr):
        m = tl.program_id(0) * TILE + tl.arange(0, TILE)
        n = tl.program_id(1) * TILE + tl.arange(0, TILE)
        k = tl.program_id(2) * TILE + tl.arange(0, TILE)
        c = tl.zeros((TILE, TILE), tl.float32)
        for _ in range(tl.cdiv(K, TILE * SPLITS)):
            a = tl.load(a_ptr + (m % M)[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
            b = tl.load(b_ptr + k[:, None] * N + (n % N)[None, :], mask=k[:, None] < K, other=0.0)
            c = tl.dot(a, b, c)
            k += TILE * SPLITS
        tl.atomic_add(c_ptr + m[:, None] * N + n[None, :], c,
                      mask=(m < M)[:, None] & (n < N)[None, :], sem="relaxed")
    """
    a, b = torch.randn(50, 200).half(), torch.randn(200, 40).half()
    c = torch.zeros(50, 40)
    kernel_of(text)[(2, 2, 3)](a, b, c, 50, 40, 200, TILE=32, SPLITS=3)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-4, atol=1e-4)


def test_gradient_of_an_embedding_and_an_optimiser_step() -> None:
    kernels = module("""
    @triton.jit
    def embedding(index_ptr, dout_ptr, dweight_ptr, D: tl.constexpr):
        d = tl.arange(0, D)
        row = tl.load(index_ptr + tl.program_id(0))
        tl.atomic_add(dweight_ptr + row * D + d, tl.load(dout_ptr + tl.program_id(0) * D + d))

    @triton.jit
    def adam(w_ptr, g_ptr, m_ptr, v_ptr, n, rate, beta1, beta2, eps, step, BLOCK: tl.constexpr):
        lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = lanes < n
        g = tl.load(g_ptr + lanes, mask=mask)
        m = beta1 * tl.load(m_ptr + lanes, mask=mask) + (1 - beta1) * g
        v = beta2 * tl.load(v_ptr + lanes, mask=mask) + (1 - beta2) * g * g
        tl.store(m_ptr + lanes, m, mask=mask)
        tl.store(v_ptr + lanes, v, mask=mask)
        power = tl.full((), 1.0, tl.float32)
        square = tl.full((), 1.0, tl.float32)
        for _ in range(step):
            power *= beta1
            square *= beta2
        update = (m / (1 - power)) / (tl.sqrt(v / (1 - square)) + eps)
        tl.store(w_ptr + lanes, tl.load(w_ptr + lanes, mask=mask) - rate * update, mask=mask)
    """)
    weight = torch.randn(10, 32)
    by_torch = weight.clone().requires_grad_()
    optimiser = torch.optim.Adam([by_torch], lr=0.1)
    m, v = torch.zeros_like(weight), torch.zeros_like(weight)
    for step in range(1, 4):
        index, dout = torch.randint(0, 10, (50,)), torch.randn(50, 32)
        gradient = torch.zeros_like(weight)
        kernels.embedding[(50,)](index, dout, gradient, D=32)
        expected = torch.zeros_like(weight).index_add(0, index, dout)
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)
        kernels.adam[(3,)](weight, gradient, m, v, 320, 0.1, 0.9, 0.999, 1e-8, step, BLOCK=128)
        by_torch.grad = expected
        optimiser.step()
    torch.testing.assert_close(weight, by_torch.detach(), rtol=1e-3, atol=1e-4)
