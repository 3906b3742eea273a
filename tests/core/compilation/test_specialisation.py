"""Tests of the reasons for which kernels are compiled again."""

from __future__ import annotations

import torch
from tests.core.compilation.compiled_kernels import copy_kernel, matmul_kernel

from ttools.core.compilation.specialisation import captured, reason
from ttools.interpreter import interpret


def test_changes_are_named() -> None:
    x, out = torch.zeros(4096), torch.zeros(4096)
    with captured() as sources, interpret():
        copy_kernel[(2,)](x, out, 1601, 1, BLOCK=256)
        copy_kernel[(2,)](x, out, 1603, 1, BLOCK=256)  # the same specialisation as the first
        copy_kernel[(2,)](x, out, 1600, 1, BLOCK=256)
        copy_kernel[(2,)](x[1:], out, 1600, 1, BLOCK=256)
        copy_kernel[(2,)](x, out, 1600, 1, BLOCK=512)
        copy_kernel[(2,)](x, out, 1600, 1, BLOCK=256, num_warps=8)
    reasons = [list(map(str, reason(sources[:n], source))) for n, source in enumerate(sources)]
    assert reasons == [
        [],
        ["n: i32 -> i32, divisible by 16"],
        ["x_ptr: *fp32, divisible by 16 -> *fp32"],
        ["BLOCK: constant 256 -> constant 512"],
        ["num_warps: 4 -> 8"],
    ]
    assert all("test_specialisation.py:" in str(source.launched) for source in sources)
    first = sources[0].parameters()
    assert first["stride"] == "constant 1"


def test_selection_by_name_and_restoring_the_hook() -> None:
    from triton import knobs

    before = knobs.runtime.jit_cache_hook
    x = torch.zeros(64, 64, dtype=torch.float16)
    with captured(names=["matmul_kernel"]) as sources, interpret():
        copy_kernel[(1,)](x, x, 4, 1, BLOCK=16)
        matmul_kernel[(1,)](x, x, torch.zeros(16, 16), 16, M=16, N=16, KB=16)
    assert [source.name for source in sources] == ["matmul_kernel"]
    assert knobs.runtime.jit_cache_hook is before
