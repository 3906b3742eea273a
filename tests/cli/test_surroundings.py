"""Closed streams, full disks, low limits and faulty scripts end in a sentence, not a traceback."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest
from tests.forked_python import PYTHON

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
    """Return the status and the standard error of a command that a shell starts."""
    (folder / "script.py").write_text(script)
    command = (
        f"{before} exec {quote(sys.executable)} -m ttools_entry {words} </dev/null {redirections}"
    )
    errors = folder / "errors.txt"
    with errors.open("w") as stream:
        result = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={**os.environ, **variables},
            stdout=subprocess.DEVNULL,
            stderr=stream,
            check=False,
            timeout=200,
        )
    return result.returncode, errors.read_text()


#: Reasons why a report cannot be written, by the redirection of standard output.
REASONS = {">/dev/full": "to standard output: No space left on device", ">&-": "is closed"}


@pytest.mark.parametrize(
    ("command", "redirection"),
    [
        ("cache", ">/dev/full"),
        ("cache", ">&-"),
        ("sanitize script.py", ">/dev/full"),
        pytest.param("sanitize script.py", ">&-", marks=pytest.mark.slow),
        *(
            pytest.param(command, redirection, marks=pytest.mark.slow)
            for command in ("profile script.py", "doctor")
            for redirection in REASONS
        ),
    ],
)
def test_a_report_that_cannot_be_written(tmp_path: Path, command: str, redirection: str) -> None:
    status, errors = started(command, tmp_path, redirection)
    assert status == 2
    assert errors.splitlines()[-1].startswith("error: cannot write the report")
    assert REASONS[redirection] in errors
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors


@pytest.mark.parametrize(
    "redirections",
    [">&- 2>&-", *(pytest.param(r, marks=pytest.mark.slow) for r in (">&-", "2>&-"))],
)
def test_runs_without_a_report_accept_closed_streams(tmp_path: Path, redirections: str) -> None:
    """Check that the kernel's output is discarded, not written to a file opened meanwhile."""
    printing = SCRIPT.replace("    tl.store", '    tl.device_print("x ", x)\n    tl.store')
    words = "--quiet interpret --stats --format json --output stats.json script.py"
    status, errors = started(words, tmp_path, redirections, script=printing)
    assert (status, errors) == (0, "")
    assert "pid" not in (tmp_path / "stats.json").read_text()


def test_help_for_a_full_device(tmp_path: Path) -> None:
    status, errors = started("--version", tmp_path, ">/dev/full")
    assert status == 2
    assert errors == (
        "error: a system call failed: No space left on device; free some space on that disk\n"
    )


def test_a_umask_that_denies_the_owner(tmp_path: Path) -> None:
    status, errors = started("interpret script.py", tmp_path, before="umask 777;")
    assert status == 2
    assert "run `umask 077` first" in errors
    assert started("cache", tmp_path, before="umask 077;")[0] == 0


@needs_root
def test_a_full_disk_with_the_cache_of_triton(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(disk), b"tmpfs", 0, b"size=64k") != 0:
        pytest.skip("file systems cannot be mounted here")
    try:
        words = "inspect --gpu sm_90 script.py"
        where = {"TRITON_CACHE_DIR": str(disk / "triton"), "TTOOLS_CACHE_DIR": str(disk / "own")}
        status, errors = started(words, tmp_path, **where)
    finally:
        libc.umount2(os.fsencode(disk), 2)
    assert status == 0, errors
    assert "Triton cannot write to its cache" in errors
    assert "No space left on device" in errors
    assert "Traceback" not in errors


def test_exhausted_resources_are_described() -> None:
    full = exhaustion(OSError(errno.ENOSPC, "No space left on device", "/x y"))
    assert str(full) == (
        "a system call failed for `/x y`: No space left on device; free some space on that disk"
    )
    assert "ulimit -u" in str(exhaustion(RuntimeError("can't start new thread")))
    assert "ulimit -u" in str(exhaustion(BlockingIOError(errno.EAGAIN, "unavailable")))
    assert exhaustion(FileNotFoundError(errno.ENOENT, "none")) is None
    assert exhaustion(RuntimeError("something else")) is None


def test_dropped_output_is_not_flushed_at_exit() -> None:
    """Drop buffered output, which Python would otherwise write once more when it exits."""
    with Path("/dev/full").open("w") as stream:
        with pytest.raises(UsageError, match="No space left on device"):
            console.write_text("text", None, stream)
        stream.write("more")
        stream.flush()


# ---- errors in a script


def interpreted(folder: Path, script: str, *words: str) -> tuple[int, str]:
    """Return the status and the standard error of `ttools interpret WORDS SCRIPT`."""
    (folder / "given.py").write_text(script)
    result = PYTHON.run(["-m", "ttools_entry", *words, "interpret", "given.py"], cwd=folder)
    return result.returncode, result.stderr


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("", ": `given.py` is empty"),
        ("# a comment\n", ": `given.py` is empty"),
        ('{"a": [1, -2, "x"]}', ": `given.py` is a value, not a program"),
        ("print(1)", ""),
        ("x = 1", ": `given.py` is a value, not a program"),
    ],
)
def test_files_that_are_not_scripts(tmp_path: Path, script: str, what: str) -> None:
    nothing = "note: no Triton kernel was launched, so nothing was interpreted"
    assert interpreted(tmp_path, script) == (0, f"{nothing}{what}\n")


def test_a_device_that_is_not_in_the_map(tmp_path: Path) -> None:
    status, errors = interpreted(
        tmp_path, 'import torch\nx = torch.ones(1, device="cuda:1")\n', "--quiet"
    )
    assert status == 1
    assert "invalid device ordinal 1; the device map has one device, cuda:0" in errors
    assert re.findall(r'File "([^"]+)"', errors) == [str(tmp_path / "given.py")]


@pytest.mark.parametrize(("value", "kind"), [("[1, 2]", "list"), ("'a'", "str"), ("{}", "dict")])
def test_an_argument_that_triton_refuses_is_named(tmp_path: Path, value: str, kind: str) -> None:
    for arguments in (f"x, N={value}", f"x, {value}"):
        script = SCRIPT.replace("N: tl.constexpr", "N").replace("x, N=4", arguments)
        status, errors = interpreted(tmp_path, script.replace("tl.arange(0, N)", "tl.arange(0, 4)"))
        assert status == 1
        wanted = f"argument of type: {kind}; it is passed as `N` of `add_one`"
        assert wanted in errors


@pytest.mark.slow
def test_a_script_that_deletes_temporary_files(tmp_path: Path) -> None:
    cleaning = "import glob, os, tempfile\nfor file in glob.glob(tempfile.gettempdir() + '/*'):\n"
    script = f"{SCRIPT}{cleaning}    os.path.isfile(file) and os.unlink(file)\n"
    (tmp_path / "temporary").mkdir()
    where = {"TMPDIR": str(tmp_path / "temporary")}
    for command in ("interpret", "sanitize", "profile"):
        status, errors = started(f"{command} script.py", tmp_path, script=script, **where)
        assert status == 0, errors
        assert "Traceback" not in errors


@pytest.mark.parametrize(("name", "command"), [("torch", "interpret"), ("mailbox", "profile")])
def test_a_file_beside_the_script_that_hides_a_module(
    tmp_path: Path, name: str, command: str
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / f"{name}.py").write_text("unrelated = 1\n")
    (project / "script.py").write_text(f"import {name}\n{name}.ones(3)\n")
    # Use a new interpreter, which has imported nothing yet.
    words = [sys.executable, "-m", "ttools_entry", command, str(project / "script.py")]
    result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    message, where = result.stderr.splitlines()[-2:]
    # The missing name depends on which code imports the module first.
    assert re.match(rf"error: .*'{name}.*; ", message)
    assert message.endswith(f"; `{project / name}.py` hides `{name}`: rename the file")
    assert re.fullmatch(f"During: running {re.escape(str(project / 'script.py'))}:[12]", where)
    assert "Traceback" not in result.stderr


def test_a_module_that_may_be_intended_is_named_after_the_traceback(tmp_path: Path) -> None:
    """Check that a file that may hide a module on purpose is only mentioned.

    Files that hide modules of the standard library, or of packages such as torch, are errors.
    """
    (tmp_path / "pytest.py").write_text("unrelated = 1\n")
    status, errors = started(
        "interpret script.py", tmp_path, script="import pytest\npytest.main()\n"
    )
    assert status == 1
    assert errors.startswith("Traceback")
    assert f"note: `{tmp_path / 'pytest.py'}` hides `pytest`: rename the file" in errors


@pytest.mark.parametrize(
    "command",
    [
        "interpret --timeout 20",
        pytest.param("sanitize", marks=pytest.mark.slow),
        pytest.param("profile --on cpu", marks=pytest.mark.slow),
    ],
)
def test_a_launch_that_cannot_start_a_thread(tmp_path: Path, command: str) -> None:
    """Reach the limit of processes in the script.

    The superuser has no such limit, so that root starts the script as another user.
    """
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (0, 0))\n"
    at = SCRIPT.index("add_one[")
    (tmp_path / "script.py").write_text(SCRIPT[:at] + limit + SCRIPT[at:])
    words = [sys.executable, "-m", "ttools_entry", *command.split(), "script.py"]
    if os.getuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("there is no setpriv, which starts a program as another user")
        # The limit applies to the real user; the effective user (root) can still read all files.
        words = ["setpriv", "--ruid=54321", "--bounding-set=-sys_resource,-sys_admin", *words]
    result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr
    if result.returncode:
        assert result.returncode == 2
        assert "error: no thread can be started; raise the limit on processes" in result.stderr
        line = SCRIPT[:at].count("\n") + 3
        assert f"During: running {tmp_path / 'script.py'}:{line}" in result.stderr
    else:
        # Without a time limit, the launch continues in the thread that makes it.
        assert command == "profile --on cpu"
