"""Tests which frames are skipped on the way to the line that launches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import PYTHON

from ttools.core.ownership import Owner, package_folders
from ttools.core.process.host_line import host_callers, host_line


def _called_by(file: str, **names: Any) -> str | None:
    """The host's line as code of such a file and module sees it, which is called from here."""
    scope: dict[str, Any] = {"host_line": host_line, **names}
    exec(compile("found = host_line()", file, "exec"), scope)
    found = scope["found"]
    return None if found is None else str(found)


def test_the_user_s_code_has_it() -> None:
    assert _called_by("script.py", __name__="__main__") == "script.py:1"
    assert _called_by("<string>", __name__="__main__") == "<string>:1"


def _file_of(owner: Owner, name: str = "a_module.py") -> str:
    """A file that an owner's package could have."""
    return str(Path(package_folders(owner)[0], name))


@pytest.mark.parametrize("owner", ["torch", "triton", "ttools"])
def test_libraries_do_not(owner: Owner, tmp_path: Path) -> None:
    pytest.importorskip(owner)
    found = _called_by(_file_of(owner), __name__=f"{owner}.a_module")
    assert found is not None
    assert found.startswith(__file__)
    for folder in (tmp_path / owner, tmp_path / "site-packages" / owner):
        file = f"{folder}/a_module.py"
        host_line()  # forgets the place of the latest launch, which is looked at first
        assert _called_by(file, __name__=f"{owner}.a_module") == f"{file}:1"


@pytest.mark.parametrize("file", ["<string>", "<eval_with_key>.7", "torch"])
def test_what_torch_compile_has_written_does_not(file: str) -> None:
    """Such code has no module; AOTAutograd names files of torch's own."""
    if file == "torch":
        pytest.importorskip("torch")
        file = _file_of("torch", "_functorch/codegen(call)")
    found = _called_by(file, __name__="")
    assert found is not None
    assert found.startswith(__file__)


def test_launches_in_turns_have_lines_of_their_own() -> None:
    """The latest is looked for first: from the same place, elsewhere in it, further in and out."""
    source = """
def one(): return host_line()
def two(deeper=None): return host_line() if deeper is None else deeper()
def both(): return [one(), two(), two(one), two(), one()]
found = both(), [one() for _ in range(3)], host_line(), [
    one(),
    one(),
]
"""
    scope: dict[str, Any] = {"host_line": host_line, "__name__": "__main__"}
    exec(compile(source, "script.py", "exec"), scope)
    one, two = "script.py:2", "script.py:3"
    assert scope["found"] == ([one, two, one, two, one], [one] * 3, "script.py:5", [one] * 2)


def test_one_line_further_on_in_the_same_function() -> None:
    source = "def each():\n    return [\n        host_line(),\n        host_line(),\n    ]\n"
    scope: dict[str, Any] = {"host_line": host_line, "__name__": "__main__"}
    exec(compile(f"{source}found = each(), each()", "script.py", "exec"), scope)
    assert scope["found"] == (["script.py:3", "script.py:4"],) * 2


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


def test_nothing_of_the_caller_is_kept() -> None:
    """A frame that refers to itself would keep a program's tensors until the next collection."""
    done = PYTHON.run(["-c", FIRST])
    assert (done.stdout, done.stderr) == ("10 None\n10 None\n", "")


def _nested(depth: int, file: str = "script.py") -> tuple[str, ...]:
    """The callers that a launch sees in code which so many functions of one file wrap."""
    lines = ["def f0():", "    return host_callers()"]
    for n in range(1, depth):
        lines += [f"def f{n}():", f"    return f{n - 1}()"]
    scope: dict[str, Any] = {"host_callers": host_callers, "__name__": "__main__"}
    exec(compile("\n".join([*lines, f"found = f{depth - 1}()"]), file, "exec"), scope)
    return tuple(scope["found"])


def test_the_callers_of_the_line() -> None:
    inner, outer, here, *_ = _nested(2)
    assert (inner, outer) == ("script.py:4", "script.py:5")
    assert here.startswith(__file__)


def test_who_runs_tests_and_programs_is_left_out() -> None:
    assert all(__file__ in caller or "script.py" in caller for caller in _nested(3))


def test_of_many_callers_the_ends_are_kept() -> None:
    found = _nested(20)
    assert found[:4] == tuple(f"script.py:{line}" for line in (4, 6, 8, 10))
    assert len(found) == 5
    assert found[-1].startswith(__file__)


def test_callers_in_libraries_are_skipped() -> None:
    pytest.importorskip("torch")
    file = _file_of("torch")
    assert all(not caller.startswith(f"{file}:") for caller in _nested(3, file))
