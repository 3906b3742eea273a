"""Callbacks that run after a module has been imported.

torch and some of its parts take seconds to import. Code that changes them therefore does not import
them itself, but registers a callback that runs when the user's program imports them.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any

Action = Callable[[ModuleType], object]

_lock = threading.RLock()
#: The finders of the modules that have callbacks, by module name.
_waiting: dict[str, _Waiting] = {}


def after_import(name: str, action: Action) -> Callable[[], None]:
    """Call a function with a module: now if the module is loaded, otherwise right after its import.

    Functions for the same module are called in the order of registration.

    Args:
        action: The function. If it raises an exception, the import raises that exception.

    Returns:
        A function that cancels the registration.
    """
    with _lock:
        module = sys.modules.get(name)
        if module is None or name in _waiting:
            return _wait(name, action)
    action(module)
    return lambda: None


def import_quickly(name: str) -> None:
    """Disable garbage collection during the import of a module, if it is ever imported.

    Collections take an eighth of the time of torch's import and free nothing.
    """
    with _lock:
        if name not in sys.modules or name in _waiting:
            _wait(name, lambda _: None)
            _waiting[name].is_quick = True


def _wait(name: str, action: Action) -> Callable[[], None]:
    waiting = _waiting.get(name)
    if waiting is None:
        waiting = _waiting[name] = _Waiting(name)
        sys.meta_path.insert(0, waiting)
    waiting.actions.append(action)

    def stop() -> None:
        with _lock:
            if action in waiting.actions:
                waiting.actions.remove(action)
            if not waiting.actions:
                waiting.withdraw()

    return stop


class _Waiting(importlib.abc.MetaPathFinder):
    """A finder that runs callbacks after the import of a module.

    Attributes:
        actions: Callbacks in the order of registration.
        is_quick: If True, garbage collection is off during the import.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._asking = threading.local()
        self.actions: list[Action] = []
        self.is_quick = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec that the other finders return, with a loader that runs the callbacks."""
        if fullname != self._name or getattr(self._asking, "others", False):
            return None
        self._asking.others = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking.others = False
        # A caller of `find_spec` does not necessarily import the module, so this finder stays
        # installed.
        if spec is not None and spec.loader is not None:
            self._wrap(spec.loader)
        return spec

    def withdraw(self) -> None:
        _waiting.pop(self._name, None)
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def _wrap(self, loader: Any) -> None:
        # Patching the instance keeps the other methods of the loader's class available.
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            with _no_collections() if self.is_quick else nullcontext():
                execute(module)
            with _lock:
                actions = list(self.actions)
                self.withdraw()
            for action in actions:
                action(module)

        loader.exec_module = exec_module


@contextmanager
def _no_collections() -> Iterator[None]:
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
