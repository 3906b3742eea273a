"""Instrumentation modes of Triton: environment, requirements, and findings.

The modes themselves need a GPU; here, programs on the CPU print what instrumented ones would.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.process.script import Target
from ttools.core.spec import LaunchSpec
from ttools.core.triton_versions import instrumentation_modes
from ttools.sanitizer.checks.registry import CHECKS, parse_checks
from ttools.sanitizer.gpu import api, instrumentation, sanitize_on_gpu
from ttools.sanitizer.gpu.findings import gpu_findings
from ttools.sanitizer.gpu.instrumentation import MODES, parse_modes, require_modes, vendor
from ttools.sanitizer.gpu.launch_log import LogEntry
from ttools.sanitizer.gpu.output import Record

SCRIPT = """\
import os, sys
import torch
import triton
import triton.language as tl
from ttools.sanitizer.gpu import launch_watch


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, 2 * x, mask=offs < n)


x, out = torch.ones(100), torch.zeros(100)
launch_watch.wait_for_gpu = lambda: True
scale_kernel[(1,)](x, out, 100, BLOCK=128)
launch_watch.wait_for_gpu = lambda: False  # as where the context is lost
scale_kernel[(2,)](x, out, 100, BLOCK=64)
scale_kernel[(3,)](x, out, 100, BLOCK=64)
print("mode", os.environ.get("TRITON_INSTRUMENTATION_MODE"), os.environ["CUDA_LAUNCH_BLOCKING"])
for thread in (1, 2):
    where = f"{__file__}:12: unknown: block: [1,0,0], thread: [{thread},0,0]"
    sys.stderr.write(f"{where} Assertion `TEXT` failed.\\n")
sys.exit(1)
"""


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run programs on the CPU, as if on a GPU."""
    monkeypatch.setattr(api, "require_gpu", lambda: None)
    ours = instrumentation.TritonTool.environment
    monkeypatch.setattr(
        instrumentation.TritonTool,
        "environment",
        lambda tool: {**ours(tool), "TTOOLS_BACKEND": "auto"},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "text", "kind"),
    [
        ("consan", "Buffer being accessed has outstanding writes.", "intra_program_race"),
        ("iisan", "Tensor descriptor base pointer must be 16-byte aligned", "misaligned"),
    ],
)
def test_an_assertion_is_a_finding(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    without_gpu: None,
    mode: str,
    text: str,
    kind: str,
) -> None:
    monkeypatch.setattr(api, "tools_for", lambda checks: ((), None))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("TEXT", text))
    checked = sanitize_on_gpu(Target(kind="script", name=str(script)), instrument=mode)
    (finding,) = checked.findings
    assert (finding.kind, finding.severity, finding.count) == (kind, "error", 2)
    assert (finding.kernel, finding.program) == ("scale_kernel", (1, 0, 0))
    assert finding.location is not None
    assert finding.location.line == 12
    assert finding.launch == f"{script}:19"
    assert finding.message.endswith(f"({mode})")
    assert sum(entry.count for entry in checked.launches) == 3
    assert checked.status == 1
    assert f"mode {mode} 1\n" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("mode", "text", "kind"),
    [
        ("gsan", "Read after write race detected", "race"),
        ("gsan", "Read of write-once memory before its first write", "uninit_read"),
        ("consan", "Deadlock detected", "deadlock"),
        ("consan", "Barrier used before initialization", "divergent_barrier"),
        ("consan", "x is positive", "unsupported"),
    ],
)
def test_kinds_of_assertions(tmp_path: Path, mode: str, text: str, kind: str) -> None:
    """Check that assertions are accepted even in the mode that needs CUDA memory."""
    record = Record(position=0, text=text)
    launch = LogEntry(spec=LaunchSpec(kernel="k", grid=(1, 1, 1)), function="k", end=1)
    (finding,) = gpu_findings([record], [launch], MODES[mode], tmp_path, lambda name: True)
    assert (finding.kind, finding.kernel) == (kind, "k")
    assert finding.check in CHECKS
    assert finding.kind == "unsupported" or finding.kind in CHECKS[finding.check].kinds


def test_modes() -> None:
    assert [tool.name for tool in parse_modes(["iisan, ConSan", "consan"])] == ["consan", "iisan"]
    assert parse_modes([]) == ()
    with pytest.raises(UsageError, match="reports nothing by itself"):
        parse_modes(["fpsan"])
    with pytest.raises(UsageError, match="no instrumentation `tsan`; choose from consan"):
        parse_modes(["tsan"])


def test_modes_of_the_installed_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    assert instrumentation_modes() >= {"asan", "consan"}
    with pytest.raises(TtoolsError, match="Triton has `asan` only for AMD GPUs"):
        require_modes([MODES["asan"]], "nvidia")
    with pytest.raises(TtoolsError, match="only for NVIDIA GPUs, but torch is built for AMD"):
        require_modes([MODES["iisan"]], "amd")
    monkeypatch.setattr(
        "ttools.core.triton_versions.instrumentation_modes", lambda: frozenset({"asan"})
    )
    with pytest.raises(TtoolsError, match=r"triton 3\.\d+.* has no `consan`"):
        require_modes([MODES["consan"]], "nvidia")


def test_environment_of_amds_address_sanitizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "lib/llvm/lib/clang/20/lib/linux"
    folder.mkdir(parents=True)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    monkeypatch.setenv("LD_PRELOAD", "/lib/other.so")
    with pytest.raises(TtoolsError, match=r"needs libclang_rt\.asan-x86_64\.so of ROCm's compiler"):
        MODES["asan"].environment()
    runtime = folder / "libclang_rt.asan-x86_64.so"
    runtime.touch()
    added = MODES["asan"].environment()
    assert added["LD_PRELOAD"] == f"{runtime}:/lib/other.so"
    assert (added["TRITON_ENABLE_ASAN"], added["HSA_XNACK"]) == ("1", "1")
    assert (added["AMDGCN_USE_BUFFER_OPS"], "TRITON_INSTRUMENTATION_MODE" in added) == ("0", False)
    assert "LD_PRELOAD" not in MODES["consan"].environment()
    assert os.environ["LD_PRELOAD"] == "/lib/other.so"


def test_modes_on_amds_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "vendor", lambda: "amd")

    def tools(checks: str, **options: Any) -> list[str]:
        sanitization = api.GpuSanitization(api.GpuOptions(checks=parse_checks([checks]), **options))
        return [tool.name for tool in sanitization._tools]

    assert tools("default") == ["asan"]
    assert tools("racecheck", instrument=parse_modes(["consan"])) == ["consan"]
    assert tools("memcheck", instrument=parse_modes(["consan,asan"])) == ["asan", "consan"]
    with pytest.raises(UsageError, match="on AMD GPUs only memcheck"):
        tools("racecheck")


@pytest.mark.parametrize(
    ("version", "whose"), [("2.9.0+rocm6.4", "amd"), ("2.9.0+cu129", "nvidia"), ("2.9", "nvidia")]
)
def test_vendor(monkeypatch: pytest.MonkeyPatch, version: str, whose: str) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    assert vendor() == whose
