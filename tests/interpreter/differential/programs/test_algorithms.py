"""Tests of algorithms in single kernels, such as sorting, compaction and hash tables."""

from __future__ import annotations

import kernel_text
import numpy as np
import pytest
import torch
import triton

pytestmark = pytest.mark.usefixtures("schedule")


def test_transpose_through_tiles_and_strides() -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, out_ptr, M, N, s0, s1, TILE: tl.constexpr):
        m = tl.program_id(0) * TILE + tl.arange(0, TILE)
        n = tl.program_id(1) * TILE + tl.arange(0, TILE)
        mask = (m < M)[:, None] & (n < N)[None, :]
        x = tl.load(x_ptr + m[:, None] * s0 + n[None, :] * s1, mask=mask)
        tl.store(out_ptr + n[:, None] * M + m[None, :], x.T, mask=mask.T)
    """
    for x in (torch.randn(50, 70), torch.randn(70, 50).T, torch.randn(100, 140)[::2, ::2]):
        out = torch.empty(70, 50)
        kernel_text.kernel(text)[(4, 5)](x, out, 50, 70, *x.stride(), TILE=16)
        assert torch.equal(out, x.T)


def test_stream_compaction_with_decoupled_look_back() -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, out_ptr, state_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0)
        lanes = i * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + lanes, mask=lanes < n, other=0)
        keep = (x > 0).to(tl.int32)
        inclusive = tl.cumsum(keep, 0)
        count = tl.sum(keep, 0)
        # State: count * 4 + 1 when only this block's count is known, + 2 when all before are in.
        tl.atomic_xchg(state_ptr + i, count * 4 + 1)
        before = 0
        j = i - 1
        while j >= 0:
            state = tl.atomic_add(state_ptr + j, 0)
            while state == 0:
                state = tl.atomic_add(state_ptr + j, 0)
            before += state // 4
            if state % 4 == 2:
                j = -1
            else:
                j -= 1
        tl.atomic_xchg(state_ptr + i, (before + count) * 4 + 2)
        tl.store(out_ptr + before + inclusive - 1, x, mask=keep != 0)
    """
    n, block = 5000, 64
    x = torch.from_numpy(np.random.default_rng(0).integers(-50, 50, n).astype(np.int32))
    blocks = triton.cdiv(n, block)
    out, state = torch.zeros(n, dtype=torch.int32), torch.zeros(blocks, dtype=torch.int32)
    kernel_text.kernel(text)[(blocks,)](x, out, state, n, BLOCK=block)
    expected = x[x > 0]
    assert torch.equal(out[: expected.numel()], expected)
    assert not out[expected.numel() :].any()


def test_hash_table_with_open_addressing() -> None:
    text = """
    @triton.jit
    def kernel(keys_ptr, table_ptr, counts_ptr, SIZE: tl.constexpr):
        key = tl.load(keys_ptr + tl.program_id(0))
        slot = (key * 40503 >> 3) % SIZE
        done = False
        while not done:
            old = tl.atomic_cas(table_ptr + slot, -1, key)
            done = (old == -1) | (old == key)
            if not done:
                slot = (slot + 1) % SIZE
        tl.atomic_add(counts_ptr + slot, 1)
    """
    keys = torch.from_numpy(np.random.default_rng(1).integers(0, 60, 500).astype(np.int32))
    table = torch.full((128,), -1, dtype=torch.int32)
    counts = torch.zeros(128, dtype=torch.int32)
    kernel_text.kernel(text)[(500,)](keys, table, counts, SIZE=128)
    table_contents = {k: c for k, c in zip(table.tolist(), counts.tolist(), strict=True) if k >= 0}
    values, expected = torch.unique(keys, return_counts=True)
    assert table_contents == dict(zip(values.tolist(), expected.tolist(), strict=True))


def test_rows_sorted_with_their_indices() -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, sorted_ptr, index_ptr, top_ptr, N: tl.constexpr):
        row, lanes = tl.program_id(0) * N, tl.arange(0, N)
        x = tl.load(x_ptr + row + lanes)
        packed = (x.to(tl.int64) << 32) | lanes.to(tl.int64)
        packed = tl.sort(packed)
        tl.store(sorted_ptr + row + lanes, (packed >> 32).to(tl.int32))
        tl.store(index_ptr + row + lanes, (packed & 0xFFFFFFFF).to(tl.int32))
        tl.store(top_ptr + tl.program_id(0) * 4 + tl.arange(0, 4), tl.topk(x, 4))
    """
    x = torch.from_numpy(np.random.default_rng(2).integers(-99, 99, (6, 256)).astype(np.int32))
    values, indices = torch.empty_like(x), torch.empty_like(x)
    top = torch.empty(6, 4, dtype=torch.int32)
    kernel_text.kernel(text)[(6,)](x, values, indices, top, N=256)
    expected, order = torch.sort(x, dim=1, stable=True)
    assert torch.equal(values, expected)
    assert torch.equal(indices.long(), order)
    assert torch.equal(top, x.topk(4, dim=1).values)


def test_mandelbrot_set_with_a_loop_over_a_tile() -> None:
    text = """
    @triton.jit
    def kernel(out_ptr, width, height, most, T: tl.constexpr):
        x = tl.program_id(0) * T + tl.arange(0, T)[None, :]
        y = tl.program_id(1) * T + tl.arange(0, T)[:, None]
        cr = x * 3.0 / width - 2.0 + y * 0.0
        ci = y * 2.0 / height - 1.0 + x * 0.0
        zr, zi = tl.zeros((T, T), tl.float32), tl.zeros((T, T), tl.float32)
        count = tl.zeros((T, T), tl.int32)
        alive = tl.full((T, T), 1, tl.int1)
        i = 0
        while (i < most) & (tl.max(alive.to(tl.int32).reshape(T * T), 0) > 0):
            zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
            alive = alive & (zr * zr + zi * zi <= 4.0)
            count += alive.to(tl.int32)
            zr = tl.where(alive, zr, 0.0)
            zi = tl.where(alive, zi, 0.0)
            i += 1
        tl.store(out_ptr + y * width + x, count, mask=(x < width) & (y < height))
    """
    width, height, most = 60, 40, 50
    out = torch.full((height, width), -1, dtype=torch.int32)
    kernel_text.kernel(text)[(4, 3)](out, width, height, most, T=16)
    x, y = torch.arange(width)[None], torch.arange(height)[:, None]
    c = (x * 3.0 / width - 2.0) + 1j * (y * 2.0 / height - 1.0)
    z, expected = torch.zeros_like(c), torch.zeros(height, width, dtype=torch.int32)
    alive = torch.ones(height, width, dtype=torch.bool)
    for _ in range(most):
        z = z * z + c
        alive &= z.abs() <= 2
        expected += alive
        z = torch.where(alive, z, 0)
    # Because of rounding, a point near the border may diverge one step earlier or later.
    assert ((out - expected).abs() > 1).sum() <= 0.01 * out.numel()


def test_random_numbers_follow_the_philox_algorithm() -> None:
    text = """
    @triton.jit
    def kernel(out_ptr, uniform_ptr, seed):
        lanes = tl.arange(0, 64)
        a, b, c, d = tl.randint4x(seed, lanes)
        tl.store(out_ptr + lanes, a)
        tl.store(out_ptr + 64 + lanes, b)
        tl.store(out_ptr + 128 + lanes, c)
        tl.store(out_ptr + 192 + lanes, d)
        tl.store(uniform_ptr + lanes, tl.rand(seed, lanes))
        tl.store(uniform_ptr + 64 + lanes, tl.randn(seed, lanes))
    """
    seed = 0x1234_5678_9ABC
    out, uniform = torch.empty(4, 64, dtype=torch.int32), torch.empty(2, 64)
    kernel_text.kernel(text)[(1,)](out, uniform, seed)
    mask = 2**32 - 1
    counters = [[i, 0, 0, 0] for i in range(64)]
    for words in counters:
        low, high = seed & mask, seed >> 32
        for _ in range(10):
            p0, p2 = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
            words[:] = [
                (p2 >> 32) ^ words[1] ^ low, p2 & mask, (p0 >> 32) ^ words[3] ^ high, p0 & mask
            ]  # fmt: skip
            low, high = (low + 0x9E3779B9) & mask, (high + 0xBB67AE85) & mask
    expected = np.array(counters, np.uint32).T.view(np.int32)
    np.testing.assert_array_equal(out, expected)
    assert uniform[0].min() >= 0
    assert uniform[0].max() < 1
    assert uniform[1].abs().max() < 5


def test_a_game_of_life_between_two_buffers() -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, out_ptr, N, ROUNDS, BLOCK: tl.constexpr):
        cells = tl.arange(0, BLOCK)
        row, column = cells // N, cells % N
        inside = cells < N * N
        for _ in range(ROUNDS):
            around = tl.zeros([BLOCK], tl.int32)
            for d in tl.static_range(9):
                r = (row + d // 3 - 1 + N) % N
                c = (column + d % 3 - 1 + N) % N
                if d != 4:
                    around += tl.load(x_ptr + r * N + c, mask=inside, other=0)
            alive = tl.load(x_ptr + cells, mask=inside, other=0)
            next_ = (around == 3) | ((around == 2) & (alive != 0))
            tl.store(out_ptr + cells, next_.to(tl.int32), mask=inside)
            x_ptr, out_ptr = out_ptr, x_ptr
    """
    N, rounds = 20, 5
    x = torch.from_numpy(np.random.default_rng(3).integers(0, 2, (N, N)).astype(np.int32))
    board = x.clone()
    for _ in range(rounds):
        near = sum(
            torch.roll(board, (r, c), (0, 1)) for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c
        )
        board = ((near == 3) | ((near == 2) & (board == 1))).to(torch.int32)
    out = torch.zeros_like(x)
    kernel_text.kernel(text)[(1,)](x, out, N, rounds, BLOCK=512)
    assert torch.equal(out, board)


def test_butterflies_of_a_fourier_transform() -> None:
    text = """
    @triton.jit
    def kernel(re_ptr, im_ptr, STAGES: tl.constexpr, N: tl.constexpr):
        lanes = tl.arange(0, N // 2)
        for s in tl.static_range(STAGES):
            half = 1 << s
            even = (lanes // half) * half * 2 + lanes % half
            odd = even + half
            angle = -3.141592653589793 * (lanes % half).to(tl.float32) / half
            wr, wi = tl.cos(angle), tl.sin(angle)
            ar, ai = tl.load(re_ptr + even), tl.load(im_ptr + even)
            br, bi = tl.load(re_ptr + odd), tl.load(im_ptr + odd)
            tr, ti = br * wr - bi * wi, br * wi + bi * wr
            tl.store(re_ptr + even, ar + tr)
            tl.store(im_ptr + even, ai + ti)
            tl.store(re_ptr + odd, ar - tr)
            tl.store(im_ptr + odd, ai - ti)
    """
    x = torch.randn(256, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    order = [int(f"{i:08b}"[::-1], 2) for i in range(256)]
    re, im = x[order].real.contiguous(), x[order].imag.contiguous()
    kernel_text.kernel(text)[(1,)](re, im, STAGES=8, N=256)
    torch.testing.assert_close(torch.complex(re, im), torch.fft.fft(x), rtol=1e-4, atol=1e-4)
