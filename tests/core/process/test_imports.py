"""Actions that wait for an import: done once, after the module's code, whoever else looks on."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ttools.core.device_map.mapping import _AfterImport
from ttools.core.process.imports import when_imported

NAME = "awaited_module"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / f"{NAME}.py").write_text("import sys\nstate = 'made'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield tmp_path
    sys.modules.pop(NAME, None)
    assert sys.meta_path == before


def state() -> str:
    return str(getattr(sys.modules[NAME], "state", "unmade"))


def test_an_action_is_done_when_the_code_has_run() -> None:
    seen: list[str] = []
    when_imported(NAME, lambda: seen.append(state()))
    assert importlib.util.find_spec(NAME) is not None  # a look is no import
    assert seen == []
    module = importlib.import_module(NAME)
    assert seen == ["made"]
    importlib.reload(module)
    assert seen == ["made"]
    when_imported(NAME, lambda: seen.append("at once"))
    assert seen == ["made", "at once"]


def test_it_can_be_cancelled_and_several_wait() -> None:
    seen: list[int] = []
    waiting = [when_imported(NAME, lambda n=n: seen.append(n)) for n in range(3)]  # type: ignore[misc]
    waiting[1].cancel()
    waiting[1].cancel()
    importlib.import_module(NAME)
    waiting[0].cancel()
    assert seen == [0, 2]


def test_an_import_that_fails_is_none(folder: Path) -> None:
    file = folder / f"{NAME}.py"
    good = file.read_text()
    file.write_text("raise ImportError('not yet')\n")
    seen: list[str] = []
    when_imported(NAME, lambda: seen.append(state()))
    with pytest.raises(ImportError, match="not yet"):
        importlib.import_module(NAME)
    assert seen == []
    file.write_text(f"{good}\n# longer, so that it is compiled anew\n")
    importlib.invalidate_caches()
    importlib.import_module(NAME)
    assert seen == ["made"]


def test_what_the_action_raises_is_raised_by_the_import() -> None:
    def fail() -> None:
        raise ValueError("no")

    when_imported(NAME, fail)
    with pytest.raises(ValueError, match="no"):
        importlib.import_module(NAME)


@pytest.mark.parametrize("ours_first", [False, True])
def test_beside_another_finder_that_does_the_same(
    ours_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ttools.core.device_map.mapping.is_active", lambda: True)
    seen: list[str] = []

    def other() -> None:
        sys.meta_path.insert(0, _AfterImport(NAME, lambda module: seen.append(f"other {state()}")))

    if not ours_first:
        other()
    when_imported(NAME, lambda: seen.append(f"ours {state()}"))
    if ours_first:
        other()
    importlib.import_module(NAME)
    # The finder that came last sees the import last.
    expected = ["ours made", "other made"] if ours_first else ["other made", "ours made"]
    assert seen == expected


def test_packages_and_modules_of_them(folder: Path) -> None:
    (folder / "awaited_package").mkdir()
    (folder / "awaited_package" / "__init__.py").write_text("")
    (folder / "awaited_package" / "inner.py").write_text("")
    seen: list[str] = []
    for name in ("awaited_package.inner", "awaited_package"):
        when_imported(name, lambda name=name: seen.append(name))  # type: ignore[misc]
    importlib.import_module("awaited_package.inner")
    assert seen == ["awaited_package", "awaited_package.inner"]
