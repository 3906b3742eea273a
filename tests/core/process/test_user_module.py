"""Tests of loading the user's files as modules."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ttools.core.errors import UsageError
from ttools.core.process.user_module import LoadError, load_file, load_functions, split_word


@pytest.fixture(autouse=True)
def modules_as_before() -> Iterator[None]:
    before, path = dict(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
    sys.modules.update(before)
    sys.path[:] = path


_IMPORT = "import no_such"
_NO_MODULE = "No module named 'no_such'"


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["random.py", "antigravity.py", "pytest.py", "sys.py"])
def test_no_other_module_is_replaced(tmp_path: Path, name: str) -> None:
    """Load a file with the name of a loaded module, or of one of the standard library."""
    stem = name.removesuffix(".py")
    before = sys.modules.get(stem)
    module = load_file(write(tmp_path, name, "def f(): return 7\n"))
    assert sys.modules.get(stem) is before
    assert module.f() == 7
    assert sys.modules[module.__name__] is module
    assert random.randint(3, 3) == 3
    assert pickle.loads(pickle.dumps(module.f)) is module.f


def test_two_files_with_the_same_name(tmp_path: Path) -> None:
    first = load_file(write(tmp_path / "first", "twice_named.py", "x = 1\n"))
    second = load_file(write(tmp_path / "second", "twice_named.py", "x = 2\n"))
    assert (first.x, second.x) == (1, 2)
    assert sys.modules["twice_named"] is first
    assert sys.modules[second.__name__] is second
    assert load_file(tmp_path / "second" / "twice_named.py") is second


def test_a_file_is_run_once_until_it_changes(tmp_path: Path) -> None:
    path = write(tmp_path, "changing_file.py", "def f(): return 1\n")
    same = f"{tmp_path}/../{tmp_path.name}/{path.name}"
    (module, f), (same_module, g) = load_functions([f"{path}:f", f"{same}:f"])
    assert module is same_module
    assert f is g
    path.write_text("def f(): return 1 + 1\n")
    changed = load_file(path)
    assert changed.f() == 2
    assert sys.modules["changing_file"] is changed


def test_modules_that_the_program_imported_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "imported_before.py", "x = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    import imported_before  # type: ignore[import-not-found]

    assert load_file(path) is imported_before


def test_neighbours_can_be_imported(tmp_path: Path) -> None:
    write(tmp_path, "beside_it.py", "x = 5\n")
    assert load_file(write(tmp_path, "asks_it.py", "from beside_it import x\n")).x == 5


def test_methods_have_qualified_names(tmp_path: Path) -> None:
    path = write(tmp_path, "with_class.py", "class A:\n    @staticmethod\n    def f(): return 3\n")
    ((_, function),) = load_functions([f"{path}:A.f"])
    assert function() == 3


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        ("x = 3", "f", "has no function `f`"),
        ("x = 3", "x", "has no function `x`"),
        ("def rotate(): pass", "rotat_", "has no function `rotat_`; did you mean rotate?"),
        (
            "def g():\n    raise ValueError('no')\ng()",
            "f",
            "cannot be loaded: ValueError: no at broken_file.py:2: raise ValueError('no')",
        ),
        (
            "import sys\nsys.exit(4)",
            "f",
            "cannot be loaded: SystemExit: 4 at broken_file.py:2: sys.exit(4)",
        ),
        (
            _IMPORT,
            "f",
            f"cannot be loaded: ModuleNotFoundError: {_NO_MODULE} at broken_file.py:1: {_IMPORT}",
        ),
        ("raise KeyError", "f", "cannot be loaded: KeyError at broken_file.py:1: raise KeyError"),
    ],
)
def test_errors_of_files_are_reported(tmp_path: Path, text: str, name: str, reason: str) -> None:
    path = write(tmp_path, "broken_file.py", text + "\n")
    with pytest.raises(LoadError) as raised:
        load_functions([f"{path}:{name}"])
    assert raised.value.reason == reason
    assert str(raised.value) == f"`{path}` {reason}"
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    if "cannot be loaded" in reason:
        assert "broken_file" not in sys.modules


def test_syntax_errors_are_reported_with_their_line(tmp_path: Path) -> None:
    path = write(tmp_path, "no_syntax.py", "x = 1\ndef f(:\n")
    with pytest.raises(
        LoadError, match=r"cannot be loaded: SyntaxError: .*no_syntax.py, line 2\)$"
    ):
        load_file(path)


def test_a_failed_reload_keeps_the_module(tmp_path: Path) -> None:
    path = write(tmp_path, "broken_later.py", "x = 1\n")
    module = load_file(path)
    path.write_text("1 / 0\n")
    with pytest.raises(LoadError, match="ZeroDivisionError"):
        load_file(path)
    assert sys.modules["broken_later"] is module


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("nowhere.py:f", "there is no file `nowhere.py`"),
        ("a\0b.py:f", "there is no file"),
        ("kernel.py", "`kernel.py`: write a kernel as FILE.py:KERNEL"),
        (":f", "`:f`: write a kernel as FILE.py:KERNEL"),
        ("kernel.py:", "`kernel.py:`: write a kernel as FILE.py:KERNEL"),
        ("kernel.py:f()", "write a kernel as FILE.py:KERNEL"),
    ],
)
def test_invalid_names(word: str, text: str) -> None:
    with pytest.raises(UsageError) as raised:
        split_word(word, "kernel")
    assert text in str(raised.value)


def test_files_that_are_not_python(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="is not a Python file"):
        load_file(write(tmp_path, "words.txt", "some words\n"))
