"""A matrix product whose masks do not bound the indices along the reduced dimension."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# mypy: disable-error-code="no-untyped-def"


@triton.jit
def int8_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    a = a_ptr + rm[:, None] * sam + rk[None, :] * sak
    b = b_ptr + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.int32)
    for k in range(0, K, BK):  # noqa: B007 - the name is shown
        at = tl.load(a, mask=(rm[:, None] < M), other=0)
        bt = tl.load(b, mask=(rn[None, :] < N), other=0)
        acc = tl.dot(at, bt, acc)
        a += BK * sak
        b += BK * sbk
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c_ptr + rm[:, None] * scm + rn[None, :] * scn, acc, mask=mask)


def multiply(m: int, n: int, k: int) -> None:
    """Launch the kernel for matrices of these sizes."""
    a, b = torch.ones(m, k, dtype=torch.int8), torch.ones(k, n, dtype=torch.int8)
    c = torch.empty(m, n, dtype=torch.int32)
    strides = (*a.stride(), *b.stride(), *c.stride())
    int8_kernel[(-(-m // 64), -(-n // 64))](a, b, c, m, n, k, *strides, BM=64, BN=64, BK=64)
