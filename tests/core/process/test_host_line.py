"""Tests of the search for the line of the user's code that launches a kernel, and its callers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import PYTHON

from ttools.core.ownership import Owner, package_folders
from ttools.core.process.host_line import host_callers, host_line


def _called_by(file: str, **names: Any) -> str | None:
    """Return the host line that is found by code of the given file and module, called from here."""
    scope: dict[str, Any] = {"host_line": host_line, **names}
    exec(compile("line = host_line()", file, "exec"), scope)
    line = scope["line"]
    return None if line is None else str(line)


def test_lines_of_users_are_found() -> None:
    assert _called_by("script.py", __name__="__main__") == "script.py:1"
    assert _called_by("<string>", __name__="__main__") == "<string>:1"


def _file_of(owner: Owner, name: str = "a_module.py") -> str:
    """Return the path of a file in the folder of a package."""
    return str(Path(package_folders(owner)[0], name))


@pytest.mark.parametrize("owner", ["torch", "triton", "ttools"])
def test_lines_of_libraries_are_skipped(owner: Owner, tmp_path: Path) -> None:
    pytest.importorskip(owner)
    line = _called_by(_file_of(owner), __name__=f"{owner}.a_module")
    assert line is not None
    assert line.startswith(__file__)
    for folder in (tmp_path / owner, tmp_path / "site-packages" / owner):
        file = f"{folder}/a_module.py"
        host_line()  # overwrites the cached position of the latest launch
        assert _called_by(file, __name__=f"{owner}.a_module") == f"{file}:1"


@pytest.mark.parametrize("file", ["<string>", "<eval_with_key>.7", "torch"])
def test_code_generated_by_torch_compile_is_skipped(file: str) -> None:
    """Check code without a module name; AOTAutograd compiles code with names of torch's files."""
    if file == "torch":
        pytest.importorskip("torch")
        file = _file_of("torch", "_functorch/codegen(call)")
    line = _called_by(file, __name__="")
    assert line is not None
    assert line.startswith(__file__)


def test_alternating_launches_have_different_lines() -> None:
    """Launch alternately from several lines and depths, so that the cached position is wrong."""
    source = """
def one(): return host_line()
def two(deeper=None): return host_line() if deeper is None else deeper()
def both(): return [one(), two(), two(one), two(), one()]
lines = both(), [one() for _ in range(3)], host_line(), [
    one(),
    one(),
]
"""
    scope: dict[str, Any] = {"host_line": host_line, "__name__": "__main__"}
    exec(compile(source, "script.py", "exec"), scope)
    one, two = "script.py:2", "script.py:3"
    assert scope["lines"] == ([one, two, one, two, one], [one] * 3, "script.py:5", [one] * 2)


def test_two_lines_of_one_function() -> None:
    source = "def both():\n    return [\n        host_line(),\n        host_line(),\n    ]\n"
    scope: dict[str, Any] = {"host_line": host_line, "__name__": "__main__"}
    exec(compile(f"{source}lines = both(), both()", "script.py", "exec"), scope)
    assert scope["lines"] == (["script.py:3", "script.py:4"],) * 2


FIRST = """
import gc, weakref
from ttools.core.process.host_line import host_line
gc.disable()

class Tensor:
    pass

def launch(tensor):
    return host_line(), weakref.ref(tensor)

for _ in range(2):
    line, tensor = launch(Tensor())
    print(line.rpartition(":")[2], tensor())
"""


def test_variables_of_the_caller_are_freed() -> None:
    """Check that no frame refers to itself and keeps tensors until the next garbage collection."""
    completed = PYTHON.run(["-c", FIRST])
    assert (completed.stdout, completed.stderr) == ("10 None\n10 None\n", "")


def _nested(depth: int, file: str = "script.py") -> tuple[str, ...]:
    """Return the callers of a launch that is inside `depth` nested functions of one file."""
    lines = ["def f0():", "    return host_callers()"]
    for n in range(1, depth):
        lines += [f"def f{n}():", f"    return f{n - 1}()"]
    scope: dict[str, Any] = {"host_callers": host_callers, "__name__": "__main__"}
    exec(compile("\n".join([*lines, f"callers = f{depth - 1}()"]), file, "exec"), scope)
    return tuple(scope["callers"])


def test_the_callers_of_the_line() -> None:
    inner, outer, here, *_ = _nested(2)
    assert (inner, outer) == ("script.py:4", "script.py:5")
    assert here.startswith(__file__)


def test_test_runners_are_omitted_from_callers() -> None:
    assert all(__file__ in caller or "script.py" in caller for caller in _nested(3))


def test_the_middle_of_many_callers_is_omitted() -> None:
    callers = _nested(20)
    assert callers[:4] == tuple(f"script.py:{line}" for line in (4, 6, 8, 10))
    assert len(callers) == 5
    assert callers[-1].startswith(__file__)


def test_callers_in_libraries_are_skipped() -> None:
    pytest.importorskip("torch")
    file = _file_of("torch")
    assert all(not caller.startswith(f"{file}:") for caller in _nested(3, file))
