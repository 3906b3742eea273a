"""What is to be done with a module once it has been imported, if it ever is.

torch and parts of it take seconds to import, which programs that do without them should not pay
for. Must not know what is done with a module.
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
#: By name of the module: its finder, while anything is to be done with it.
_waiting: dict[str, _Waiting] = {}


def after_import(name: str, action: Action) -> Callable[[], None]:
    """Calls a function with a module: now if it is there, else as soon as it has been imported.

    Several of one module are called in the order in which they were given.

    Args:
        action: what is called; the import waits for it, and raises what it raises.

    Returns:
        A function that ends the wait.
    """
    with _lock:
        module = sys.modules.get(name)
        if module is None or name in _waiting:
            return _wait(name, action)
    action(module)
    return lambda: None


def import_quickly(name: str) -> None:
    """Has a module imported, if it ever is, without looking for garbage meanwhile.

    Of torch's import that takes an eighth, and finds none.
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
    """Waits for the import of a module.

    Attributes:
        actions: what is called with it.
        is_quick: whether to look for no garbage while it is imported.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._asking = threading.local()
        self.actions: list[Action] = []
        self.is_quick = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec that the other finders give, with a loader that calls the functions."""
        if fullname != self._name or getattr(self._asking, "others", False):
            return None
        self._asking.others = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking.others = False
        # Whoever only looks for the module does not import it: this goes on waiting.
        if spec is not None and spec.loader is not None:
            self._wrap(spec.loader)
        return spec

    def withdraw(self) -> None:
        _waiting.pop(self._name, None)
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def _wrap(self, loader: Any) -> None:
        # On the loader's instance: a loader of another class would hide its other abilities.
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
