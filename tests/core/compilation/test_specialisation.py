"""Why kernels are compiled again, told from launches of a real script."""

from __future__ import annotations

import torch
from tests.core.compilation.compiled_kernels import copy_kernel, matmul_kernel

from ttools.core.compilation.specialisation import captured, reason
from ttools.interpreter import interpret


def test_changes_are_named() -> None:
    x, out = torch.zeros(4096), torch.zeros(4096)
    with captured() as found, interpret():
        copy_kernel[(2,)](x, out, 1601, 1, BLOCK=256)
        copy_kernel[(2,)](x, out, 1603, 1, BLOCK=256)  # as the first
        copy_kernel[(2,)](x, out, 1600, 1, BLOCK=256)
        copy_kernel[(2,)](x[1:], out, 1600, 1, BLOCK=256)
        copy_kernel[(2,)](x, out, 1600, 1, BLOCK=512)
        copy_kernel[(2,)](x, out, 1600, 1, BLOCK=256, num_warps=8)
    told = [list(map(str, reason(found[:n], each))) for n, each in enumerate(found)]
    assert told == [
        [],
        ["n: i32 -> i32, divisible by 16"],
        ["x_ptr: *fp32, divisible by 16 -> *fp32"],
        ["BLOCK: constant 256 -> constant 512"],
        ["num_warps: 4 -> 8"],
    ]
    assert all("test_specialisation.py:" in str(each.launched) for each in found)
    first = found[0].parameters()
    assert first["stride"] == "constant 1"


def test_names_choose_and_the_hook_is_left_as_it_was() -> None:
    from triton import knobs

    before = knobs.runtime.jit_cache_hook
    x = torch.zeros(64, 64, dtype=torch.float16)
    with captured(names=["matmul_kernel"]) as found, interpret():
        copy_kernel[(1,)](x, x, 4, 1, BLOCK=16)
        matmul_kernel[(1,)](x, x, torch.zeros(16, 16), 16, M=16, N=16, KB=16)
    assert [each.name for each in found] == ["matmul_kernel"]
    assert knobs.runtime.jit_cache_hook is before
