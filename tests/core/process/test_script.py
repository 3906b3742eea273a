"""Tests that scripts behave under `run_target` as under `python`."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ttools.core.errors import KernelError, TtoolsError, UsageError
from ttools.core.process.script import Target, run_target

# Program that runs a target as the command does, for comparison with `python` in a child process.
RUNNER = """
import sys
from ttools.core.errors import TtoolsError
from ttools.core.process.script import Target, run_target
kind, name, *arguments = sys.argv[1:]
raise SystemExit(run_target(Target(kind=kind, name=name, arguments=tuple(arguments))))
"""

FACTS = """
import sys, json, os
main = sys.modules["__main__"]
print(json.dumps({
    "argv": sys.argv,
    "path0": sys.path[0],
    "name": __name__,
    "file": globals().get("__file__"),
    "package": __package__,
    "spec": None if __spec__ is None else [__spec__.name, __spec__.origin, __spec__.parent],
    "loader": type(__loader__).__name__,
    "is_main": main.__dict__ is globals(),
    "builtins": type(__builtins__).__name__,
    "docstring": __doc__,
    "cached": "__cached__" in globals(),
}))
"""


def run_both(
    kind: str, name: str, *arguments: str, cwd: Path
) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
    """Run a target under `python` and under `run_target`; return the two results."""
    runner = cwd / "runner" / "run.py"
    runner.parent.mkdir(exist_ok=True)
    runner.write_text(RUNNER)
    form = {"script": [name], "module": ["-m", name], "code": ["-c", name]}[kind]
    commands = ([*form, *arguments], [str(runner), kind, name, *arguments])
    expected, actual = (
        subprocess.run(
            [sys.executable, *command],
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for command in commands
    )
    return expected, actual


def make_tree(folder: Path) -> None:
    """Write scripts and packages that print their arguments and environment."""
    (folder / "facts.py").write_text(FACTS)
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(FACTS)
    (package / "module.py").write_text(FACTS)
    directory = folder / "directory"
    directory.mkdir()
    (directory / "__main__.py").write_text(FACTS)
    (folder / "link.py").symlink_to(directory / "__main__.py")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("script", "facts.py"),
        ("script", "./directory/../facts.py"),
        ("script", "link.py"),
        ("script", "directory"),
        ("module", "facts"),
        ("module", "package"),
        ("module", "package.module"),
        ("code", FACTS),
    ],
)
def test_scripts_see_the_same_environment(tmp_path: Path, kind: str, name: str) -> None:
    make_tree(tmp_path)
    expected, actual = run_both(kind, name, "--flag", "a b", cwd=tmp_path)
    assert expected.returncode == 0, expected.stderr
    assert actual.stdout == expected.stdout
    assert (actual.returncode, actual.stderr) == (0, "")


@pytest.mark.parametrize(
    "ending",
    [
        "raise SystemExit",
        "raise SystemExit(7)",
        "raise SystemExit(-1)",
        "raise SystemExit(True)",
        "raise SystemExit('told')",
        "raise SystemExit((1, 2))",
        "1 / 0",
        "raise KeyError('x') from ValueError('y')",
        "def f():\n    raise RuntimeError('deep')\nf()",
        "syntax error here",
        "import json; json.loads('{')",
        "import sys; sys.excepthook = lambda *a: print('mine', a[0].__name__); 1 / 0",
        "import sys; sys.excepthook = lambda *a: sys.exit(9); 1 / 0",
        "import atexit; atexit.register(print, 'at exit')",
        (
            "import threading, time; threading.Thread(target=lambda: "
            "(time.sleep(.2), print(__name__, 'thread'))).start()"
        ),
        "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', 'exit(3)']))",
    ],
)
@pytest.mark.parametrize("kind", ["script", pytest.param("code", marks=pytest.mark.slow)])
def test_scripts_end_in_the_same_way(tmp_path: Path, kind: str, ending: str) -> None:
    name = ending
    if kind == "script":
        name = "ending.py"
        (tmp_path / name).write_text(ending)
    expected, actual = run_both(kind, name, cwd=tmp_path)
    assert (actual.returncode, actual.stdout) == (expected.returncode, expected.stdout)
    if kind == "script":
        assert actual.stderr == expected.stderr
    else:
        # Before 3.13, Python shows no source line for `-c`; ttools always does.
        assert actual.stderr.splitlines()[-1:] == expected.stderr.splitlines()[-1:]
        assert "script.py" not in actual.stderr


def test_the_exit_status_of_an_interrupt_is_130(tmp_path: Path) -> None:
    (tmp_path / "ending.py").write_text("raise KeyboardInterrupt")
    _, actual = run_both("script", "ending.py", cwd=tmp_path)
    assert actual.returncode == 130
    assert actual.stderr.splitlines()[-1] == "KeyboardInterrupt"


def test_pickle_and_multiprocessing_find_main(tmp_path: Path) -> None:
    (tmp_path / "spawns.py").write_text(
        textwrap.dedent(
            """
            import multiprocessing, pickle

            class Thing:
                pass

            def work(x):
                return x * x

            if __name__ == "__main__":
                pickle.loads(pickle.dumps(Thing()))
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    print(pool.map(work, [1, 2, 3]))
            """
        )
    )
    expected, actual = run_both("script", "spawns.py", cwd=tmp_path)
    assert expected.stdout == "[1, 4, 9]\n"
    assert (actual.stdout, actual.returncode) == (expected.stdout, 0), actual.stderr


def test_code_has_source_for_inspect(capsys: pytest.CaptureFixture[str]) -> None:
    code = "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))"
    assert run_target(Target(kind="code", name=code)) == 0
    assert capsys.readouterr().out.startswith("def f():\n    return 1\n")


def test_interpreter_state_is_restored(tmp_path: Path) -> None:
    script = tmp_path / "spoils.py"
    script.write_text(
        "import os, sys; sys.argv[:] = ['x']; sys.path.append('/nowhere'); os.chdir('/'); 1 / 0"
    )
    before = sys.modules["__main__"], sys.argv, list(sys.argv), list(sys.path), Path.cwd()
    hook, sys.excepthook = sys.excepthook, lambda *_: None
    try:
        assert run_target(Target(kind="script", name=str(script))) == 1
    finally:
        sys.excepthook = hook
    after = sys.modules["__main__"], sys.argv, list(sys.argv), list(sys.path), Path.cwd()
    assert after == before


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Target(kind="script", name="no/such.py"), "no file `no/such.py`"),
        (Target(kind="module", name="no_such_module"), "no module named `no_such_module`"),
        (Target(kind="module", name="no_such.module"), "no module named `no_such.module`"),
        (Target(kind="module", name="hypothesis.internal"), "package without `__main__`"),
    ],
)
def test_missing_target_is_a_usage_error(target: Target, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run_target(target)


def test_empty_directory_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`__main__` module"):
        run_target(Target(kind="script", name=str(tmp_path)))


def test_tool_errors_propagate_and_kernel_errors_end_the_script(
    capsys: pytest.CaptureFixture[str],
) -> None:
    raises = "from ttools.core.errors import {0}; raise {0}('boom')"
    with pytest.raises(TtoolsError, match="boom"):
        run_target(Target(kind="code", name=raises.format("UnsupportedError")))
    assert run_target(Target(kind="code", name=raises.format(KernelError.__name__))) == 1
    assert "error: boom" in capsys.readouterr().err
    wrapped = "error = ValueError(); error.inner_exception = {0}('boom'); raise error"
    code = "from ttools.core.errors import {0}; " + wrapped
    with pytest.raises(
        TtoolsError, match="boom"
    ):  # torch.compile raises errors of a backend like this
        run_target(Target(kind="code", name=code.format("UnsupportedError")))
    assert run_target(Target(kind="code", name=code.format(KernelError.__name__))) == 1
    assert "ValueError" in capsys.readouterr().err
