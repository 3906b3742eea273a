"""Tests of the output of `device_print`, which is that of a GPU, and of failing assertions."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from handmade_kernels import CALL, HERE, SPIN_SITE, kernel

from ttools.core.errors import KernelError
from ttools.interpreter.abi.module import CallbackKind, Site
from ttools.interpreter.runtime.launch import run
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.printing import lines

Operand = tuple[str, tuple[int, ...], bool, bool]


def printed(text: str, *operands: tuple[Operand, Any]) -> list[str]:
    arrays = [np.ascontiguousarray(data) for _, data in operands]
    table = (ctypes.c_uint64 * max(1, len(arrays)))(*[array.ctypes.data for array in arrays])
    site = Site(CallbackKind.PRINT, HERE, text, tuple(operand for operand, _ in operands))
    return list(lines(site, (1, 2, 3), ctypes.addressof(table)))


def printed_values(
    element: str, data: Any, *, as_hex: bool = False, signed: bool = True
) -> list[str]:
    """Return the printed value of each element, without the prefix of its line."""
    lines = printed(" x: ", ((element, (len(data),), as_hex, signed), data))
    return [line.split("x: ")[1] for line in lines]


def test_text_alone() -> None:
    assert printed(" here") == ["pid (1, 2, 3) here"]


def test_a_scalar_has_an_empty_index() -> None:
    assert printed(" n: ", (("i32", (), False, True), np.int32(-7))) == [
        "pid (1, 2, 3) idx () n: -7"
    ]


def test_indices_are_padded_to_the_widest() -> None:
    lines = printed(" x: ", (("i32", (16,), False, True), np.arange(16, dtype=np.int32)))
    assert lines[0] == "pid (1, 2, 3) idx ( 0) x: 0"
    assert lines[15] == "pid (1, 2, 3) idx (15) x: 15"


def test_tensors_are_row_major() -> None:
    data = np.arange(4, dtype=np.float32).reshape(2, 2)
    assert printed(" x: ", (("f32", (2, 2), False, True), data)) == [
        "pid (1, 2, 3) idx (0, 0) x: 0.000000",
        "pid (1, 2, 3) idx (0, 1) x: 1.000000",
        "pid (1, 2, 3) idx (1, 0) x: 2.000000",
        "pid (1, 2, 3) idx (1, 1) x: 3.000000",
    ]


def test_several_operands_are_numbered() -> None:
    one_element = (1,)
    assert printed(
        " a b: ",
        (("i32", one_element, False, True), np.array([1], np.int32)),
        (("f32", one_element, False, True), np.array([0.5], np.float32)),
    ) == [
        "pid (1, 2, 3) idx (0) a b: (operand 0) 1",
        "pid (1, 2, 3) idx (0) a b: (operand 1) 0.500000",
    ]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers(bits: int) -> None:
    data = np.array([-1, 5], f"int{bits}")
    assert printed_values(f"i{bits}", data) == ["-1", "5"]
    assert printed_values(f"i{bits}", data, signed=False) == [str(2**bits - 1), "5"]
    assert printed_values(f"i{bits}", data, as_hex=True) == [
        "0x" + "f" * (bits // 4),
        "0x" + "5".zfill(bits // 4),
    ]


def test_booleans_and_pointers() -> None:
    assert printed_values("i1", np.array([0, 1], np.int8)) == ["0", "1"]
    assert printed_values("!tt.ptr<f32>", np.array([0, 4096], np.int64)) == ["(nil)", "0x1000"]


@pytest.mark.parametrize(
    ("element", "kind"),
    [
        ("f16", np.float16),
        ("f32", np.float32),
        ("f64", np.float64),
        ("bf16", ml_dtypes.bfloat16),
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn),
        ("f8E5M2", ml_dtypes.float8_e5m2),
    ],
)
def test_floats(element: str, kind: Any) -> None:
    assert printed_values(element, np.array([1.5, -0.25], kind)) == ["1.500000", "-0.250000"]


def test_special_floats() -> None:
    data = np.array([np.inf, -np.inf, np.nan, -0.0], np.float32)
    assert printed_values("f32", data) == ["inf", "-inf", "nan", "-0.000000"]
    assert printed_values("f32", np.array([1], np.float32), as_hex=True) == ["0x3f800000"]


@pytest.mark.parametrize("threads", [1, 4])
def test_output_is_grouped_by_program(threads: int, capsys: pytest.CaptureFixture[str]) -> None:
    data = np.array([7, 8], np.int32)
    table = (ctypes.c_uint64 * 1)(data.ctypes.data)
    site = Site(CallbackKind.PRINT, HERE, " x: ", (("i32", (2,), False, True),))
    params = [int(CallbackKind.PRINT), ctypes.addressof(table), 2]
    run(kernel(CALL, 3, [site]), params, (2, 2), LaunchOptions(threads=threads))
    assert capsys.readouterr().out.splitlines() == [
        "pid (0, 1, 0) idx (0) x: 7",
        "pid (0, 1, 0) idx (1) x: 8",
        "pid (1, 1, 0) idx (0) x: 7",
        "pid (1, 1, 0) idx (1) x: 8",
    ]


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("waits", [False, True])
def test_a_failing_assert(threads: int, waits: bool) -> None:
    lane = ctypes.c_int64(37)
    site = Site(CallbackKind.ASSERT, HERE, "x must be positive")
    sites = [site, SPIN_SITE] if waits else [site]
    params = [int(CallbackKind.ASSERT), ctypes.addressof(lane), 0]
    options = LaunchOptions(threads=threads)
    with pytest.raises(KernelError) as raised:
        run(kernel(CALL, 3, sites), params, (40, 10), options)
    message = str(raised.value)
    assert message.startswith("kernel.py:12:5: error: device_assert `x must be positive` failed")
    assert "lane 37" in message
    if threads == 1:
        assert "program (0, 0, 0)" in message


def test_a_failing_assert_with_a_shape() -> None:
    lane = ctypes.c_int64(37)
    site = Site(CallbackKind.ASSERT, None, "", (("i1", (4, 16), False, False),))
    with pytest.raises(KernelError, match=r"lane \[2, 5\] of \[4, 16\]"):
        run(kernel(CALL, 3, [site]), [2, ctypes.addressof(lane), 0], (1,))
