"""Tests of running kernels from `.ttir` files, with textual arguments."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ttools.core.errors import TtoolsError, UsageError
from ttools.interpreter import interpret
from ttools.interpreter.records import ttir_file
from ttools.interpreter.records.argument_text import make_array, make_scalar
from ttools.interpreter.records.ttir_file import run_ttir_file

SCALE = """
module {
  tt.func public @scale(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %out: !tt.ptr<f32>,
                        %factor: f32, %n: i32 {tt.divisibility = 8 : i32}) {
    %c64 = arith.constant 64 : i32
    %pid = tt.get_program_id x : i32
    %start = arith.muli %pid, %c64 : i32
    %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %starts = tt.splat %start : i32 -> tensor<64xi32>
    %offsets = arith.addi %starts, %range : tensor<64xi32>
    %ns = tt.splat %n : i32 -> tensor<64xi32>
    %mask = arith.cmpi slt, %offsets, %ns : tensor<64xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %px = tt.addptr %xs, %offsets : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %v = tt.load %px, %mask : tensor<64x!tt.ptr<f32>>
    %fs = tt.splat %factor : f32 -> tensor<64xf32>
    %r = arith.mulf %v, %fs : tensor<64xf32>
    %os = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %po = tt.addptr %os, %offsets : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %po, %r, %mask : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
"""
ARGUMENTS = {"x": "rand:f32[200]", "out": "zeros:f32[200]", "factor": "2.5", "n": "200"}


@pytest.fixture
def scale(tmp_path: Path) -> Path:
    path = tmp_path / "scale.ttir"
    path.write_text(SCALE)
    return path


@pytest.mark.smoke
def test_running_returns_every_tensor(scale: Path) -> None:
    outputs = run_ttir_file(scale, (4,), ARGUMENTS)
    assert list(outputs) == ["x", "out"]
    np.testing.assert_array_equal(outputs["out"], outputs["x"] * np.float32(2.5))


def test_the_active_run_applies(scale: Path) -> None:
    with interpret(programs="0") as run:
        outputs = run_ttir_file(scale, (4,), ARGUMENTS)
    assert (run.stats[0].kernel, run.stats[0].programs) == ("scale", 1)
    assert outputs["out"][:64].all()
    assert not outputs["out"][64:].any()


def test_a_file_that_triton_wrote_runs(tmp_path: Path) -> None:
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def twice_kernel(x_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        mask = offsets < n
        tl.store(x_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)

    kernel = twice_kernel.warmup(torch.int32, 60, BLOCK=64, grid=(1,))
    path = tmp_path / "twice.ttir"
    for stage in ("source", "ttir"):
        path.write_text(kernel.asm[stage])
        outputs = run_ttir_file(path, (1,), {"x_ptr": "arange:i32[64]", "n": "60"})
        expected = np.arange(64) * np.where(np.arange(64) < 60, 2, 1)
        np.testing.assert_array_equal(outputs["x_ptr"], expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": None}, r"no argument is given for `n` \(i32\); write, for example, n=1"),
        ({"x": None}, r"x=rand:f32\[1024\]"),
        ({"m": "1"}, "no parameter `m`; it has `x` \\(tensor of f32\\)"),
        ({"x": "rand:f16[200]"}, "the kernel expects a tensor of f32, not f16"),
        ({"x": "rand:q7[200]"}, "unknown element type `q7`"),
        ({"x": "noise:f32[200]"}, "there is no generator `noise`"),
        ({"x": "zeros(1):f32[200]"}, "does not take a value"),
        ({"x": "full:f32[200]"}, "full needs a value"),
        ({"x": "5"}, "is not a tensor of f32"),
        ({"x": "/nowhere/x.npy"}, "cannot read /nowhere/x.npy: No such file"),
        ({"n": "many"}, "`many` is not an integer"),
        ({"n": "0x1ffffffff"}, "does not fit in 32 bits"),
        ({"n": "100"}, "100 is not divisible by 8"),
        ({"factor": "much"}, "`much` is not a number"),
    ],
)
def test_invalid_arguments_are_errors(
    scale: Path, change: dict[str, str | None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests parse the same file in a child process first, which takes most of their time.
    monkeypatch.setattr(ttir_file, "read_foreign_ttir", lambda path: path.read_text("utf-8"))
    merged = {**ARGUMENTS, **change}
    arguments = {name: text for name, text in merged.items() if text is not None}
    with pytest.raises(UsageError, match=message):
        run_ttir_file(scale, (4,), arguments)


def test_unreadable_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        run_ttir_file(tmp_path / "none.ttir", (1,), {})
    path = tmp_path / "bad.ttir"
    path.write_text("module { tt.func public @f( {")
    with pytest.raises(UsageError, match="not valid TTIR for Triton"):
        run_ttir_file(path, (1,), {})
    path.write_text("module {}")
    with pytest.raises(TtoolsError, match="no public function"):
        run_ttir_file(path, (1,), {})


def test_descriptors_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "descriptor.ttir"
    path.write_text(
        "module { tt.func public @f(%d: !tt.tensordesc<tensor<4x4xf32>>) { tt.return } }"
    )
    with pytest.raises(TtoolsError):
        run_ttir_file(path, (1,), {"d": "1"})


# ---- the language of arguments


@pytest.mark.parametrize(
    ("text", "element", "expected"),
    [
        ("zeros:f32[3]", "f32", np.zeros(3, np.float32)),
        ("ones:bf16[2,2]", "bf16", np.ones((2, 2), ml_dtypes.bfloat16)),
        ("full(3):f16[4,4]", "f16", np.full((4, 4), 3, np.float16)),
        ("full(-1):i8[2]", "i8", np.full(2, -1, np.int8)),
        ("full(0xff):u8[2]", "i8", np.full(2, -1, np.int8)),
        ("full(true):i1[2]", "i1", np.full(2, True)),
        ("arange:i32[2x3]", "i32", np.arange(6, dtype=np.int32).reshape(2, 3)),
        ("arange:float32[4]", "f32", np.arange(4, dtype=np.float32)),
        ("full(2):fp8e5[2]", "f8E5M2", np.full(2, 2, ml_dtypes.float8_e5m2)),
    ],
)
def test_generators(text: str, element: str, expected: np.ndarray) -> None:
    array = make_array(text, "x", element)
    assert array.dtype == expected.dtype
    assert array.ctypes.data % 64 == 0
    np.testing.assert_array_equal(array, expected)


def test_random_numbers_depend_only_on_the_name() -> None:
    first, same, other = (make_array("rand:f32[64]", n, "f32") for n in ("x", "x", "y"))
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()
    assert first.min() >= 0
    assert first.max() < 1
    integers = make_array("rand:i64[1000]", "x", "i64")
    assert 0 <= integers.min() < integers.max() < 100
    assert make_array("randn:f32[1000]", "x", "f32").min() < 0
    with pytest.raises(UsageError, match="use rand for integers"):
        make_array("randn:i32[4]", "x", "i32")


def test_empty_memory_has_a_visible_pattern() -> None:
    assert (make_array("empty:i8[16]", "x", "i8").view(np.uint8) == 0xCD).all()


def test_files_must_have_the_type_of_the_parameter(tmp_path: Path) -> None:
    floats = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.save(tmp_path / "x.npy", floats)
    np.testing.assert_array_equal(make_array(f"{tmp_path}/x.npy", "x", "f32"), floats)
    with pytest.raises(
        UsageError, match="contains float32, but the kernel expects a tensor of i32"
    ):
        make_array(f"{tmp_path}/x.npy", "x", "i32")
    with pytest.raises(UsageError, match="remove `:a`"):
        make_array(f"{tmp_path}/x.npy:a", "x", "f32")


def test_archives_with_several_arrays_need_a_key(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", a=np.ones(2, ml_dtypes.bfloat16))
    ones = make_array(f"{tmp_path}/one.npz", "x", "bf16")
    assert ones.dtype == ml_dtypes.bfloat16
    assert (ones == 1).all()
    np.savez(tmp_path / "two.npz", a=np.ones(2), b=np.zeros(2, np.uint32))
    assert make_array(f"{tmp_path}/two.npz:b", "x", "i32").dtype == np.int32
    with pytest.raises(UsageError, match="KEY; it contains a, b"):
        make_array(f"{tmp_path}/two.npz", "x", "f64")
    with pytest.raises(UsageError, match="has no array `c`"):
        make_array(f"{tmp_path}/two.npz:c", "x", "f64")


@pytest.mark.parametrize(
    ("text", "element", "value"),
    [
        ("1000", "i32", 1000),
        ("0xffffffff", "i32", -1),
        ("true", "i1", True),
        ("inf", "f32", np.inf),
    ],
)
def test_scalars(text: str, element: str, value: float) -> None:
    assert make_scalar(text, "n", element) == value
