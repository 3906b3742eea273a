"""What is called once a module has been imported: when, in which order, and when not."""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest

from ttools.core import imports
from ttools.core.imports import after_import, import_quickly

NAME = "module_of_test_imports"


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / f"{NAME}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    finders = list(sys.meta_path)
    yield
    sys.modules.pop(NAME, None)
    assert sys.meta_path == finders


def test_calls_now_what_waits_for_nothing() -> None:
    found: list[ModuleType] = []
    after_import("sys", found.append)
    assert found == [sys]


def test_calls_in_order_after_the_module_has_run() -> None:
    seen: list[tuple[str, int]] = []
    after_import(NAME, lambda module: seen.append(("first", module.value)))
    after_import(NAME, lambda module: seen.append(("second", module.value)))
    assert not seen
    module = importlib.import_module(NAME)
    assert seen == [("first", 1), ("second", 1)]
    importlib.reload(module)
    assert len(seen) == 2


def test_whoever_only_looks_for_the_module_does_not_end_the_wait() -> None:
    seen: list[ModuleType] = []
    after_import(NAME, seen.append)
    assert importlib.util.find_spec(NAME) is not None
    assert not seen
    assert [importlib.import_module(NAME)] == seen


@pytest.mark.parametrize("text", ["value = gc.isenabled()", "raise ValueError(gc.isenabled())"])
@pytest.mark.parametrize("enabled", [True, False])
def test_no_garbage_is_looked_for_during_a_quick_import(
    text: str, enabled: bool, tmp_path: Path
) -> None:
    (tmp_path / f"{NAME}.py").write_text(f"import gc\n{text}\n")
    import_quickly(NAME)
    after_import(NAME, lambda module: None)
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(ValueError, match="False") if "raise" in text else nullcontext():
            assert importlib.import_module(NAME).value is False
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
        if NAME in imports._waiting:  # it goes on waiting where the import failed
            imports._waiting[NAME].withdraw()


def test_can_be_ended_one_by_one() -> None:
    seen: list[str] = []
    stops = [after_import(NAME, functools.partial(_note, seen, word)) for word in "abc"]
    stops[1]()
    importlib.import_module(NAME)
    assert seen == ["a", "c"]
    stops[0]()


def _note(seen: list[str], word: str, _: ModuleType) -> None:
    seen.append(word)


def test_the_last_one_ended_leaves_imports_alone() -> None:
    after_import(NAME, lambda _: pytest.fail("called"))()
    importlib.import_module(NAME)


def test_an_import_raises_what_is_raised() -> None:
    def refuse(_: ModuleType) -> None:
        raise ValueError("no")

    after_import(NAME, refuse)
    with pytest.raises(ValueError, match="no"):
        importlib.import_module(NAME)


def test_modules_that_cannot_be_found_stay_so() -> None:
    stop = after_import("no_such_module_anywhere", lambda _: None)
    with pytest.raises(ImportError):
        importlib.import_module("no_such_module_anywhere")
    stop()
