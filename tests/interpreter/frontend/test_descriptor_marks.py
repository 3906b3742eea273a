"""Tests of the marks of tensor descriptors in TTIR, which print nothing and can be removed."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.frontend.descriptors import without_marks
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.ir.parser import parse_module
from ttools.ir.parser.placeholder_prints import DESCRIPTOR_MARK


@triton.jit
def row_of(x_ptr, n, BLOCK: tl.constexpr):
    return tl.make_tensor_descriptor(x_ptr, [1, n], [n, 1], [1, BLOCK])


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    for row in range(2):
        x = row_of(x_ptr + row * n, n, BLOCK).load([0, 0])
        tl.make_tensor_descriptor(y_ptr, [2, n], [n, 1], [1, BLOCK]).store([row, 0], x)
    print("done", n)


class _Texts:
    """An observer that keeps the TTIR of each launched kernel."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        self.texts.append(launch.kernel.variants.ttir)
        return launch.execute(Instruments())


def test_marks(capfd: pytest.CaptureFixture[str]) -> None:
    observer = _Texts()
    x, y = torch.rand(2, 32), torch.zeros(2, 32)
    with interpret(observer=observer):
        kernel[(1,)](x, y, 32, BLOCK=32)
    assert torch.equal(x, y)
    printed = capfd.readouterr().out
    assert "done" in printed
    assert "ttools" not in printed
    (text,) = observer.texts
    assert text.count(DESCRIPTOR_MARK) == 2
    function = parse_module(text).kernel
    marks = [op for op in function.walk() if op.name == "ttools.descriptor"]
    assert [mark.attributes for mark in marks] == [{"block": (1, 32), "element": "f32"}] * 2
    assert all(len(mark.operands) == 5 for mark in marks)
    assert all(mark.location is not None and mark.location.line for mark in marks)
    assert [op.name for op in function.walk()].count("tt.print") == 1
    plain = without_marks(text)
    assert DESCRIPTOR_MARK not in plain
    assert plain.count("tt.print") == 1
    names = [op.name for op in parse_module(plain).kernel.walk()]
    assert names == [op.name for op in function.walk() if op.name != "ttools.descriptor"]
