"""`ttools inspect` on kernels, scripts and files, for GPUs that this machine does not have."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from ttools.core.records.launch_record import LaunchRecord, Record
from ttools.core.records.writing import write_record
from ttools.core.spec import LaunchSpec

STRANGE = LaunchSpec(kernel="strange", grid=(1, 1, 1))
KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(x_ptr + offs, x * factor, mask=offs < n)


@triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def shifted_kernel(x_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs + 1, mask=offs + 1 < n)
    tl.store(x_ptr + offs, x * factor, mask=offs < n)


if __name__ == "__main__":
    x = torch.ones(1000)
    scale_kernel[(4,)](x, 1000, 2.0, BLOCK=256)
    scale_kernel[(4,)](x, 992, 2.0, BLOCK=256)
    print("right:", bool((x[:992] == 4).all()))
"""
TUNED = """\
import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 64}, num_warps=w) for w in (1, 64, 4)], key=[])
@triton.jit
def scale(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)


if __name__ == "__main__":
    x = torch.ones(64)
    scale[(1,)](x)
    print("doubled" if bool((x == 2).all()) else "wrong")
"""
SIGNATURE = "*fp32:16,i32:16,fp32,1024"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(KERNEL)
    return path


def test_a_kernel_with_a_signature(ttools: Run, file: Path) -> None:
    result = ttools(
        *("inspect", "kernels.py:scale_kernel", "--signature", SIGNATURE, "--gpu", "sm_90"),
        *("--num-warps", "8"),
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("scale_kernel for sm_90, num_warps=8\n")
    assert "    x_ptr: *fp32, divisible by 16\n" in result.stdout
    assert re.search(
        r"\d+ registers per thread, 0 bytes of shared memory, 256 threads", result.stdout
    )
    assert "    kernels.py:9: 1 x load, 128 bits each\n" in result.stdout
    assert "    kernels.py:10: 1 x store, 128 bits each\n" in result.stdout
    assert "thread 1 holds [4:8]\n" in result.stdout


def test_a_script_and_the_reasons_for_its_recompilations(ttools: Run, file: Path) -> None:
    result = ttools("inspect", "--gpu", "gfx942", "--device-map", "off", "kernels.py")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("right: True\nscale_kernel for gfx942, num_warps=4")
    assert result.stdout.count("scale_kernel for gfx942") == 2
    assert "  compiled again because of n: i32 -> i32, divisible by 16\n" in result.stdout
    assert "  launched from kernels.py:24\n" in result.stdout


def test_source_lines_are_followed_by_their_stages(ttools: Run, file: Path) -> None:
    result = ttools(
        *("inspect", "--gpu", "sm_80", "--stage", "ttgir", "--stage", "ptx", "--signature"),
        *(SIGNATURE, "kernels.py:scale_kernel"),
    )
    assert result.returncode == 0, result.stderr
    ttgir, ptx = result.stdout.split("--- ptx\n")
    load = "# kernels.py:9: x = tl.load(x_ptr + offs, mask=offs < n)\n"
    assert "tt.load" in ttgir.split(load)[-1].split("\n# ")[0]
    assert any("ld.global" in part.split("\n# ")[0] for part in ptx.split(load)[1:])


def test_json(ttools: Run, file: Path, tmp_path: Path) -> None:
    result = ttools(
        *("inspect", "kernels.py:scale_kernel", "--signature", SIGNATURE, "--gpu", "sm_90"),
        *("--gpu", "gfx942", "--format", "json", "--output", "out.json", "--stage", "ttir"),
    )
    assert (result.returncode, result.stdout) == (0, "")
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["schema"] == "ttools.inspection/1"
    hopper, instinct = data["kernels"]
    assert [hopper["target"], instinct["target"]] == ["sm_90", "gfx942"]
    threads = (hopper["resources"]["threads"], instinct["resources"]["threads"])
    assert threads == (128, 256)
    assert hopper["occupancy"]["share"] == 1.0
    assert {a["location"]["line"] for a in hopper["accesses"]} == {9, 10}
    assert "tt.load" in hopper["stages"]["ttir"]


def test_comparison_with_another_kernel_and_another_target(ttools: Run, file: Path) -> None:
    words = ("inspect", "kernels.py:scale_kernel", "--signature", SIGNATURE, "--gpu", "sm_80")
    result = ttools(*words, "--against", "kernels.py:shifted_kernel")
    assert result.returncode == 0, result.stderr
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["scale_kernel", "for", "sm_80", "shifted_kernel", "for", "sm_80"]
    # From an address one element further, four 32-bit loads replace one 128-bit load.
    row_ends = {row.split("  ")[0]: row.split()[-3:] for row in rows}
    assert row_ends["narrow accesses"] == ["0", "8", "new"]
    assert row_ends["wide accesses"] == ["4", "2", "x0.50"]
    result = ttools(*words, "--against", "h100")
    assert "scale_kernel for h100 (sm_90)" in result.stdout.splitlines()[0]


def test_gpus_of_one_architecture_are_compiled_once(ttools: Run, file: Path) -> None:
    words = ("inspect", "kernels.py:scale_kernel", "--signature", SIGNATURE)
    result = ttools(*words, "--gpu", "h100", "--gpu", "h200", "--format", "json")
    assert [kernel["target"] for kernel in json.loads(result.stdout)["kernels"]] == ["sm_90"]
    former = ttools(*words, "--target", "h100", "--format", "json")
    assert former.stdout == result.stdout


def test_stages_are_saved(ttools: Run, file: Path, tmp_path: Path) -> None:
    result = ttools(
        *("inspect", "kernels.py:scale_kernel", "--signature", SIGNATURE, "--gpu", "sm_80"),
        *("--output-dir", "stages"),
    )
    assert result.returncode == 0, result.stderr
    saved = {path.name for path in (tmp_path / "stages").iterdir()}
    assert saved == {
        f"scale_kernel.sm_80.{end}" for end in ("ast.txt", "ttir", "ttgir", "ll", "ptx", "sass")
    }
    # The saved TTIR can be compiled again.
    again = ttools("inspect", "stages/scale_kernel.sm_80.ttir", "--gpu", "sm_90")
    assert again.returncode == 0, again.stderr
    assert "kernels.py:9: " in again.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("kernels.py:scale_kernel",), "needs --signature, with an entry for each of x_ptr, n"),
        (("kernels.py:scale_kernal", "--signature", "x"), "it has scale_kernel"),
        (("gone.py:kernel", "--signature", "x"), "there is no file `gone.py`"),
        (("gone.ttir",), "there is no file `gone.ttir`"),
        (("broken.py:kernel", "--signature", "x"), "`broken.py` cannot be loaded: SyntaxError"),
        (("--gpu", "sm_91", "kernels.py"), "there is no GPU `sm_91`; did you mean `sm_90`"),
        (("--gpu", "h10", "kernels.py"), "there is no GPU `h10`; did you mean `h100`"),
        (("--stage", "spirv", "kernels.py"), "there is no stage `spirv`"),
        (("--signature", "i32", "kernels.py"), "--signature is for FILE.py:KERNEL"),
        (("--only", "gone_kernel", "kernels.py"), "no kernel named gone_kernel was launched"),
        (("-c", "pass"), "no kernel was launched, so there is nothing to inspect"),
        (("gone.tt",), "there is no file `gone.tt`"),
        (("broken.tt",), "broken.tt: not a record of launches, or only part of one"),
        (("strange.tt", "--only", "other"), "strange.tt has no kernel named other; it has strange"),
        (("strange.tt", "--signature", "i32"), "a record's kernels have their own"),
    ],
)
def test_usage_errors(
    ttools: Run, file: Path, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "broken.py").write_text("def (:\n")
    (tmp_path / "broken.tt").write_text("no record")
    strange = LaunchRecord(spec=STRANGE, ttir="module { no }")
    write_record(Record(launches=[strange], storages=[]), tmp_path / "strange.tt")
    target = () if "--gpu" in words else ("--gpu", "sm_80")
    result = ttools("inspect", *target, *words)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_files_that_are_no_records_are_refused(ttools: Run, tmp_path: Path) -> None:
    strange = LaunchRecord(spec=STRANGE, ttir="module { no }")
    write_record(Record(launches=[strange], storages=[]), tmp_path / "strange.tt")
    result = ttools("inspect", "--gpu", "sm_80", "strange.tt")
    assert result.returncode == 2
    assert "kernel `strange` of strange.tt:1:10: error: expected `tt.func`" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_kernel_that_does_not_compile(ttools: Run, file: Path) -> None:
    result = ttools(
        *("inspect", "kernels.py:scale_kernel", "--signature", "*fp32,i32,fp32,1000"),
        *("--gpu", "sm_80"),
    )
    assert result.returncode == 1
    assert "`scale_kernel` does not compile for sm_80" in result.stderr
    assert "Traceback" not in result.stderr


def test_all_configurations_for_several_gpus(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "tuned.py").write_text(TUNED)
    words = ("inspect", "--all-configs", "--gpu", "sm_80,h100", "tuned.py")
    result = ttools(*words)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("doubled\nscale, launched from tuned.py:15: 3 configurations\n")
    assert "  all with BLOCK=64" in result.stdout
    assert re.search(r"\n   2  num_warps=64 +threads +threads\n", result.stdout)
    assert "  h100 (sm_90): 2 of 3 fit; occupancy " in result.stdout
    reason = "needs 2,048 threads per block, but only 1,024 are available"
    assert f"config 2 on sm_80, h100 (sm_90): {reason}" in " ".join(result.stdout.split())
    strict = ttools(*words[:-1], "--fail-on", "config", "--format", "json", "tuned.py")
    assert strict.returncode == 1
    assert "error: 2 of 6 compilations cannot be launched" in strict.stderr
    (kernel,) = json.loads(strict.stdout)["kernels"]
    third = kernel["configs"][2]
    assert third["values"] == {"BLOCK": 64, "num_warps": 4, "num_stages": 3, "num_ctas": 1}
    assert third["gpus"]["sm_80"]["verdict"] == "fits"


def test_a_kernel_that_no_configuration_can_launch_is_an_error(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "tuned.py").write_text(TUNED.replace("(1, 64, 4)", "(64,)"))
    words = ("inspect", "--all-configs", "--gpu", "a100", "tuned.py:scale")
    result = ttools(*words, "--signature", "*fp32:16,64")
    assert result.returncode == 1
    assert "error: no configuration of scale can be launched on a100 (sm_80)" in result.stderr
    assert ttools(*words, "--signature", "*fp32:16,64", "--fail-on", "never").returncode == 0


def test_options_of_all_configurations(called_ttools: Run, tmp_path: Path) -> None:
    for words, message in (
        (("--fail-on", "config"), "--fail-on needs --all-configs"),
        (("--all-configs", "--stage", "ptx"), "--stage cannot be combined with --all-configs"),
        (("--triton", "3.6.0"), "--triton needs --all-configs"),
    ):
        result = called_ttools("inspect", *words, "tuned.py")
        assert result.returncode == 2
        assert message in result.stderr
