"""Tests of tracebacks of failing launches, which show the lines of the script, then the error."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

from ttools.core.errors import KernelError
from ttools.core.ownership import Owner, owner_of_file, package_folders
from ttools.core.process.launch_frames import hide_launch_frames

pytest.importorskip("torch", reason="torch is not installed")  # the scripts import it

SCRIPT = """\
import sys
import torch
import triton
import triton.language as tl


@triton.jit
def inner(v):
    return v & 1.5


@triton.jit
def mistaken(x_ptr, N: tl.constexpr):
    v = tl.load(x_ptr + tl.arange(0, N))
    tl.store(x_ptr + tl.arange(0, N), inner(v))


@triton.jit
def asserting(x_ptr, N: tl.constexpr):
    v = tl.load(x_ptr + tl.arange(0, N))
    tl.device_assert(v > 0, "positive")
    tl.store(x_ptr + tl.arange(0, N), v)


def grid(meta):
    raise ValueError("no such grid")


def main(kind):
    x = torch.zeros(8)
    if kind == "compiler":
        mistaken[(1,)](x, N=8)
    if kind == "kernel":
        asserting[(1,)](x, N=8, debug=True)
    if kind == "grid":
        asserting[grid](x, N=8)
    if kind == "argument":
        asserting[(1,)](x)


main(sys.argv[1])
"""
FRAME = re.compile(r'File "([^"]+)", line \d+, in (.+)')


def frames(folder: Path, *options: str, kind: str) -> tuple[list[tuple[str, str]], str]:
    """Run the script; return the file and function of each frame that is shown, and the output."""
    (folder / "script.py").write_text(textwrap.dedent(SCRIPT))
    completed = PYTHON.run(
        ["-m", "ttools_entry", "interpret", *options, "script.py", kind], cwd=folder
    )
    assert completed.returncode == 1
    return [
        (Path(file).name, name) for file, name in FRAME.findall(completed.stderr)
    ], completed.stderr


LAUNCH = [("script.py", "<module>"), ("script.py", "main")]
EAGER = ("--engine", "eager")


@pytest.mark.parametrize(
    ("kind", "options", "inside"),
    [
        ("compiler", (), []),
        ("compiler", EAGER, [("script.py", "mistaken"), ("script.py", "inner")]),
        ("kernel", (), []),
        ("kernel", EAGER, [("script.py", "asserting")]),
        ("grid", (), [("script.py", "grid")]),
        ("grid", EAGER, [("script.py", "grid")]),
    ],
)
def test_only_frames_of_the_script_are_shown(
    tmp_path: Path, kind: str, options: tuple[str, ...], inside: list[tuple[str, str]]
) -> None:
    shown, text = frames(tmp_path, *options, kind=kind)
    assert shown == LAUNCH + inside
    expected = {
        "compiler": "return v & 1.5",
        "kernel": 'tl.device_assert(v > 0, "positive")',
        "grid": "ValueError: no such grid",
    }
    assert expected[kind] in text


def test_errors_of_triton_show_its_frames(tmp_path: Path) -> None:
    shown, text = frames(tmp_path, kind="argument")
    assert shown[: len(LAUNCH)] == LAUNCH
    assert shown[-1][0] == "jit.py"
    assert all(owner_of_file(file) != "ttools" for file, _ in FRAME.findall(text))
    assert "missing 1 required positional argument: 'N'" in text


def function_of(package: str, body: str, **names: object) -> object:
    """Return a function in a file of a package.

    Args:
        package: `user`, `ttools`, `triton`, `torch` or `python`.
        body: Statement that the function runs.
        names: Variables of the statement.
    """
    owners: dict[str, Owner] = {
        "ttools": "ttools",
        "triton": "triton",
        "torch": "torch",
        "python": "python",
    }
    folder = package_folders(owners[package])[0] if package in owners else "/x/triton/ttools"
    scope = {"__name__": f"{package}.module", **names}
    exec(compile(f"def call():\n    {body}", f"{folder}/module.py", "exec"), scope)
    return scope["call"]


def packages_of(error: BaseException) -> list[str]:
    names, entry = [], error.__traceback__
    while entry is not None:
        names.append(entry.tb_frame.f_globals["__name__"].partition(".")[0])
        entry = entry.tb_next
    return names[1:]  # without the frame of the test


def raised(error: Exception, *packages: str) -> Exception:
    """Raise an error in the innermost of nested functions, one per package, and return it."""
    function = function_of(packages[-1], "raise error", error=error)
    for package in reversed(packages[:-1]):
        function = function_of(package, "function()", function=function)
    try:
        function()  # type: ignore[operator]
    except Exception as caught:  # noqa: BLE001
        return caught
    raise AssertionError


@pytest.mark.parametrize(
    ("packages", "of_python", "of_ours"),
    [
        # Frames of ttools are shown if ttools raises the error, and hidden if it only passes it on.
        (["user", "triton", "ttools"], ["user", "triton", "ttools"], ["user"]),
        (["user", "ttools", "triton"], ["user", "triton"], ["user"]),
        (["user", "ttools", "user", "ttools"], ["user", "user", "ttools"], ["user", "user"]),
        (["user", "triton", "torch"], ["user", "torch"], ["user", "torch"]),
        (["user", "ttools", "python"], ["user", "ttools", "python"], ["user"]),
        (
            ["user", "python", "user", "ttools"],
            ["user", "python", "user", "ttools"],
            ["user", "python", "user"],
        ),
    ],
)
def test_hidden_frames(packages: list[str], of_python: list[str], of_ours: list[str]) -> None:
    for error, kept in ((KeyError("x"), of_python), (KernelError("x"), of_ours)):
        caught = raised(error, *packages)
        hide_launch_frames(caught)
        assert packages_of(caught) == kept


def test_causes_that_the_user_sets_are_kept() -> None:
    outer, inner = KernelError("x"), raised(ValueError("y"), "ttools", "user")
    outer.__cause__ = inner
    hide_launch_frames(outer)
    assert outer.__cause__ is inner
    outer.__cause__ = inner.__cause__ = outer  # a cycle of causes
    hide_launch_frames(outer)
