"""Streams, disks and limits that are not as they should be: a sentence, and no traceback."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ttools.cli import console
from ttools.cli.exit_codes import exhaustion
from ttools.core.errors import UsageError

pytest.importorskip("torch", reason="torch is not installed")  # the scripts need it

SCRIPT = """\
import torch, triton, triton.language as tl
@triton.jit
def add_one(x_ptr, N: tl.constexpr):
    offsets = tl.arange(0, N)
    x = tl.load(x_ptr + offsets)
    tl.store(x_ptr + offsets, x + 1)
x = torch.ones(4)
add_one[(1,)](x, N=4)
assert (x == 2).all()
"""
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make a small disk")


def started(
    words: str,
    folder: Path,
    redirections: str = "",
    before: str = "",
    script: str = SCRIPT,
    **variables: str,
) -> tuple[int, str]:
    """Status and standard error of a command that a shell starts."""
    (folder / "script.py").write_text(script)
    command = f"{before} exec {sys.executable} -m ttools_entry {words} </dev/null {redirections}"
    errors = folder / "errors.txt"
    with errors.open("w") as stream:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={**os.environ, **variables},
            stdout=subprocess.DEVNULL,
            stderr=stream,
            check=False,
            timeout=200,
        )
    return done.returncode, errors.read_text()


@pytest.mark.parametrize("command", ["sanitize script.py", "profile script.py", "doctor", "cache"])
@pytest.mark.parametrize(
    ("redirection", "reason"),
    [(">/dev/full", "to standard output: No space left on device"), (">&-", "is closed")],
)
def test_a_report_that_nobody_takes(
    tmp_path: Path, command: str, redirection: str, reason: str
) -> None:
    status, errors = started(command, tmp_path, redirection)
    assert status == 2
    assert errors.splitlines()[-1].startswith("error: cannot write the report")
    assert reason in errors
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors


@pytest.mark.parametrize("redirections", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_do_not_matter_to_a_run_without_a_report(
    tmp_path: Path, redirections: str
) -> None:
    """What the kernel prints goes nowhere, and into no file that is opened meanwhile."""
    printing = SCRIPT.replace("    tl.store", '    tl.device_print("x ", x)\n    tl.store')
    words = "--quiet interpret --stats --format json --output stats.json script.py"
    status, errors = started(words, tmp_path, redirections, script=printing)
    assert (status, errors) == (0, "")
    assert "pid" not in (tmp_path / "stats.json").read_text()


def test_help_for_a_full_device(tmp_path: Path) -> None:
    status, errors = started("--version", tmp_path, ">/dev/full")
    assert status == 2
    assert errors == (
        "error: the system refuses to go on: No space left on device; make room on that disk\n"
    )


def test_a_umask_that_denies_the_owner(tmp_path: Path) -> None:
    status, errors = started("interpret script.py", tmp_path, before="umask 777;")
    assert status == 2
    assert "run `umask 077` first" in errors
    assert started("interpret script.py", tmp_path, before="umask 077;")[0] == 0


@needs_root
def test_a_full_disk_of_triton_s_cache(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(disk), b"tmpfs", 0, b"size=64k") != 0:
        pytest.skip("file systems cannot be mounted here")
    try:
        words = "inspect --target sm_90 script.py"
        where = {"TRITON_CACHE_DIR": str(disk / "triton"), "TTOOLS_CACHE_DIR": str(disk / "own")}
        status, errors = started(words, tmp_path, **where)
    finally:
        libc.umount2(os.fsencode(disk), 2)
    assert status == 0, errors
    assert "Triton cannot write to its cache" in errors
    assert "No space left on device" in errors
    assert "Traceback" not in errors


def test_what_a_machine_lacks() -> None:
    full = exhaustion(OSError(errno.ENOSPC, "No space left on device", "/x y"))
    assert str(full) == (
        "the system refuses to go on for `/x y`: No space left on device; make room on that disk"
    )
    assert "ulimit -u" in str(exhaustion(RuntimeError("can't start new thread")))
    assert "ulimit -u" in str(exhaustion(BlockingIOError(errno.EAGAIN, "unavailable")))
    assert exhaustion(FileNotFoundError(errno.ENOENT, "none")) is None
    assert exhaustion(RuntimeError("something else")) is None


def test_output_that_is_dropped_ends_in_silence() -> None:
    """Python would write what a stream holds once more at its end."""
    with Path("/dev/full").open("w") as stream:
        with pytest.raises(UsageError, match="No space left on device"):
            console.write_text("text", None, stream)
        stream.write("more")
        stream.flush()
