"""`ttools interpret`: streams, exit statuses, options of the script, and statistics."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

NO_LAUNCH = "note: no Triton kernel was launched"

ADD = """\
import sys
import torch
import triton
import triton.language as tl


@triton.jit
def add_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + 1, mask=mask)


@triton.jit
def double(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)


n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
x = torch.arange(n, dtype=torch.float32)
out = torch.full_like(x, -1)
add_one[(triton.cdiv(n, 64),)](x, out, n, BLOCK=64)
print(int((out == x + 1).sum()), "of", n)
"""


@pytest.fixture
def add(tmp_path: Path) -> str:
    (tmp_path / "add.py").write_text(ADD)
    return "add.py"


# --- scripts without kernels -------------------------------------------------------------------


def test_script_gets_its_own_options(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text("import sys; print(sys.argv, __name__)")
    result = ttools("interpret", "--threads", "1", "show.py", "--threads", "9", "-m", "--help")
    assert result.stdout == "['show.py', '--threads', '9', '-m', '--help'] __main__\n"
    assert result.returncode == 0
    assert NO_LAUNCH in result.stderr


@pytest.mark.parametrize("form", [("-m", "show"), ("-cimport show",)])
def test_module_and_code(ttools: Run, tmp_path: Path, form: tuple[str, ...]) -> None:
    (tmp_path / "show.py").write_text("import sys; print(sys.argv[1:], sys.path[0] in sys.path)")
    result = ttools("interpret", *form, "-c", "--stats")
    assert (result.stdout, result.returncode) == ("['-c', '--stats'] True\n", 0), result.stderr


@pytest.mark.parametrize(
    ("code", "status"),
    [("raise SystemExit(7)", 7), ("1/0", 1)],
)
def test_exit_status_is_that_of_the_script(ttools: Run, code: str, status: int) -> None:
    assert ttools("interpret", "-c", code).returncode == status


def test_traceback_shows_only_the_script(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("def f():\n    raise ValueError('mine')\n\nf()\n")
    ours = ttools("interpret", "fails.py")
    theirs = subprocess.run(
        [sys.executable, "fails.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ours.stderr.startswith(theirs.stderr)
    assert "ttools" not in ours.stderr.replace(NO_LAUNCH, "").replace("test_", "")


def test_cuda_errors_name_the_command_that_finds_their_cause(ttools: Run) -> None:
    words = "CUDA error: an illegal memory access was encountered"
    broken = ttools("interpret", "-c", f"raise RuntimeError({words!r})")
    assert broken.returncode == 1
    assert broken.stderr.index(words) < broken.stderr.index("`ttools sanitize` finds it")
    assert "finds it" not in ttools("interpret", "-c", "raise RuntimeError('other')").stderr


def test_excepthook_of_the_script_is_kept(ttools: Run) -> None:
    code = "import sys; print(sys.excepthook is sys.__excepthook__)"
    assert ttools("interpret", "-c", code).stdout == "True\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "nothing to run"),
        (("gone.py",), "no file `gone.py`"),
        (("-m", "gone"), "no module named `gone`"),
        (("gone.ttir",), "no file `gone.ttir`"),
        (("-m",), "-m"),
        (("--threads", "none", "x.py"), "--threads"),
        (("--threads", "0", "x.py"), "--threads"),
        (("--order", "sideways", "x.py"), "--order"),
        (("--device-map", "cuda=tpu", "x.py"), "--device-map"),
        (("--gpu", "gfx942", "-c", "pass"), "--gpu: gfx942 cannot be emulated"),
        (("--gpu", "h100", "--device-map", "off", "-c", "pass"), "both choose the emulated device"),
        (("--programs", "nonsense", "-c", "pass"), "nonsense"),
        (("--engine", "magic", "x.py"), "--engine"),
        (("--no-such-option", "x.py"), "--no-such-option"),
        (("--grid", "4", "-c", "pass"), "--grid is for .ttir files"),
        (("--arg", "n=1", "-c", "pass"), "--arg is for .ttir files"),
        (("--stats", "--output", "no/such/file", "-c", "pass"), "no/such/file"),
    ],
)
def test_usage_errors(ttools: Run, arguments: tuple[str, ...], sentence: str) -> None:
    result = ttools("interpret", *arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_triton_interpret_is_replaced(started_ttools: Run, ttools: Run) -> None:
    code = "import os; print(os.environ.get('TRITON_INTERPRET'))"
    result = started_ttools("interpret", "-c", code, TRITON_INTERPRET="1")
    assert result.stdout == "None\n"
    assert result.stderr.count("TRITON_INTERPRET is set") == 1
    quiet = ttools("interpret", "-c", code, TRITON_INTERPRET="0")
    assert "TRITON_INTERPRET is set" not in quiet.stderr


def test_colours_follow_the_environment_variables(ttools: Run) -> None:
    arguments = ("interpret", "-c", "pass")
    assert "\x1b[" not in ttools(*arguments).stderr
    assert "\x1b[" in ttools(*arguments, FORCE_COLOR="1").stderr
    # NO_COLOR removes the colours, but not bold text.
    assert "\x1b[36m" not in ttools(*arguments, FORCE_COLOR="1", NO_COLOR="1").stderr


# --- scripts with kernels ----------------------------------------------------------------------


@pytest.mark.smoke
def test_kernel_runs_and_is_counted(ttools: Run, add: str) -> None:
    result = ttools("interpret", "--stats", add, "1000")
    assert (result.stdout, result.returncode) == ("1000 of 1000\n", 0), result.stderr
    assert NO_LAUNCH not in result.stderr
    row = next(line for line in result.stderr.splitlines() if "add_one" in line)
    assert row.split()[:3] == ["add_one", "1", "16"]
    assert "│" not in result.stderr


def test_stats_as_json(ttools: Run, add: str, tmp_path: Path) -> None:
    result = ttools("interpret", "--format", "json", "--output", "stats.json", add)
    assert result.returncode == 0, result.stderr
    assert result.stderr == "note: the report is in stats.json\n"
    report = json.loads((tmp_path / "stats.json").read_text())
    assert report["script"] == {"target": "add.py", "exit_code": 0}
    (kernel,) = report["kernels"]
    assert (kernel["kernel"], kernel["launches"], kernel["programs"]) == ("add_one", 1, 16)
    assert all(kernel[time] >= 0 for time in ("front_end_s", "compile_s", "run_s"))


@pytest.mark.parametrize("order", ["reverse", "random"])
def test_order_and_threads(ttools: Run, add: str, order: str) -> None:
    result = ttools("interpret", "--order", order, "--seed", "3", "--threads", "2", add)
    assert result.stdout == "1000 of 1000\n", result.stderr


def test_programs_selects_the_programs_that_run(ttools: Run, add: str) -> None:
    result = ttools("interpret", "--programs", "0,2:4", add, "1000")
    assert result.stdout == "192 of 1000\n", result.stderr


def test_only_the_named_kernels(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(ADD + "double[(1,)](out, BLOCK=64)\n")
    result = ttools(
        "interpret", "--only", "double", "--format", "json", "--output", "s.json", "two.py"
    )
    assert result.returncode == 0, result.stderr
    kernels = json.loads((tmp_path / "s.json").read_text())["kernels"]
    assert [kernel["kernel"] for kernel in kernels] == ["double"]


@pytest.mark.parametrize(
    ("changed", "refused"),
    [
        ("", True),
        ("import subprocess\n", False),  # other programs may have other kernels
        ("from mine import kernel\n", False),
    ],
)
def test_unknown_kernels_are_refused_if_the_script_has_all_kernels(
    ttools: Run, tmp_path: Path, changed: str, refused: bool
) -> None:
    (tmp_path / "mine.py").write_text("kernel = None\n")
    (tmp_path / "named.py").write_text(changed + ADD)
    result = ttools("interpret", "--only", "doubl", "named.py")
    if refused:
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr == (
            "error: --only doubl: named.py has no kernel of this name; did you mean `double`?\n"
        )
    else:
        assert result.returncode == 0, result.stderr
        assert "no kernel `doubl` was launched (--only)" in result.stderr


def test_kernel_in_code(ttools: Run) -> None:
    result = ttools("interpret", "-c", ADD)
    assert (result.stdout, result.returncode) == ("1000 of 1000\n", 0), result.stderr


def test_device_map_is_the_default_and_announced_once(ttools: Run, tmp_path: Path) -> None:
    script = ADD.replace("dtype=torch.float32", "dtype=torch.float32, device='cuda'")
    script += "assert x.is_cuda and out.cuda() is not None\ntorch.cuda.synchronize()\n"
    (tmp_path / "gpu.py").write_text(script)
    result = ttools("interpret", "gpu.py")
    assert (result.stdout, result.returncode) == ("1000 of 1000\n", 0), result.stderr
    assert result.stderr.count("the CPU stands in for cuda:0") == 1
    explicit = ttools("interpret", "--device-map", "cuda=cpu", "gpu.py")
    assert (explicit.returncode, explicit.stderr) == (0, "")
    forbidden = ttools("interpret", "--device-map", "off", "gpu.py")
    assert forbidden.returncode == 1
    assert "Torch not compiled with CUDA enabled" in forbidden.stderr


def test_the_device_may_be_described(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(
        "import os, torch\n"
        "p = torch.cuda.get_device_properties(0)\n"
        "print(p.major, p.minor, p.multi_processor_count, os.environ['TTOOLS_DEVICE_MAP'])\n"
    )
    text = "cuda=cpu,capability=9.0,sms=132"
    result = ttools("interpret", "--device-map", text, "seen.py")
    assert result.stdout == f"9 0 132 {text}\n", result.stderr
    named = ttools("interpret", "--gpu", "h100", "seen.py")
    assert (named.stdout, named.stderr) == (result.stdout, result.stderr)
    off = ttools("interpret", "--device-map", "off", "-c", "import os; print(os.environ)")
    assert "'TTOOLS_DEVICE_MAP': 'off'" in off.stdout


def test_unsupported_kernel_is_reported_in_a_sentence(ttools: Run, tmp_path: Path) -> None:
    assembly = """tl.inline_asm_elementwise("", "=r,r", [offsets], tl.int32, True, 1)"""
    script = ADD.replace("mask = offsets < n", f"mask = offsets < n\n    offsets += {assembly}")
    (tmp_path / "asm.py").write_text(script)
    result = ttools("interpret", "asm.py")
    assert result.returncode == 3
    assert "asm.py:11:" in result.stderr
    assert "unsupported: " in result.stderr
    assert "During: running" in result.stderr
    assert "Traceback" not in result.stderr
    assert NO_LAUNCH not in result.stderr


def test_failed_assertion_fails_the_script(ttools: Run, tmp_path: Path) -> None:
    check = "mask = offsets < n\n    tl.device_assert(offsets < 70, 'too far')"
    (tmp_path / "fails.py").write_text(ADD.replace("mask = offsets < n", check))
    result = ttools("interpret", "fails.py", TRITON_DEBUG="1")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "device_assert `too far` failed" in result.stderr
    assert NO_LAUNCH not in result.stderr


# --- .ttir files -------------------------------------------------------------------------------


TTIR = """\
module {
  tt.func public @add_one(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {
    %c4 = arith.constant 4 : i32
    %pid = tt.get_program_id x : i32
    %base = arith.muli %pid, %c4 : i32
    %range = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %splat = tt.splat %base : i32 -> tensor<4xi32>
    %offsets = arith.addi %splat, %range : tensor<4xi32>
    %limit = tt.splat %n : i32 -> tensor<4xi32>
    %mask = arith.cmpi slt, %offsets, %limit : tensor<4xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %offsets : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
    %v = tt.load %xp, %mask : tensor<4x!tt.ptr<f32>>
    %one = arith.constant dense<1.000000e+00> : tensor<4xf32>
    %sum = arith.addf %v, %one : tensor<4xf32>
    %os = tt.splat %out : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %op = tt.addptr %os, %offsets : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
    tt.store %op, %sum, %mask : tensor<4x!tt.ptr<f32>>
    tt.return
  }
}
"""
ARGUMENTS = ("--grid", "3", "--arg", "x=arange:f32[10]", "--arg", "out=zeros:f32[10]")


def test_ttir_file(ttools: Run, tmp_path: Path) -> None:
    import numpy as np

    (tmp_path / "k.ttir").write_text(TTIR)
    result = ttools(
        "interpret", "k.ttir", *ARGUMENTS, "--arg", "n=9", "--dump-outputs", "out.npz", "--stats"
    )
    assert (result.stdout, result.returncode) == ("", 0), result.stderr
    assert "add_one" in result.stderr
    out = np.load(tmp_path / "out.npz")["out"]
    np.testing.assert_array_equal(out, [*range(1, 10), 0])


def test_ttir_file_shows_its_tensors(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "k.ttir").write_text(TTIR)
    result = ttools("interpret", *ARGUMENTS, "--arg", "n=10", "k.ttir")
    assert result.returncode == 0, result.stderr
    assert "out" in result.stdout
    assert "10." in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("k.ttir", "extra"), "takes no arguments, but got `extra`"),
        (("k.ttir", "--grid", "4,x"), "--grid is `4,x`"),
        (("k.ttir", "--grid", "1,2,3,4"), "--grid is `1,2,3,4`"),
        (("k.ttir", "--arg", "n"), "--arg `n` is not of the form"),
        (("k.ttir", "--arg", "n=1", "--arg", "n=2"), "gives `n` twice"),
        (
            ("k.ttir", *ARGUMENTS[:2], "--arg", "x=rand:f99[4]", *ARGUMENTS[4:], "--arg", "n=9"),
            "f99",
        ),
        (("k.ttir", *ARGUMENTS, "--arg", "n=9", "--arg", "m=1"), "`m`"),
    ],
)
def test_usage_errors_of_ttir_files(
    ttools: Run, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "k.ttir").write_text(TTIR)
    result = ttools("interpret", *arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
