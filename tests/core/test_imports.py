"""Tests of callbacks that run after the import of a module: when, and in which order."""

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


def test_calls_immediately_if_the_module_is_imported() -> None:
    calls: list[ModuleType] = []
    after_import("sys", calls.append)
    assert calls == [sys]


def test_calls_in_order_after_the_module_has_run() -> None:
    calls: list[tuple[str, int]] = []
    after_import(NAME, lambda module: calls.append(("first", module.value)))
    after_import(NAME, lambda module: calls.append(("second", module.value)))
    assert not calls
    module = importlib.import_module(NAME)
    assert calls == [("first", 1), ("second", 1)]
    importlib.reload(module)
    assert len(calls) == 2


def test_finding_the_module_does_not_call() -> None:
    calls: list[ModuleType] = []
    after_import(NAME, calls.append)
    assert importlib.util.find_spec(NAME) is not None
    assert not calls
    assert [importlib.import_module(NAME)] == calls


@pytest.mark.parametrize("text", ["value = gc.isenabled()", "raise ValueError(gc.isenabled())"])
@pytest.mark.parametrize("enabled", [True, False])
def test_quick_imports_disable_garbage_collection(text: str, enabled: bool, tmp_path: Path) -> None:
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
        if NAME in imports._waiting:  # still registered if the import failed
            imports._waiting[NAME].withdraw()


def test_callbacks_can_be_cancelled_separately() -> None:
    calls: list[str] = []
    stops = [after_import(NAME, functools.partial(_note, calls, word)) for word in "abc"]
    stops[1]()
    importlib.import_module(NAME)
    assert calls == ["a", "c"]
    stops[0]()


def _note(calls: list[str], word: str, _: ModuleType) -> None:
    calls.append(word)


def test_cancelling_the_last_callback_restores_imports() -> None:
    after_import(NAME, lambda _: pytest.fail("called"))()
    importlib.import_module(NAME)


def test_exceptions_of_callbacks_are_raised_by_the_import() -> None:
    def refuse(_: ModuleType) -> None:
        raise ValueError("no")

    after_import(NAME, refuse)
    with pytest.raises(ValueError, match="no"):
        importlib.import_module(NAME)


def test_missing_modules_still_raise_import_errors() -> None:
    stop = after_import("no_such_module_anywhere", lambda _: None)
    with pytest.raises(ImportError):
        importlib.import_module("no_such_module_anywhere")
    stop()
