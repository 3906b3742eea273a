"""`ttools sanitize`: streams, exit statuses, formats, suppression, and runs without launches."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.sanitize.buggy_script import BUGGY, FINDING, NO_LAUNCH, SUMMARY
from tests.forked_python import PYTHON

Run = Callable[..., "subprocess.CompletedProcess[str]"]

# --- text, and who writes where ------------------------------------------------------------------


def test_finding_follows_the_output_of_the_script(ttools: Run, buggy: str) -> None:
    done = ttools("sanitize", buggy)
    assert done.returncode == 1
    assert done.stdout.startswith(f"right: True\n{FINDING}"), done.stderr
    assert "  x_ptr: float32[1000] (4,000 bytes); the access begins at its end\n" in done.stdout
    assert "  launched from buggy.py:27; 24 lanes in 1 program are affected\n" in done.stdout
    assert "  help: mask the load" in done.stdout
    assert done.stdout.endswith(f"\n\n{SUMMARY}\n")
    assert done.stderr == ""


def test_clean_script(ttools: Run, buggy: str) -> None:
    done = ttools("sanitize", buggy, "double")
    assert (done.stdout, done.stderr) == ("no finding in 1 kernel, 1 launch\n", "")
    assert done.returncode == 0


@pytest.mark.parametrize("form", [("-m", "buggy"), ("-c", "import buggy")])
def test_module_and_code(ttools: Run, buggy: str, form: tuple[str, ...]) -> None:
    done = ttools("sanitize", *form)
    assert FINDING in done.stdout
    assert done.returncode == 1


def test_code_of_the_command_line_has_excerpts(ttools: Run) -> None:
    done = ttools("sanitize", "-c", BUGGY)
    assert "<string>:10:9: error[memcheck]" in done.stdout
    assert "\n   10 |     x = tl.load(x_ptr + offs)\n" in done.stdout


def test_script_may_read_its_own_options(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text("import sys; print(sys.argv[1:])")
    done = ttools("sanitize", "--fail-on", "note", "show.py", "--format", "json", "--check")
    assert done.stdout == f"['--format', 'json', '--check']\n{NO_LAUNCH}\n"


def test_pytest_as_module(ttools: Run, buggy: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    import buggy\n")
    done = ttools("sanitize", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    assert "1 passed" in done.stdout
    assert FINDING in done.stdout
    assert done.returncode == 1


@pytest.mark.slow
def test_tests_in_other_processes_are_checked(ttools: Run, buggy: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    import buggy\n")
    done = ttools("sanitize", "-m", "pytest", "-q", "-n", "1", "test_it.py")
    assert "1 passed" in done.stdout, done.stdout
    assert FINDING in done.stdout
    assert done.returncode == 1
    assert "warning" not in done.stderr
    assert "PytestAssertRewriteWarning" not in done.stdout


def test_upstream_interpreter_gives_way(ttools: Run, buggy: str) -> None:
    done = ttools("sanitize", buggy, TRITON_INTERPRET="1")
    assert FINDING in done.stdout
    assert "TRITON_INTERPRET is set; it is unset for this run, ttools sanitizes" in done.stderr


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
            except OSError:  # Linux: the other end is closed
                break
            if not chunk:
                break
            written += chunk
        os.close(leader)
        process.wait()
        return written.decode().replace("\r\n", "\n")

    coloured = on_terminal()
    assert "\x1b[1;31merror[memcheck]:\x1b[0m" in coloured
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
def test_status_of_a_failing_script_comes_first(
    ttools: Run, tmp_path: Path, ending: str, status: int
) -> None:
    (tmp_path / "buggy.py").write_text(f"{BUGGY}\n{ending}\n")
    done = ttools("sanitize", "buggy.py")
    assert done.returncode == status
    assert FINDING in done.stdout
    assert ("ValueError: mine" in done.stderr) == ("ValueError" in ending)


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
def test_severity_from_which_a_run_fails(
    ttools: Run, tmp_path: Path, options: tuple[str, ...], status: int
) -> None:
    view = BUGGY.replace("x = torch.arange(n, ", "x = torch.arange(2048, ").replace(
        "out = torch.full_like(x, -1)", "x = x[:n]; out = torch.full_like(x, -1)"
    )
    (tmp_path / "view.py").write_text(view)
    done = ttools("sanitize", *options, "view.py")
    assert done.returncode == status, done.stdout
    assert ("[memcheck]" in done.stdout) == ("off" not in options)


def test_failure_of_ttools_keeps_what_was_found(ttools: Run, tmp_path: Path) -> None:
    failing = "from ttools.core.errors import UnsupportedError\nraise UnsupportedError('cats')"
    (tmp_path / "buggy.py").write_text(f"{BUGGY}\n{failing}\n")
    done = ttools("sanitize", "buggy.py")
    assert done.returncode == 3
    assert FINDING in done.stdout
    assert "unsupported: cats" in done.stderr


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
        (("--all-configs", "--first-config", "buggy.py"), "exclude each other"),
    ],
)
def test_wrong_use(
    called_ttools: Run, buggy: str, arguments: tuple[str, ...], sentence: str
) -> None:
    done = called_ttools("sanitize", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert "right" not in done.stdout


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


def test_all_configs_names_those_that_fail(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "tuned.py").write_text(TUNED)
    assert ttools("sanitize", "tuned.py").returncode == 0
    done = ttools("sanitize", "--all-configs", "--format", "json", "--output", "r.json", "tuned.py")
    assert (done.returncode, done.stdout) == (1, "right: True\n")
    findings = json.loads((tmp_path / "r.json").read_text())["findings"]
    assert {f["kind"] for f in findings} == {"oob_load", "oob_store"}
    assert all([c["BLOCK"] for c in f["configs"]] == [32, 64] for f in findings)


# --- programs that leave in their own way -------------------------------------------------------


@pytest.mark.parametrize(("status", "ours"), [(0, 1), (5, 5)])
def test_hard_exit_does_not_lose_the_report(
    ttools: Run, buggy: str, tmp_path: Path, status: int, ours: int
) -> None:
    (tmp_path / "hard.py").write_text(f"import os, buggy\nos.chdir('/')\nos._exit({status})\n")
    done = ttools("sanitize", "--format", "json", "--output", "report.json", "hard.py")
    assert done.returncode == ours, done.stderr
    data = json.loads((tmp_path / "report.json").read_text())
    assert (data["script"]["exit_code"], len(data["findings"])) == (status, 1)


def test_program_may_go_to_another_folder(ttools: Run, buggy: str, tmp_path: Path) -> None:
    (tmp_path / "away.py").write_text("import os, buggy\nos.chdir('/')\n")
    (tmp_path / "rules.toml").write_text('[[suppress]]\nkind = "race"\nreason = "none"\n')
    done = ttools("sanitize", "--suppressions", "rules.toml", "--output", "found.txt", "away.py")
    assert "see found.txt" in done.stderr
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
    done = ttools("sanitize", "forks.py")
    assert FINDING in done.stdout
    assert (done.stdout.count("error[memcheck]"), done.returncode) == (1, 1)
    assert done.stderr == ""


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
    done = ttools("sanitize", "failing.py")
    unchecked = "no launch was checked to its end: `never` (launch 1: run failed after "
    assert done.stdout.startswith(unchecked)
    assert done.stderr.count("device_assert") >= 1
    assert done.returncode == 0


# --- runs without launches --------------------------------------------------------------------


def test_run_without_launches_says_so(ttools: Run) -> None:
    done = ttools("sanitize", "-c", "pass")
    assert (done.stdout, done.returncode) == (f"{NO_LAUNCH}\n", 0)


def test_required_launches(ttools: Run, buggy: str) -> None:
    done = ttools("sanitize", "--require-launches", "-c", "pass")
    assert done.returncode == 1
    assert f"error: {NO_LAUNCH} (--require-launches)" in done.stderr
    assert ttools("sanitize", "--require-launches", buggy, "double").returncode == 0


def test_only_named_kernels_are_checked(ttools: Run, buggy: str) -> None:
    done = ttools("sanitize", "--only", "double", buggy)
    none = "no Triton kernel of those chosen was launched, so nothing was checked"
    assert done.stdout == f"right: True\n{none}\n"
    assert ttools("sanitize", "--only", "add_one", buggy).returncode == 1


def test_name_of_no_kernel_is_told(ttools: Run, buggy: str) -> None:
    done = ttools("sanitize", "--only", "add_on", "--only", "double", buggy, "double")
    assert done.stderr == "warning: no kernel `add_on` was launched (--only)\n"


def test_only_chosen_checks_are_made(ttools: Run, buggy: str) -> None:
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
    done = ttools("sanitize", *arguments)
    assert done.returncode == 1, done.stderr
    assert "error[memcheck]: out-of-bounds load of 4 bytes from `x`" in done.stdout.splitlines()[0]
    assert "4 lanes in 1 program are affected" in done.stdout


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


def test_outputs_that_no_program_writes(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "unwritten.py").write_text(UNWRITTEN)
    done = ttools("sanitize", "--poison", "unwritten.py")
    assert done.returncode == 1
    golden = """\
True
unwritten.py:10:5: error[initcheck]: 40 of 1,000 elements of `out_ptr` were never written, \
and the host reads them at line 15
   10 |     tl.store(out_ptr + offs, x + 1, mask=offs < n)
      |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  out_ptr: float32[1000] (4,000 bytes); elements 960 to 999 of 1,000
  grid: (15, 1, 1)
"""
    assert done.stdout.startswith(golden), done.stdout + done.stderr
    assert "  unwritten.py:15: the host reads it here\n" in done.stdout
    assert "   15 | print(bool(torch.isnan(read).any()))\n" in done.stdout
    assert "warning[initcheck]: 10 of 60 elements of `out_ptr` were never written" in done.stdout
    assert "the first by index: [2, 10], [2, 11], [2, 12], …\n" in done.stdout
    assert done.stdout.endswith("1 error, 1 warning in 1 kernel, 2 launches\n")
