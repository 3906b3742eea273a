"""Tests of `interpret()` on a machine with a GPU: which memory it copies in which direction."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from plugin_kernels import add_kernel, descriptor_kernel, fill_kernel, shift_kernel, tuple_kernel
from triton.tools.tensor_descriptor import TensorDescriptor

from ttools.core.errors import LaunchRefusedError
from ttools.interpreter import interpret

pytestmark = pytest.mark.gpu
N = 1003


def add(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Any:
    return add_kernel[(triton.cdiv(N, 128),)](x, y, out, N, BLOCK=128)


def test_the_driver_of_the_gpu_stays_the_default() -> None:
    from ttools.interpreter.backend.driver import CPUDriver

    assert not CPUDriver.is_active()
    assert triton.runtime.driver.active.get_current_target().backend == "cuda"


def test_results_agree_and_later_launches_use_the_gpu() -> None:
    x, y = torch.randn(N, device="cuda"), torch.randn(N, device="cuda")
    on_gpu, on_cpu, afterwards = (torch.zeros_like(x) for _ in range(3))
    assert "ptx" in add(x, y, on_gpu).asm
    with interpret() as run:
        kernel = add(x, y, on_cpu)
    assert "ptx" not in kernel.asm
    assert run.stats[0].programs == 8
    assert "ptx" in add(x, y, afterwards).asm
    torch.testing.assert_close(on_cpu, on_gpu, atol=0, rtol=0)
    torch.testing.assert_close(afterwards, on_gpu, atol=0, rtol=0)


def test_only_the_selected_kernel_is_interpreted() -> None:
    x, out = torch.randn(N, device="cuda"), torch.zeros(N, device="cuda")
    with interpret(only=["fill_kernel"]) as run:
        assert "ptx" in add(x, x, out).asm
        assert "ptx" not in fill_kernel[(1,)](out, 1.0, BLOCK=16).asm
    assert [s.kernel for s in run.stats] == ["fill_kernel"]
    assert (out[:16] == 1).all()


def test_views_aliases_and_offsets_are_preserved() -> None:
    base = torch.arange(4 * 64, dtype=torch.float32, device="cuda")
    expected = base.clone()
    shifted = base[64:128]
    with interpret():
        shift_kernel[(1,)](shifted, 63, BLOCK=64)
    shift_kernel[(1,)](expected[64:128], 63, BLOCK=64)
    torch.testing.assert_close(base, expected, atol=0, rtol=0)

    memory = torch.randn(3 * N, device="cuda")
    copy = memory.clone()
    with interpret():
        add(memory[:N], memory[N : 2 * N], memory[5 : N + 5])
    torch.testing.assert_close(memory[N + 5 :], copy[N + 5 :], atol=0, rtol=0)


def test_host_tensors_beside_gpu_tensors_are_refused() -> None:
    x, y, out = torch.randn(N, device="cuda"), torch.randn(N), torch.zeros(N, device="cuda")
    with interpret(), pytest.raises(LaunchRefusedError, match="`y_ptr` is a tensor on the CPU"):
        add(x, y, out)
    assert not out.any()


def test_only_changed_elements_are_copied_back() -> None:
    x = torch.zeros(4096, device="cuda")
    side = torch.cuda.Stream()

    @triton.jit
    def first_kernel(x_ptr):
        tl.store(x_ptr, 1.0)

    with interpret():
        first_kernel.warmup(torch.float32, grid=(1,))

        # Changes that another stream makes during the launch are kept. A pre-run hook makes them.
        def meanwhile(*args: Any, **kwargs: Any) -> None:
            with torch.cuda.stream(side):
                x[100:].fill_(7.0)

        first_kernel.add_pre_run_hook(meanwhile)
        first_kernel[(1,)](x)
    torch.cuda.synchronize()
    assert x[0] == 1
    assert (x[100:] == 7).all()


def test_tuples_and_descriptors_of_gpu_tensors() -> None:
    x, y, out = (torch.randn(64, device="cuda") for _ in range(3))
    with interpret():
        tuple_kernel[(1,)]((x, y), (2.0, 3.0), out, BLOCK=64)
    torch.testing.assert_close(out, 2 * x + 3 * y)
    tile, result = torch.randn(50, 40, device="cuda"), torch.zeros(50, 40, device="cuda")
    with interpret():
        descriptor_kernel[(4, 2)](
            TensorDescriptor.from_tensor(tile, [16, 32]),
            TensorDescriptor.from_tensor(result, [16, 32]),
            16,
            32,
        )
    torch.testing.assert_close(result, 2 * tile)


@triton.jit
def table_kernel(table_ptr, n, BLOCK: tl.constexpr):
    source = tl.load(table_ptr + 2 * tl.program_id(0)).to(tl.pointer_type(tl.float32))
    target = tl.load(table_ptr + 2 * tl.program_id(0) + 1).to(tl.pointer_type(tl.float32))
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(target + offsets, tl.load(source + offsets, mask=mask) + 1, mask=mask)


def test_tables_of_addresses_refer_to_host_copies() -> None:
    sources = [torch.randn(60, device="cuda") for _ in range(3)]
    targets = [torch.zeros(60, device="cuda") for _ in range(3)]
    addresses = [t.data_ptr() for pair in zip(sources, targets, strict=True) for t in pair]
    table = torch.tensor(addresses, dtype=torch.int64, device="cuda")
    with interpret():
        table_kernel[(3,)](table, 60, BLOCK=64)
    assert table.tolist() == addresses
    for source, target in zip(sources, targets, strict=True):
        torch.testing.assert_close(target, source + 1, atol=0, rtol=0)


CONFIGS = [triton.Config({"BLOCK": block}) for block in (64, 512)]


def test_cpu_times_do_not_select_gpu_configurations() -> None:
    @triton.autotune(configs=CONFIGS, key=["n"])
    @triton.jit
    def tuned_kernel(x_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + 1, mask=mask)

    x = torch.zeros(N, device="cuda")
    with interpret() as run:
        tuned_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](x, N)
    assert run.stats[0].launches > 2
    assert tuned_kernel.cache == {}
    assert "do_bench" not in vars(tuned_kernel)
    kernel = tuned_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](x, N)
    assert "ptx" in kernel.asm
    assert len(tuned_kernel.cache) == 1


def test_threads_of_autograd_belong_to_the_run() -> None:
    class Increment(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(x)
            add(x, x, out)
            return out

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(grad)
            add(grad, grad, out)
            return out

    x = torch.randn(N, device="cuda", requires_grad=True)
    with interpret() as run:
        Increment.apply(x).backward(torch.ones(N, device="cuda"))
    assert run.stats[0].launches == 2
    assert (x.grad == 2).all()
