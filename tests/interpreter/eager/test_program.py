"""Tests of an eager program at a prompt, which runs `tl` line by line and then restores Triton."""

from __future__ import annotations

import threading

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from ttools.core.errors import KernelError, UsageError
from ttools.interpreter import eager_program, interpret


@triton.jit
def double(v):
    return v * 2


@triton.jit
def kernel(x_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(x_ptr + lanes, tl.sum(tl.load(x_ptr + lanes), 0) + lanes)


def test_operations_one_by_one() -> None:
    x = torch.arange(100, dtype=torch.float32)
    with eager_program(pid=(3, 0, 0), grid=(8,)):
        assert int(tl.program_id(0)) == 3
        assert int(tl.num_programs(0)) == 8
        offsets = tl.program_id(0) * 4 + tl.arange(0, 4)
        assert repr(offsets) == "int32[4] [12 13 14 15]"
        assert repr(x + offsets) == "pointer<fp32>[4] x + [12 13 14 15]"
        values = tl.load(x + offsets)
        assert values.numpy().tolist() == [12.0, 13.0, 14.0, 15.0]
        assert float(tl.sum(double(values), axis=0)) == 108.0
        assert float(values.max(0)) == 15.0
        assert float(tl.math.exp2(tl.full((), 3.0, tl.float32))) == 8.0
        tl.store(x + offsets, values.to(tl.bfloat16) * 10, mask=offsets > 12)
        assert (values[None, :] == values[:, None]).numpy().sum() == 4
    assert x[12:16].tolist() == [12.0, 130.0, 140.0, 150.0]


def test_triton_is_restored() -> None:
    before = dict(vars(tl)), dict(vars(tl.math)), triton.JITFunction.__call__
    with eager_program():
        assert tl.load is not before[0]["load"]
        with eager_program(pid=1):
            assert int(tl.program_id(0)) == 1
        assert int(tl.program_id(0)) == 0
        values = tl.arange(0, 2)
    assert (dict(vars(tl)), dict(vars(tl.math)), triton.JITFunction.__call__) == before
    with pytest.raises(UsageError, match="no eager program is running"):
        values + 1
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        double(values)
    with pytest.raises(ValueError, match=r"Did you forget to add @triton\.jit"):
        tl.arange(0, 2)


def test_kernels_can_be_compiled_during_a_program() -> None:
    x, y = torch.ones(4), torch.ones(4)

    def launch(tensor: torch.Tensor) -> None:
        with interpret():
            kernel[(1,)](tensor, N=4)

    with eager_program():
        other = threading.Thread(target=launch, args=(x,))
        other.start()
        other.join()
        launch(y)
    assert x.tolist() == y.tolist() == [4.0, 5.0, 6.0, 7.0]


def test_mistakes_are_errors() -> None:
    x = torch.zeros(3)
    with eager_program():
        with pytest.raises(KernelError, match="element 3 of `x`, float32") as raised:
            tl.load(x + tl.arange(0, 4))
        assert "lane [3] of [4]" in str(raised.value)
        with pytest.raises(KernelError, match="device_assert `low` failed"):
            tl.device_assert(tl.arange(0, 4) > 0, "low")
    with (
        pytest.raises(UsageError, match=r"no program \(8, 0, 0\) in the grid \(8, 1, 1\)"),
        eager_program(pid=8, grid=8),
    ):
        pass
    with pytest.raises(UsageError, match="one to three integers"), eager_program(pid="0"):  # type: ignore[arg-type]
        pass


def test_functions_of_the_device_library() -> None:
    with eager_program():
        value = tl.full((2,), 0.5, tl.float32)
        assert libdevice.__name__.startswith("triton.language.extra")
        from triton.language.extra.cuda import libdevice as device

        assert device.tanh(value).numpy()[0] == pytest.approx(0.46211717)
