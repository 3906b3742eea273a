"""Compilation for a named GPU in a process without one."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ttools.core import triton_versions
from ttools.core.gpus.targets import read_target
from ttools.tuner.workers.target_driver import compile_for_target, current_target


@triton.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))


def test_a_warm_up_compiles_for_the_named_gpu() -> None:
    before = triton_versions.active_driver()
    target = read_target("sm_90").gpu_target()
    compile_for_target(target)
    try:
        assert current_target() == target
        x = torch.zeros(64)
        kernel = copy_kernel.run(x, x, BLOCK=64, grid=(1,), warmup=True, num_warps=2)
        assert ".target sm_90" in kernel.asm["ptx"]
        assert kernel.asm["cubin"]
        assert triton_versions.loaded_resources(kernel) is None
    finally:
        triton_versions.driver_config().set_active(before)
