"""Kernels as compilers and libraries write them, each with a defect."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def rms_bwd(dy_ptr, x_ptr, dw_ptr, stride, n_rows, n_cols, per_program, BLOCK_SIZE: tl.constexpr):
    row_block_id = tl.program_id(0)
    row_start = row_block_id * per_program
    row_end = min((row_block_id + 1) * per_program, n_rows)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    acc = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for row in range(row_start, row_end):
        dy = tl.load(dy_ptr + row * stride + cols, mask=mask, other=0.0)
        x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0)
        acc += dy * x
    tl.store(dw_ptr + row_block_id * stride + cols, acc, mask=mask)  # BUG: oob_store


@buggy("oob_store", "dw_ptr")
def partial_rows_fewer_than_programs(fixed: bool) -> None:
    n, c, sms = 16, 10, 4
    per = triton.cdiv(n, sms)
    grid = sms if fixed else sms + 6
    rms_bwd[(grid,)](
        torch.rand(n, c), torch.rand(n, c), torch.empty(sms, c), c, n, c, per, BLOCK_SIZE=16
    )


@triton.jit
def gather_kv(out, cache, block_tables, seq_lens, stride_bt, PAGE: tl.constexpr, D: tl.constexpr):
    s = tl.program_id(0)
    n = tl.load(seq_lens + s)
    d = tl.arange(0, D)
    for i in range(tl.cdiv(n, PAGE)):
        page = tl.load(block_tables + s * stride_bt + i).to(tl.int64)  # BUG: view_oob
        for j in range(PAGE):
            if i * PAGE + j < n:
                tl.store(
                    out + (s * 12 + i * PAGE + j) * D + d,
                    tl.load(cache + (page * PAGE + j) * D + d),
                )


@buggy("view_oob", "block_tables")
def table_is_a_slice_of_a_wider_one(fixed: bool) -> None:
    whole = torch.arange(24, dtype=torch.int32).reshape(4, 6) % 8
    bt = whole[:, :3]
    gather_kv[(4,)](
        torch.empty(4, 12, 8),
        torch.rand(8, 4, 8),
        bt,
        torch.tensor([12, 9, 4, 12], dtype=torch.int32),
        bt.stride(0) if fixed else 3,
        PAGE=4,
        D=8,
    )


@triton.jit
def triton_poi_fused_cat_0(
    in_ptr0, in_ptr1, out_ptr0, xnumel, C0: tl.constexpr, XBLOCK: tl.constexpr
):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex % 12
    x1 = xindex // 12
    x2 = xindex
    tmp0 = x0
    tmp3 = tl.full([1], C0, tl.int64)
    tmp4 = tmp0 < tmp3
    tmp5 = tl.load(in_ptr0 + (7 * x1 + x0), tmp4 & xmask, other=0.0)  # BUG: oob_load
    tmp6 = tmp0 >= tmp3
    tmp9 = tl.load(
        in_ptr1 + (5 * x1 + ((-7) + x0)),
        tmp6 & xmask & (x0 >= 7),
        eviction_policy="evict_last",
        other=0.0,
    )
    tmp10 = tl.where(tmp4, tmp5, tmp9)
    tl.store(out_ptr0 + (x2), tmp10, xmask)


@buggy("oob_load", "in_ptr0")
def bound_of_a_fused_cat(fixed: bool) -> None:
    triton_poi_fused_cat_0[(2,)](
        torch.rand(3, 7), torch.rand(3, 5), torch.empty(3, 12), 36, C0=7 if fixed else 9, XBLOCK=32
    )


@triton.jit
def grouped(a_ptrs, b_ptrs, ks, c_ptr, K_OF: tl.constexpr, B: tl.constexpr):
    g = tl.program_id(0)
    a = tl.load(a_ptrs + g).to(tl.pointer_type(tl.float32))
    b = tl.load(b_ptrs + g).to(tl.pointer_type(tl.float32))
    k = tl.load(ks + (g if K_OF else 0))
    i = tl.arange(0, B)
    acc = tl.zeros([B], tl.float32)
    for j in range(0, k, B):
        m = j + i < k
        x = tl.load(a + j + i, mask=m, other=0.0)  # BUG: oob_load
        acc += x * tl.load(b + j + i, mask=m, other=0.0)  # BUG: oob_load
    tl.store(c_ptr + g, tl.sum(acc))


@buggy("oob_load", "a_ptrs")
def groups_have_different_lengths(fixed: bool) -> None:
    sizes = [40, 24, 40]
    a, b = [torch.rand(n) for n in sizes], [torch.rand(n) for n in sizes]
    tables = [
        torch.tensor([x.data_ptr() for x in tensors], dtype=torch.int64) for tensors in (a, b)
    ]
    lengths = torch.tensor(sizes, dtype=torch.int32)
    grouped[(3,)](*tables, lengths, torch.empty(3), K_OF=fixed, B=16)


@triton.jit
def max_pool(x_ptr, o_ptr, H, W, OW, FIXED: tl.constexpr, B: tl.constexpr):
    oh = tl.program_id(0)
    ow = tl.arange(0, B)
    best = tl.full([B], float("-inf"), tl.float32)
    for kh in tl.static_range(3):
        for kw in tl.static_range(3):
            h, w = oh * 2 + kh - 1, ow * 2 + kw - 1
            ok = (h < H) & (w < W) & (ow < OW)
            if FIXED:
                ok = ok & (h >= 0) & (w >= 0)
            x = tl.load(x_ptr + h * W + w, mask=ok, other=float("-inf"))  # BUG: oob_load
            best = tl.maximum(best, x)
    tl.store(o_ptr + oh * OW + ow, best, mask=ow < OW)


@buggy("oob_load", "x_ptr")
def padding_of_a_pool_is_read(fixed: bool) -> None:
    max_pool[(4,)](torch.rand(8, 8), torch.empty(4, 4), 8, 8, 4, FIXED=fixed, B=4)


@triton.jit
def apply_bitmask(logits, bitmask, vocab, words, B: tl.constexpr):
    row = tl.program_id(0)
    o = tl.program_id(1) * B + tl.arange(0, B)
    packed = tl.load(bitmask + row * words + o // 32, mask=o < vocab, other=0)  # BUG: oob_load
    keep = ((packed >> (o % 32)) & 1) == 1
    tl.store(logits + row * vocab + o, -float("inf"), mask=(o < vocab) & (keep == 0))


@buggy("oob_load", "bitmask")
def words_of_a_bitmask_are_rounded_down(fixed: bool) -> None:
    v = 72
    w = triton.cdiv(v, 32) if fixed else v // 32
    apply_bitmask[(2, 2)](torch.rand(2, v), torch.full((2, w), -1, dtype=torch.int32), v, w, B=64)


@triton.jit
def topk_rows(x_ptr, o_ptr, n, K, KP: tl.constexpr, B: tl.constexpr, FIXED: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(x_ptr + r * n + i, mask=i < n, other=float("-inf"))
    s = tl.topk(x, KP)
    k = tl.arange(0, KP)
    if FIXED:
        tl.store(o_ptr + r * K + k, s, mask=k < K)
    else:
        tl.store(o_ptr + r * K + k, s)  # BUG: oob_store


@buggy("oob_store", "o_ptr", also=["overlapping_store"])
def padded_k_is_stored(fixed: bool) -> None:
    topk_rows[(4,)](torch.rand(4, 12), torch.empty(4, 5), 12, 5, KP=8, B=16, FIXED=fixed)


@triton.jit
def host_desc(desc, o_ptr, B: tl.constexpr):
    t = desc.load([tl.program_id(0) * B, 0])  # BUG: oob_load
    r = tl.arange(0, B)
    tl.store(o_ptr + (tl.program_id(0) * B + r[:, None]) * B + r[None, :], t)


@buggy("oob_load", "desc")
def host_descriptor_of_a_shorter_tensor(fixed: bool) -> None:
    x = torch.rand(24, 16)
    rows = 24 if fixed else 32
    host_desc[(2,)](TensorDescriptor(x, [rows, 16], [16, 1], [16, 16]), torch.empty(32, 16), B=16)


@triton.jit
def load_checked_block(ptrs, offs, LEN, IS_DIVISIBLE: tl.constexpr):
    if IS_DIVISIBLE:
        return tl.load(ptrs)  # BUG: oob_load
    return tl.load(ptrs, mask=offs[:, None] < LEN, other=0.0)


@triton.jit
def flex_fwd(
    Q,
    K,
    OUT,
    Q_LEN,
    KV_LEN,
    IS_DIVISIBLE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    D: tl.constexpr,
):
    offs_m = tl.program_id(0) * BM + tl.arange(0, BM)
    offs_d = tl.arange(0, D)
    q = load_checked_block(Q + offs_m[:, None] * D + offs_d[None, :], offs_m, Q_LEN, IS_DIVISIBLE)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, KV_LEN, BN):
        offs_n = start + tl.arange(0, BN)
        k = load_checked_block(
            K + offs_n[:, None] * D + offs_d[None, :], offs_n, KV_LEN, IS_DIVISIBLE
        )
        qk = tl.dot(q, tl.trans(k), input_precision="ieee")
        acc += tl.dot(qk, k, input_precision="ieee")
    tl.store(OUT + offs_m[:, None] * D + offs_d[None, :], acc, mask=offs_m[:, None] < Q_LEN)


@buggy("oob_load", "Q")
def length_is_assumed_to_be_divisible(fixed: bool) -> None:
    q, k = torch.rand(40, 16), torch.rand(32, 16)
    flex_fwd[(3,)](q, k, torch.empty(40, 16), 40, 32, IS_DIVISIBLE=not fixed, BM=16, BN=16, D=16)
