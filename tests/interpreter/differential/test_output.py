"""Tests of static_print, static_assert, device_print and device_assert."""

from __future__ import annotations

import kernel_text
import pytest
import torch
import triton

pytestmark = pytest.mark.usefixtures("schedule")

PRINTS = """
@triton.jit
def kernel(x_ptr, n, SAY: tl.constexpr):
    lanes = tl.arange(0, 4)
    x = tl.load(x_ptr + lanes)
    tl.static_print("compiling with", SAY)
    tl.device_print("x", x + tl.program_id(0))
    if tl.program_id(0) == 1:
        tl.device_print("n and half", n, n / 2)
        tl.device_print("hex", x[None, :] * 16, hex=True)
"""


@pytest.mark.smoke
def test_device_print(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.tensor([0, 1, -2, 30], dtype=torch.int32)
    kernel_text.kernel(PRINTS)[(2,)](x, 7, SAY=3)
    lines = capsys.readouterr().out.splitlines()
    printed = [line for line in lines if line.startswith("pid")]
    assert printed == [
        *(f"pid (0, 0, 0) idx ({i}) x: {v}" for i, v in enumerate([0, 1, -2, 30])),
        *(f"pid (1, 0, 0) idx ({i}) x: {v}" for i, v in enumerate([1, 2, -1, 31])),
        "pid (1, 0, 0) idx () n and half: (operand 0) 7",
        "pid (1, 0, 0) idx () n and half: (operand 1) 3.500000",
        *(f"pid (1, 0, 0) idx (0, {i}) hex: 0x{v:08x}"
          for i, v in enumerate([0, 16, 2**32 - 32, 480])),
    ]  # fmt: skip


def test_static_print_prints_once_per_compilation(
    schedule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # The schedules share the result of the front end, so each needs a different text.
    kernel = kernel_text.kernel(PRINTS.replace("compiling", "making") + f"\n# {schedule}\n")
    x = torch.zeros(4, dtype=torch.int32)
    for _ in range(2):
        kernel[(1,)](x, 7, SAY=41)
    assert capsys.readouterr().out.count("making with 41") == 1


ASSERTS = """
@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 4 == 0, "a block is a multiple of four")
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.device_assert(x < n, "too large")
    tl.store(x_ptr + lanes, x + 1)
"""


def test_static_assert() -> None:
    x = torch.zeros(8, dtype=torch.int32)
    kernel_text.kernel(ASSERTS)[(2,)](x, 5, BLOCK=4)
    with pytest.raises(triton.CompilationError) as caught:
        kernel_text.kernel(ASSERTS)[(1,)](x, 5, BLOCK=2)
    assert "a block is a multiple of four" in str(caught.value.__cause__ or caught.value)


@pytest.mark.smoke
def test_device_assert_names_the_lane_and_the_line() -> None:
    from ttools.core.errors import KernelError

    x = torch.zeros(64, dtype=torch.int32)
    x[37] = 9
    kernel = kernel_text.kernel(ASSERTS)
    with pytest.raises(KernelError) as caught:
        kernel[(4,)](x, 5, BLOCK=16, debug=True)
    text = str(caught.value)
    assert "too large" in text
    assert "(2, 0, 0)" in text
    assert "[5] of [16]" in text
    assert "tl.device_assert(x < n" in text


def test_device_assert_is_disabled_without_debug() -> None:
    x = torch.full((16,), 99, dtype=torch.int32)
    kernel_text.kernel(ASSERTS)[(1,)](x, 5, BLOCK=16)
    assert (x == 100).all()


def test_device_assert_of_a_mask_in_debug_mode_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    from ttools.core.errors import KernelError

    text = """
    @triton.jit
    def kernel(x_ptr, n):
        lanes = tl.arange(0, 16)
        x = tl.load(x_ptr + lanes)
        tl.device_assert(x > 0, "positive", mask=lanes < n)
    """
    # Triton reads TRITON_DEBUG only once, into this variable.
    monkeypatch.setattr(triton.knobs.runtime, "debug", True)
    x = torch.tensor([1] * 10 + [0] * 6, dtype=torch.int32)
    kernel_text.kernel(text)[(1,)](x, 10)
    with pytest.raises(KernelError, match="positive"):
        kernel_text.kernel(text)[(1,)](x, 11)


def test_overflow_is_reported_in_debug_mode_only() -> None:
    from ttools.core.errors import KernelError

    text = """
    @triton.jit
    def kernel(x_ptr):
        lanes = tl.arange(0, 16)
        x = tl.load(x_ptr + lanes)
        tl.store(x_ptr + lanes, x * 3)
    """
    x = torch.full((16,), 2**30, dtype=torch.int32)
    with pytest.raises(KernelError, match="overflow"):
        kernel_text.kernel(text)[(1,)](x, debug=True)
    kernel_text.kernel(text)[(1,)](x)
    assert (x == 3 * 2**30 - 2**32).all()
