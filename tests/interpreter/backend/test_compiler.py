"""Tests of the compiler of the backend plugin: options, errors, and kernels that run eagerly."""

from __future__ import annotations

import pdb
from dataclasses import fields
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.errors import UnsupportedError
from ttools.core.triton_versions import CompiledSource
from ttools.interpreter import device_map, interpret
from ttools.interpreter.eager.kernel_selection import python_only
from ttools.interpreter.frontend.options import CPUOptions

pytestmark = pytest.mark.usefixtures("cpu_is_default")


def test_every_option_of_gpu_backends_is_accepted() -> None:
    from triton.backends.amd.compiler import HIPOptions
    from triton.backends.nvidia.compiler import CUDAOptions

    options = {f.name for f in fields(CPUOptions)}
    assert {f.name for f in fields(CUDAOptions)} <= options
    assert {f.name for f in fields(HIPOptions)} <= options


@triton.jit
def breakpoint_kernel(x_ptr):
    x = tl.load(x_ptr)
    breakpoint()
    tl.store(x_ptr, x)


@triton.jit
def import_kernel(x_ptr):
    import pdb

    pdb.set_trace()


@triton.jit
def set_trace_kernel(x_ptr):
    pdb.set_trace()


@triton.jit
def print_kernel(x_ptr):
    x = tl.load(x_ptr)
    print(x)


@triton.jit
def helper(x):
    print(x)
    return x


@triton.jit
def calling_kernel(x_ptr):
    tl.store(x_ptr, helper(tl.load(x_ptr)))


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (breakpoint_kernel, "`breakpoint()`"),
        (import_kernel, "`import pdb`"),
        (set_trace_kernel, "`pdb.set_trace()`"),
        (print_kernel, "Python's `print` of a value"),
        (calling_kernel, "Python's `print` of a value"),
    ],
)
def test_statements_that_only_python_can_run_are_located(kernel, expected: str) -> None:
    reachable = (kernel, helper) if kernel is calling_kernel else (kernel,)
    statement = python_only(CompiledSource(reachable))
    assert statement is not None
    text, location = statement
    assert text == expected
    assert location.file == __file__
    source = open(__file__).read().splitlines()[location.line - 1]  # noqa: PTH123, SIM115
    assert any(word in source for word in ("breakpoint()", "pdb", "print(x)"))


def test_printing_a_value_runs_the_kernel_eagerly(capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        calling_kernel[(2,)](torch.full((1,), 7.0))
    captured = capfd.readouterr()
    assert captured.out.splitlines() == ["fp32 7.0"] * 4
    assert captured.err.count("kernel `calling_kernel` runs as Python, because it contains") == 1
    assert "_do_compile" not in vars(calling_kernel)


def test_an_observed_kernel_does_not_run_eagerly() -> None:
    class Watching:
        def launch(self, launch: object) -> object:
            raise AssertionError("the kernel cannot be compiled")

    with (
        interpret(observer=Watching()),  # type: ignore[arg-type]
        pytest.raises(UnsupportedError, match="`print` of a value in a kernel") as caught,
    ):
        print_kernel[(1,)](torch.zeros(1))
    assert "a kernel with it runs as Python, where it cannot be checked" in str(caught.value)


@triton.jit
def labelled_print_kernel(x_ptr):
    print("x is", tl.load(x_ptr))


def test_print_with_a_label_becomes_device_print(capfd: pytest.CaptureFixture[str]) -> None:
    labelled_print_kernel[(1,)](torch.full((1,), 7.0))
    assert "x is" in capfd.readouterr().out


@triton.jit
def fp8_kernel(x_ptr, back_ptr, bits_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    narrow = x.to(tl.float8e4b15)
    tl.store(bits_ptr + offsets, narrow.to(tl.int8, bitcast=True))
    tl.store(back_ptr + offsets, narrow.to(x.dtype))


def as_fp8e4b15(values: torch.Tensor) -> torch.Tensor:
    """Convert to fp8e4b15 with the integer operations of the PTX of Triton's NVIDIA backend."""
    half = values.to(torch.float16).view(torch.int16).to(torch.int32) & 0xFFFF
    magnitude = torch.clamp(half & 0x7FFF, max=0x3F00)
    return ((half & 0x8000 | (magnitude * 2 + 0x80)) >> 8).to(torch.uint8).view(torch.int8)


def test_fp8e4b15_as_the_nvidia_backend_converts() -> None:
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    x = bits.view(torch.float16)
    back, narrow = torch.zeros_like(x), torch.zeros(2**16, dtype=torch.int8)
    fp8_kernel[(1,)](x, back, narrow, BLOCK=2**16)
    torch.testing.assert_close(narrow, as_fp8e4b15(x))
    raw = narrow.view(torch.uint8).to(torch.int32)
    wide = (raw & 0x80) << 8 | (raw & 0x7F) << 7
    torch.testing.assert_close(
        back.view(torch.int16).to(torch.int32) & 0xFFFF, wide, atol=0, rtol=0
    )


def test_the_target_is_no_gpu() -> None:
    driver = triton.runtime.driver.active
    assert driver.get_current_target().backend == "cpu"
    assert driver.get_active_torch_device() == torch.device("cpu")
    assert all(driver.utils.get_device_properties(None).values())


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_properties_of_a_mapped_device_agree_with_torch() -> None:
    utils = triton.runtime.driver.active.utils
    with device_map("cuda=cpu,capability=9.0,sms=132"):
        device_properties = utils.get_device_properties(0)
        properties: Any = torch.cuda.get_device_properties(0)
    assert device_properties["multiprocessor_count"] == properties.multi_processor_count == 132
    assert device_properties["max_shared_mem"] == properties.shared_memory_per_block_optin
    assert device_properties.keys() == utils.get_device_properties(0).keys()


@triton.autotune([triton.Config({"BLOCK": block}) for block in (4, 8, 16)], key=["n"])
@triton.jit
def tuned_print_kernel(x_ptr, n, BLOCK: tl.constexpr):
    print(BLOCK)
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) + 1, mask=offsets < n)


def test_a_tuned_kernel_that_runs_eagerly_is_not_timed(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.zeros(16)
    tuned_print_kernel[(1,)](x, 4)
    tuned_print_kernel[(1,)](x, 4)
    # Each launch runs once, with the first configuration.
    assert capfd.readouterr().out.splitlines() == ["constexpr[4]", "constexpr[4]"]
    assert x.tolist() == [2.0] * 4 + [0.0] * 12
