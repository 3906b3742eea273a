"""What a failing script shows of a launch: its own lines, then what the error itself says."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

from ttools.core.errors import KernelError
from ttools.core.process.launch_frames import hide_launch_frames

pytest.importorskip("torch", reason="torch is not installed")  # the scripts need it

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
    """File and function of each frame that is shown, and all that is."""
    (folder / "script.py").write_text(textwrap.dedent(SCRIPT))
    done = PYTHON.run(["-m", "ttools_entry", "interpret", *options, "script.py", kind], cwd=folder)
    assert done.returncode == 1
    return [(Path(file).name, name) for file, name in FRAME.findall(done.stderr)], done.stderr


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
    said = {
        "compiler": "return v & 1.5",
        "kernel": 'tl.device_assert(v > 0, "positive")',
        "grid": "ValueError: no such grid",
    }
    assert said[kind] in text


def test_what_triton_itself_raises_shows_where_in_triton(tmp_path: Path) -> None:
    shown, text = frames(tmp_path, kind="argument")
    assert shown[: len(LAUNCH)] == LAUNCH
    assert shown[-1][0] == "jit.py"
    assert "ttools/" not in text
    assert "missing 1 required positional argument: 'N'" in text


def calling(module: str, function: object) -> object:
    """A function of a module of that name, which calls another."""
    scope = {"__name__": module, "function": function}
    exec("def call():\n    function()", scope)
    return scope["call"]


def names_of(error: BaseException) -> list[str]:
    names, entry = [], error.__traceback__
    while entry is not None:
        names.append(entry.tb_frame.f_globals["__name__"])
        entry = entry.tb_next
    return names[1:]  # without the test


def raised(error: Exception, *modules: str) -> Exception:
    """The error, raised in the last of nested calls of functions of modules."""
    scope = {"__name__": modules[-1], "error": error}
    exec("def call():\n    raise error", scope)
    function = scope["call"]
    for module in reversed(modules[:-1]):
        function = calling(module, function)
    try:
        function()  # type: ignore[operator]
    except Exception as caught:  # noqa: BLE001
        return caught
    raise AssertionError


@pytest.mark.parametrize(
    ("modules", "of_python", "of_ours"),
    [
        # A defect of ours shows where it is; what only led to others is left out.
        (["user", "triton.a", "ttools.b"], ["user", "triton.a", "ttools.b"], ["user"]),
        (["user", "ttools.a", "triton.b"], ["user", "triton.b"], ["user"]),
        (["user", "ttools.a", "user", "ttools.b"], ["user", "user", "ttools.b"], ["user", "user"]),
        (["user", "triton.a", "torch"], ["user", "torch"], ["user", "torch"]),
    ],
)  # fmt: skip
def test_which_frames_are_left_out(
    modules: list[str], of_python: list[str], of_ours: list[str]
) -> None:
    for error, kept in ((KeyError("x"), of_python), (KernelError("x"), of_ours)):
        caught = raised(error, *modules)
        hide_launch_frames(caught)
        assert names_of(caught) == kept


def test_causes_of_the_users_are_kept() -> None:
    outer, inner = KernelError("x"), raised(ValueError("y"), "ttools.a", "user")
    outer.__cause__ = inner
    hide_launch_frames(outer)
    assert outer.__cause__ is inner
    outer.__cause__ = inner.__cause__ = outer  # a circle ends
    hide_launch_frames(outer)
