"""With a GPU and compute-sanitizer, the command finds the defects that show on a GPU."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ttools.core.triton_versions import instrumentation_modes

pytestmark = pytest.mark.gpu
DEFECTS = Path(__file__).parent / "defects.py"


def run(folder: Path, *arguments: str, status: int = 1) -> dict[str, Any]:
    """Run `ttools sanitize --on gpu …` and return its JSON report."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "ttools_entry", "sanitize", "--on", "gpu"]
    result = subprocess.run(
        [*command, "--format", "json", "--output", str(report), "--timeout", "100", *arguments],
        cwd=DEFECTS.parent,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert result.returncode == status, result.stdout + result.stderr
    return {**json.loads(report.read_text()), "stdout": result.stdout, "stderr": result.stderr}


def line_of(text: str) -> int:
    lines = DEFECTS.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


CASES = [
    ("oob_load", "memcheck", "oob_load", "x_ptr", "x = tl.load(x_ptr + offs)"),
    ("oob_store", "memcheck", "oob_store", "out_ptr", "tl.store(out_ptr + 2 * offs"),
    ("oob_atomic", "memcheck", "oob_atomic", "counts_ptr", "tl.atomic_add(counts_ptr"),
    ("oob_slice", "memcheck", "oob_load", "x_ptr", "x = tl.load(x_ptr + offs)"),
    ("oob_helper", "memcheck", "oob_load", "x_ptr", "return tl.load(ptr + offs)"),
    ("oob_called", "memcheck", "oob_store", "out_ptr", "tl.store(ptr + index, 2.0)"),
    ("misaligned", "memcheck", "misaligned", "x_ptr", "tl.store(out_ptr + offs, tl.load(x_ptr"),
    ("uninit_read", "initcheck", "uninit_read", "x_ptr", "tl.store(out_ptr + offs, tl.load(x_ptr"),
    ("hazard", "racecheck", "intra_program_race", None, "(STORE_SHARED, "),
]


@pytest.mark.parametrize(("case", "check", "kind", "argument", "line"), CASES)
def test_defect_is_found(
    case: str, check: str, kind: str, argument: str | None, line: str, tmp_path: Path
) -> None:
    report = run(tmp_path, "--check", check, str(DEFECTS), case)
    (finding,) = report["findings"]
    assert (finding["kind"], finding["check"]) == (kind, check)
    assert (finding["argument"] or {}).get("name") == argument
    assert finding["location"]["line"] == line_of(line)
    assert Path(finding["location"]["file"]).name == DEFECTS.name
    assert finding["launch"].rpartition(":")[0].endswith(DEFECTS.name)
    assert report["launches"][0]["kernel"] == finding["kernel"]


def test_divergent_barrier(tmp_path: Path) -> None:
    # Such an error destroys the CUDA context, so that torch aborts the process.
    report = run(tmp_path, "--check", "synccheck", str(DEFECTS), "divergent", status=134)
    (finding,) = report["findings"]
    assert (finding["kind"], finding["check"]) == ("divergent_barrier", "deadlock")
    assert finding["location"]["line"] == line_of("(WAIT, ")


def test_configuration_of_the_autotuner(tmp_path: Path) -> None:
    report = run(tmp_path, "--check", "memcheck", str(DEFECTS), "oob_tuned")
    (finding,) = report["findings"]
    assert finding["config"]["BLOCK"] == 64


def test_kernel_of_torch_is_a_warning(tmp_path: Path) -> None:
    report = run(tmp_path, "--check", "initcheck", str(DEFECTS), "other_kernel", status=0)
    assert {(f["kind"], f["severity"]) for f in report["findings"]} == {("uninit_read", "warning")}


def test_launch_of_a_graph(tmp_path: Path) -> None:
    report = run(tmp_path, "--check", "memcheck", str(DEFECTS), "graph")
    (finding,) = report["findings"]
    assert (finding["kind"], finding["argument"]["name"]) == ("oob_load", "x_ptr")


def test_memory_written_through_descriptors_is_not_checked(tmp_path: Path) -> None:
    report = run(tmp_path, str(DEFECTS), "descriptors", status=0)
    assert report["stdout"] == "right: True\n"
    assert {(f["check"], f["kind"]) for f in report["findings"]} <= {("initcheck", "unsupported")}


def test_tests_under_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import defects\ndef test_it(): defects.oob_store()\n")
    flags = ("-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}")
    report = run(tmp_path, "--check", "memcheck", "-m", "pytest", *flags, str(tmp_path))
    assert [finding["kind"] for finding in report["findings"]] == ["oob_store"]


def test_clean_program_under_all_tools(tmp_path: Path) -> None:
    report = run(tmp_path, str(DEFECTS), "clean", status=0)
    assert report["findings"] == []
    assert report["stdout"] == "right: True\n"
    assert report["stderr"].count("under compute-sanitizer") == 4


def test_status_of_the_script(tmp_path: Path) -> None:
    code = "import os, torch; torch.ones(1, device='cuda'); "
    for ending, status in (("raise SystemExit(5)", 5), ("os._exit(6)", 6), ("os.abort()", None)):
        command = [sys.executable, "-m", "ttools_entry", "sanitize", "--on", "gpu"]
        result = subprocess.run(
            [*command, "--check", "memcheck", "-c", code + ending],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == status if status is not None else result.returncode != 0
        # The warning is omitted for scripts that fail.
        assert "no Triton kernel was launched" not in result.stdout


def test_hanging_kernel_is_stopped(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ttools_entry", "sanitize", "--on", "gpu"]
    result = subprocess.run(
        [*command, "--check", "memcheck", "--timeout", "20", str(DEFECTS), "oob_store", "spin"],
        cwd=DEFECTS.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "out-of-bounds store of 4 bytes to `out_ptr`" in " ".join(result.stdout.split())
    assert "the program was stopped after 20 s" in result.stderr
    assert result.returncode == 3


def test_interrupt_keeps_the_findings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ttools_entry", "sanitize", "--on", "gpu"]
    process = subprocess.Popen(
        [*command, "--check", "memcheck", str(DEFECTS), "oob_store", "spin"],
        cwd=DEFECTS.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "spinning\n"
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert "out-of-bounds store of 4 bytes to `out_ptr`" in " ".join(out.split())
    assert process.returncode == 130, error


# ---- instrumentation of Triton


INSTRUMENTED = """\
import sys
import torch
import triton
import triton.language as tl

@triton.jit
def clean(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs) + 1)

@triton.jit
def races(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs) + tl.program_id(0))  # race

@triton.jit
def describes(x_ptr, out_ptr, stride):
    desc = tl.make_tensor_descriptor(x_ptr, [16, 16], [stride, 1], [16, 16])  # misaligned
    offs = tl.arange(0, 16)
    tl.store(out_ptr + offs[:, None] * 16 + offs[None, :], desc.load([0, 0]))

if sys.argv[1] == "describes":
    triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8, device="cuda"))
x, out = torch.ones(1024, device="cuda"), torch.ones(1024, device="cuda")
if sys.argv[1] == "clean":
    clean[(4,)](x, out, BLOCK=256)
elif sys.argv[1] == "races":
    races[(64,)](x, BLOCK=256)
else:
    describes[(1,)](x, out, 17)
"""


def require_mode(mode: str) -> None:
    if mode not in instrumentation_modes():
        pytest.skip(f"the installed Triton has no `{mode}`")


@pytest.mark.parametrize("mode", ["consan", "gsan", "iisan"])
def test_instrumentation_finds_nothing_in_a_clean_program(mode: str, tmp_path: Path) -> None:
    require_mode(mode)
    (tmp_path / "k.py").write_text(INSTRUMENTED)
    words = ("--check", "memcheck", "--instrument", mode, str(tmp_path / "k.py"), "clean")
    assert run(tmp_path, *words, status=0)["findings"] == []


@pytest.mark.parametrize(
    ("mode", "case", "kind"), [("gsan", "races", "race"), ("iisan", "describes", "misaligned")]
)
def test_instrumentation_finds(mode: str, case: str, kind: str, tmp_path: Path) -> None:
    require_mode(mode)
    (tmp_path / "k.py").write_text(INSTRUMENTED)
    words = ("--check", "synccheck", "--instrument", mode, str(tmp_path / "k.py"), case)
    report = run(tmp_path, *words)
    (finding,) = report["findings"]
    assert (finding["kind"], finding["kernel"]) == (kind, case)
    lines = INSTRUMENTED.splitlines()
    assert f"# {'race' if case == 'races' else kind}" in lines[finding["location"]["line"] - 1]
