"""`ttools sanitize`: streams, exit statuses, child processes, and runs without launches."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.sanitize.buggy_script import BUGGY, FINDING, NO_LAUNCH, SUMMARY
from tests.forked_python import PYTHON

Run = Callable[..., "subprocess.CompletedProcess[str]"]

# --- text and streams ---------------------------------------------------------------------------


def test_finding_follows_the_output_of_the_script(ttools: Run, buggy: str) -> None:
    result = ttools("sanitize", buggy)
    assert result.returncode == 1
    assert result.stdout.startswith(f"right: True\n{FINDING}"), result.stderr
    assert "  x_ptr: float32[1000] (4,000 bytes); the access begins at its end\n" in result.stdout
    assert "  launched from buggy.py:27; 24 lanes in 1 program are affected\n" in result.stdout
    assert "  help: mask the load" in result.stdout
    assert result.stdout.endswith(f"\n\n{SUMMARY}\n")
    assert result.stderr == ""


def test_clean_script(ttools: Run, buggy: str) -> None:
    result = ttools("sanitize", buggy, "double")
    assert (result.stdout, result.stderr) == ("no finding in 1 kernel, 1 launch\n", "")
    assert result.returncode == 0


@pytest.mark.parametrize("form", [("-m", "buggy"), ("-c", "import buggy")])
def test_module_and_code(ttools: Run, buggy: str, form: tuple[str, ...]) -> None:
    result = ttools("sanitize", *form)
    assert FINDING in result.stdout
    assert result.returncode == 1


def test_code_of_the_command_line_has_excerpts(ttools: Run) -> None:
    result = ttools("sanitize", "-c", BUGGY)
    assert "<string>:10:9: error[oob_load]" in result.stdout
    assert "\n   10 |     x = tl.load(x_ptr + offs)\n" in result.stdout


def test_script_reads_its_own_options(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text("import sys; print(sys.argv[1:])")
    result = ttools("sanitize", "--fail-on", "note", "show.py", "--format", "json", "--check")
    assert result.stdout == f"['--format', 'json', '--check']\n{NO_LAUNCH}\n"


def test_pytest_as_module(ttools: Run, buggy: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    import buggy\n")
    result = ttools("sanitize", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    assert "1 passed" in result.stdout
    assert FINDING in result.stdout
    assert result.returncode == 1


@pytest.mark.slow
def test_tests_in_other_processes_are_checked(ttools: Run, buggy: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    import buggy\n")
    result = ttools("sanitize", "-m", "pytest", "-q", "-n", "1", "test_it.py")
    assert "1 passed" in result.stdout, result.stdout
    assert FINDING in result.stdout
    assert result.returncode == 1
    assert "warning" not in result.stderr
    assert "PytestAssertRewriteWarning" not in result.stdout


def test_triton_interpret_is_replaced(ttools: Run, buggy: str) -> None:
    result = ttools("sanitize", buggy, TRITON_INTERPRET="1")
    assert FINDING in result.stdout
    assert "TRITON_INTERPRET is set; this run ignores it, and ttools sanitizes" in result.stderr


def test_terminal_gets_colour_and_the_same_text(tmp_path: Path, buggy: str) -> None:
    words = ["-m", "ttools_entry", "sanitize", buggy]

    def on_terminal(**environment: str) -> str:
        leader, follower = pty.openpty()
        name = os.ttyname(follower)
        variables = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment}
        process = PYTHON.start(words, streams=(name, name, name), cwd=tmp_path, env=variables)
        os.close(follower)
        written = b""
        while True:
            try:
                chunk = os.read(leader, 4096)
            except OSError:  # Linux reports EIO once the other end is closed
                break
            if not chunk:
                break
            written += chunk
        os.close(leader)
        process.wait()
        return written.decode().replace("\r\n", "\n")

    coloured = on_terminal()
    assert "\x1b[1;31merror[oob_load]:\x1b[0m" in coloured
    assert FINDING in on_terminal(NO_COLOR="1", TERM="dumb")


# --- exit statuses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("", 1),
        ("raise SystemExit(0)", 1),
        ("raise SystemExit(7)", 7),
        ("raise ValueError('mine')", 1),
    ],
)
def test_exit_status_of_a_failing_script_takes_precedence(
    ttools: Run, tmp_path: Path, ending: str, status: int
) -> None:
    (tmp_path / "buggy.py").write_text(f"{BUGGY}\n{ending}\n")
    result = ttools("sanitize", "buggy.py")
    assert result.returncode == status
    assert FINDING in result.stdout
    assert ("ValueError: mine" in result.stderr) == ("ValueError" in ending)


def test_failing_script_without_findings(ttools: Run, buggy: str) -> None:
    assert ttools("sanitize", "-c", "raise SystemExit(5)").returncode == 5


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ((), 0),
        (("--fail-on", "error"), 0),
        (("--fail-on", "warning"), 1),
        (("--fail-on", "note"), 1),
        (("--view-bounds", "error"), 1),
        (("--view-bounds", "off", "--fail-on", "note"), 0),
    ],
)
def test_fail_on_sets_the_severity_that_fails_a_run(
    ttools: Run, tmp_path: Path, options: tuple[str, ...], status: int
) -> None:
    view = BUGGY.replace("x = torch.arange(n, ", "x = torch.arange(2048, ").replace(
        "out = torch.full_like(x, -1)", "x = x[:n]; out = torch.full_like(x, -1)"
    )
    (tmp_path / "view.py").write_text(view)
    result = ttools("sanitize", *options, "view.py")
    assert result.returncode == status, result.stdout
    assert ("[view_oob]" in result.stdout) == ("off" not in options)


def test_internal_failure_keeps_the_findings(ttools: Run, tmp_path: Path) -> None:
    failing = "from ttools.core.errors import UnsupportedError\nraise UnsupportedError('cats')"
    (tmp_path / "buggy.py").write_text(f"{BUGGY}\n{failing}\n")
    result = ttools("sanitize", "buggy.py")
    assert result.returncode == 3
    assert FINDING in result.stdout
    assert "unsupported: cats" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "nothing to run"),
        (("none.py",), "there is no file `none.py`"),
        (("--check", "Lint", "buggy.py"), "there is no check `Lint`; did you mean"),
        (("--format", "pdf", "buggy.py"), "pdf"),
        (("--suppressions", "none.toml", "buggy.py"), "cannot read `none.toml`"),
        (("--baseline", "none.json", "buggy.py"), "cannot read the baseline `none.json`"),
        (("--update-baseline", "buggy.py"), "--update-baseline needs --baseline FILE"),
        (("--output", "none/x.json", "buggy.py"), "there is no folder `none`"),
        (("--grid", "4", "buggy.py"), "--grid is for .ttir files"),
        (("--all-configs", "--first-config", "buggy.py"), "cannot be used together"),
        (("--on", "gpu", "--gpu", "h100", "buggy.py"), "--gpu applies only to the CPU"),
        (("--gpu", "h10", "buggy.py"), "--gpu: there is no GPU `h10`"),
    ],
)
def test_usage_errors(
    called_ttools: Run, buggy: str, arguments: tuple[str, ...], sentence: str
) -> None:
    result = called_ttools("sanitize", *arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert "right" not in result.stdout


TUNED = """\
import torch
import triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": b}) for b in (16, 32, 64)], key=["n"],
                 restore_value=["x_ptr"])
@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 2 * tl.load(x_ptr + offs))

x = torch.ones(48)
double[lambda meta: (triton.cdiv(48, meta["BLOCK"]),)](x, 48)
print("right:", bool((x == 2).all()))
"""


def test_all_configs_names_the_failing_configurations(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "tuned.py").write_text(TUNED)
    assert ttools("sanitize", "tuned.py").returncode == 0
    result = ttools(
        "sanitize", "--all-configs", "--format", "json", "--output", "r.json", "tuned.py"
    )
    assert (result.returncode, result.stdout) == (1, "right: True\n")
    findings = json.loads((tmp_path / "r.json").read_text())["findings"]
    assert {f["kind"] for f in findings} == {"oob_load", "oob_store"}
    assert all([c["BLOCK"] for c in f["configs"]] == [32, 64] for f in findings)


# --- programs that end by os._exit, change the folder, or fork ------------------------------------


@pytest.mark.parametrize(("status", "ours"), [(0, 1), (5, 5)])
def test_hard_exit_does_not_lose_the_report(
    ttools: Run, buggy: str, tmp_path: Path, status: int, ours: int
) -> None:
    (tmp_path / "hard.py").write_text(f"import os, buggy\nos.chdir('/')\nos._exit({status})\n")
    result = ttools("sanitize", "--format", "json", "--output", "report.json", "hard.py")
    assert result.returncode == ours, result.stderr
    data = json.loads((tmp_path / "report.json").read_text())
    assert (data["script"]["exit_code"], len(data["findings"])) == (status, 1)


def test_program_may_change_the_folder(ttools: Run, buggy: str, tmp_path: Path) -> None:
    (tmp_path / "away.py").write_text("import os, buggy\nos.chdir('/')\n")
    (tmp_path / "rules.toml").write_text('[[suppress]]\nkind = "race"\nreason = "none"\n')
    result = ttools("sanitize", "--suppressions", "rules.toml", "--output", "found.txt", "away.py")
    assert "the report is in found.txt" in result.stderr
    assert (tmp_path / "found.txt").read_text().startswith(FINDING)


def test_kernels_of_forked_processes_are_in_the_report(
    ttools: Run, buggy: str, tmp_path: Path
) -> None:
    (tmp_path / "forks.py").write_text(
        "import os, torch, triton\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    import buggy\n"
        "else:\n"
        "    os.waitpid(child, 0)\n"
    )
    result = ttools("sanitize", "forks.py")
    assert FINDING in result.stdout
    assert (result.stdout.count("error[oob_load]"), result.returncode) == (1, 1)
    assert result.stderr == ""


def test_failing_kernels_of_forked_processes_are_in_the_report(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(
        "import os, torch, triton, triton.language as tl\n"
        "@triton.jit(debug=True)\n"
        "def never(x_ptr):\n"
        "    tl.device_assert(tl.load(x_ptr) < 0)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    never[(1,)](torch.ones(1))\n"
        "else:\n"
        "    os.waitpid(child, 0)\n"
    )
    result = ttools("sanitize", "failing.py")
    unchecked = "no launch was checked to its end: `never` (launch 1: run failed after "
    assert result.stdout.startswith(unchecked)
    assert result.stderr.count("device_assert") >= 1
    assert result.returncode == 0


# --- runs without launches --------------------------------------------------------------------


def test_run_without_launches_is_reported(ttools: Run) -> None:
    result = ttools("sanitize", "-c", "pass")
    assert (result.stdout, result.returncode) == (f"{NO_LAUNCH}\n", 0)


def test_required_launches(ttools: Run, buggy: str) -> None:
    result = ttools("sanitize", "--require-launches", "-c", "pass")
    assert result.returncode == 1
    assert f"error: {NO_LAUNCH} (--require-launches)" in result.stderr
    assert ttools("sanitize", "--require-launches", buggy, "double").returncode == 0


def test_launch_rules_of_an_emulated_gpu(ttools: Run, tmp_path: Path) -> None:
    """Clusters of two blocks exist on an H100, but not on an A100."""
    (tmp_path / "cluster.py").write_text(
        "import torch, triton\n"
        "import triton.language as tl\n"
        "@triton.jit\n"
        "def fill(x_ptr):\n"
        "    tl.store(x_ptr + tl.arange(0, 16), 1.0)\n"
        "fill[(1,)](torch.empty(16, device='cuda'), num_ctas=2)\n"
    )
    accepted = ttools("sanitize", "--gpu", "h100", "cluster.py")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    refused = ttools("sanitize", "--gpu", "a100", "cluster.py")
    assert refused.returncode == 1
    assert "error[refused_launch]" in refused.stdout


def test_only_named_kernels_are_checked(ttools: Run, buggy: str) -> None:
    result = ttools("sanitize", "--only", "double", buggy)
    none = "none of the selected Triton kernels was launched, so nothing was checked"
    assert result.stdout == f"right: True\n{none}\n"
    assert ttools("sanitize", "--only", "add_one", buggy).returncode == 1


def test_kernels_that_are_not_launched_are_reported(ttools: Run, buggy: str) -> None:
    result = ttools("sanitize", "--only", "double", "--only", "add_one", buggy)
    assert result.stderr == "warning: no kernel `double` was launched (--only)\n"


def test_unknown_kernels_are_refused_before_the_run(ttools: Run, buggy: str) -> None:
    result = ttools("sanitize", "--only", "add_on", "--only", "double", buggy, "double")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        f"error: --only add_on: {buggy} has no kernel of this name; did you mean `add_one`?\n"
    )


def test_suggested_tolerances_follow_the_findings(ttools: Run, buggy: str) -> None:
    result = ttools("sanitize", "--check", "accuracy", "--suggest-tolerance", buggy, "double")
    assert result.returncode == 0, result.stderr
    *_, heading, output, reason, _, summary = result.stdout.splitlines()
    assert heading == "suggested tolerances for torch.testing.assert_close:"
    assert re.fullmatch(r"  `\w+` of double \(float32\): rtol=[\de.-]+, atol=[\de.-]+", output)
    assert reason.startswith("    largest error 0 ulp: ")
    assert summary == "1 note in 1 kernel, 1 launch"
    unasked = ttools("sanitize", "--check", "accuracy", buggy, "double")
    assert "tolerances" not in unasked.stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "tolerances are only suggested by the check `accuracy`: add it to the checks"),
        (
            ("--check", "accuracy", "--format", "sarif"),
            "--suggest-tolerance needs one of the formats text, markdown, json, html, not sarif",
        ),
        (("--on", "gpu"), "--suggest-tolerance applies only to the CPU"),
    ],
)
def test_tolerances_that_cannot_be_suggested(
    ttools: Run, buggy: str, options: tuple[str, ...], sentence: str
) -> None:
    result = ttools("sanitize", "--suggest-tolerance", *options, buggy, "double")
    assert (result.returncode, result.stdout) == (2, "")
    assert sentence in result.stderr


def test_the_range_of_results_of_a_gpu(ttools: Run, buggy: str) -> None:
    command = ("sanitize", "--check", "accuracy", "--accuracy-range")
    result = ttools(*command, "h100", buggy, "double")
    assert result.returncode == 0, result.stderr
    heading = "results that h100 may compute (estimated to first order):"
    assert heading in result.stdout.splitlines()
    result = ttools(*command, "h100", "--format", "sarif", buggy, "double")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--accuracy-range needs one of the formats text, markdown, json" in result.stderr


def test_only_selected_checks_run(ttools: Run, buggy: str) -> None:
    assert ttools("sanitize", "--check", "racecheck", buggy).returncode == 0
    assert FINDING in ttools("sanitize", "--check", "racecheck,asan", buggy).stdout


# --- .ttir files ------------------------------------------------------------------------------


def test_ttir_file(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "kernel.ttir").write_text(
        """\
module {
  tt.func public @copy(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
    %o = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %o : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %v = tt.load %xp : tensor<64x!tt.ptr<f32>>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %yp = tt.addptr %ys, %o : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %yp, %v : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
"""
    )
    arguments = ("kernel.ttir", "--arg", "x=rand:f32[60]", "--arg", "y=zeros:f32[64]")
    result = ttools("sanitize", *arguments)
    assert result.returncode == 1, result.stderr
    assert (
        "error[oob_load]: out-of-bounds load of 4 bytes from `x`" in result.stdout.splitlines()[0]
    )
    assert "4 lanes in 1 program are affected" in result.stdout


UNWRITTEN = """\
import torch
import triton
import triton.language as tl


@triton.jit
def add_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x + 1, mask=offs < n)


read, kept = torch.empty(1000), torch.empty(3, 20)
add_one[(1000 // 64,)](torch.ones(1000), read, 1000, BLOCK=64)
print(bool(torch.isnan(read).any()))
add_one[(1,)](torch.ones(60), kept, 50, BLOCK=64)
"""


def test_outputs_of_a_ttir_file_that_no_program_writes(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "unwritten.py").write_text(UNWRITTEN)
    result = ttools("sanitize", "--poison", "unwritten.py")
    assert result.returncode == 1
    golden = """\
True
unwritten.py:10:5: error[unwritten_output]: 40 of 1,000 elements of `out_ptr`
  were never written, and the host reads them at line 15
   10 |     tl.store(out_ptr + offs, x + 1, mask=offs < n)
      |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  out_ptr: float32[1000] (4,000 bytes); elements 960 to 999 of 1,000
  grid: (15, 1, 1)
"""
    assert result.stdout.startswith(golden), result.stdout + result.stderr
    assert "  unwritten.py:15: the host reads the tensor here\n" in result.stdout
    assert "   15 | print(bool(torch.isnan(read).any()))\n" in result.stdout
    headline = "warning[unwritten_output]: 10 of 60 elements of `out_ptr`\n  were never written"
    assert headline in result.stdout
    assert "the first by index: [2, 10], [2, 11], [2, 12], …\n" in result.stdout
    assert result.stdout.endswith("1 error, 1 warning in 1 kernel, 2 launches\n")
