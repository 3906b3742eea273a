"""Tests of every way to launch a kernel with Triton's API."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
import triton
from plugin_kernels import add_kernel, descriptor_kernel, fill_kernel, shift_kernel, tuple_kernel
from triton.tools.tensor_descriptor import TensorDescriptor

from ttools.core.errors import UsageError

pytestmark = pytest.mark.usefixtures("cpu_is_default")
N = 1000


def operands() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(N), torch.randn(N), torch.full((N,), -1.0)


@pytest.mark.smoke
def test_a_callable_grid_receives_the_arguments() -> None:
    x, y, out = operands()
    kernel = add_kernel[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](
        x, y, out, N, BLOCK=128
    )
    torch.testing.assert_close(out, x + y)
    assert "tt.func public @add_kernel" in kernel.asm["ttir"]
    assert kernel.n_regs > 0
    assert kernel.metadata.shared > 0
    assert kernel.metadata.name == "add_kernel"


def test_run_warmup_and_the_compiled_kernel_itself() -> None:
    x, y, out = operands()
    kernel = add_kernel.warmup(torch.float32, torch.float32, torch.float32, N, BLOCK=256, grid=(4,))
    assert (out == -1).all()
    kernel[(4, 1, 1)](x, y, out, N, 256)
    torch.testing.assert_close(out, x + y)
    out.zero_()
    add_kernel.run(x, y, out, N, BLOCK=256, grid=(4,), warmup=False)
    torch.testing.assert_close(out, x + y)


def test_too_few_arguments_for_a_compiled_kernel_are_an_error() -> None:
    x, y, _ = operands()
    kernel = add_kernel.warmup(torch.float32, torch.float32, torch.float32, N, BLOCK=256, grid=(4,))
    with pytest.raises(
        UsageError, match="takes 5 arguments, including constants, but 2 were passed"
    ):
        kernel[(4, 1, 1)](x, y)


def test_preload_accepts_the_data_of_the_compilation_hook() -> None:
    from triton import knobs

    specialisations: list[str] = []

    def hook(**event: Any) -> None:
        specialisations.append(event["compile"]["specialization_data"])

    x, y, out = operands()
    old, knobs.runtime.jit_cache_hook = knobs.runtime.jit_cache_hook, hook
    try:
        add_kernel[(16,)](x, y, out, N, BLOCK=64)
    finally:
        knobs.runtime.jit_cache_hook = old
    assert add_kernel.preload(specialisations[0]) is not None


def test_launch_hooks_receive_name_and_order() -> None:
    from triton import knobs

    events: list[tuple[str, str]] = []

    def on_enter(metadata: Any) -> None:
        events.append(("enter", metadata.get()["name"]))

    def on_exit(metadata: Any) -> None:
        events.append(("exit", metadata.get()["name"]))

    x, y, out = operands()
    knobs.runtime.launch_enter_hook.add(on_enter)
    knobs.runtime.launch_exit_hook.add(on_exit)
    try:
        add_kernel[(8,)](x, y, out, N, BLOCK=128)
    finally:
        knobs.runtime.launch_enter_hook.remove(on_enter)
        knobs.runtime.launch_exit_hook.remove(on_exit)
    assert events == [("enter", "add_kernel"), ("exit", "add_kernel")]


def test_addresses_and_objects_with_data_ptr() -> None:
    class Address:
        dtype = torch.float32

        def __init__(self, tensor: torch.Tensor) -> None:
            self._tensor = tensor

        def data_ptr(self) -> int:
            return self._tensor.data_ptr()

    x, y, out = operands()
    add_kernel[(8,)](Address(x), y, Address(out), N, BLOCK=128)
    torch.testing.assert_close(out, x + y)


def test_overlapping_arguments_keep_program_order() -> None:
    x = torch.arange(64, dtype=torch.float32)
    expected = torch.cat([x[:1], x[:-1]])
    shift_kernel[(1,)](x, 63, BLOCK=64)
    torch.testing.assert_close(x, expected)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int64]
)
def test_scalars_of_every_type(dtype: torch.dtype) -> None:
    out = torch.zeros(32, dtype=dtype)
    fill_kernel[(1,)](out, 3, BLOCK=32)
    assert (out == 3).all()


def test_tuples_of_pointers_and_numbers() -> None:
    x, y, out = torch.randn(64), torch.randn(64), torch.zeros(64)
    tuple_kernel[(1,)]((x, y), (2.0, 3.0), out, BLOCK=64)
    torch.testing.assert_close(out, 2 * x + 3 * y)


@pytest.mark.parametrize("shape", [(64, 64), (50, 40)])
def test_host_descriptors(shape: tuple[int, int]) -> None:
    x, out = torch.randn(shape), torch.zeros(shape)
    block = [16, 32]
    grid = (triton.cdiv(shape[0], 16), triton.cdiv(shape[1], 32))
    descriptor_kernel[grid](
        TensorDescriptor.from_tensor(x, block), TensorDescriptor.from_tensor(out, block), *block
    )
    torch.testing.assert_close(out, 2 * x)


@pytest.mark.parametrize("grid", [(0,), (4, 0, 2)])
def test_an_empty_grid_runs_nothing(grid: tuple[int, ...]) -> None:
    x, y, out = operands()
    add_kernel[grid](x, y, out, N, BLOCK=128)
    assert (out == -1).all()


@pytest.mark.parametrize("grid", [(2.5,), (-1,), ("a",)])
def test_invalid_grids_are_errors(grid: Any) -> None:
    x, y, out = operands()
    with pytest.raises(UsageError, match="grid"):
        add_kernel[grid](x, y, out, N, BLOCK=128)


def test_threads_launch_concurrently() -> None:
    x, y, _ = operands()
    outs = [torch.zeros(N) for _ in range(8)]

    def work(out: torch.Tensor) -> None:
        for _ in range(20):
            add_kernel[(8,)](x, y, out, N, BLOCK=128)

    threads = [threading.Thread(target=work, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in outs:
        torch.testing.assert_close(out, x + y)


def test_launch_options_of_gpus_are_accepted() -> None:
    x, y, out = operands()
    add_kernel[(8,)](
        x, y, out, N, BLOCK=128, num_warps=8, num_stages=4, num_ctas=1, maxnreg=64,
        launch_cooperative_grid=True, waves_per_eu=2, matrix_instr_nonkdim=16,
        extern_libs={"libdevice": "/nowhere/libdevice.10.bc"},
    )  # fmt: skip
    torch.testing.assert_close(out, x + y)


def test_num_warps_must_be_a_power_of_two() -> None:
    x, y, out = operands()
    with pytest.raises(UsageError, match="num_warps=3"):
        add_kernel[(8,)](x, y, out, N, BLOCK=128, num_warps=3)
