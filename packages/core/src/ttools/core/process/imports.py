"""Actions that wait for a module to be imported, so that a program that never does pays nothing.

Owns the finder that sees imports. Must not know what is waited for.
"""

from __future__ import annotations

import importlib.abc
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Action = Callable[[], object]


class Awaited:
    """An action that is done once, when a module has been imported.

    Args:
        name: of the module.
        action: called right after the module's code has run, by the thread that imports it.
    """

    def __init__(self, name: str, action: Action) -> None:
        self.name = name
        self._action = action

    def cancel(self) -> None:
        """Stops waiting."""
        _FINDER.remove(self)

    def act(self) -> None:
        """Does what was waited with."""
        self._action()


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the other finders find what is waited for, and sees when its code has run."""

    def __init__(self) -> None:
        self._waiting: list[Awaited] = []
        self._lock = threading.RLock()
        self._searching = threading.local()

    def add(self, awaited: Awaited) -> None:
        with self._lock:
            self._waiting.append(awaited)
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)

    def remove(self, awaited: Awaited) -> None:
        with self._lock:
            if awaited in self._waiting:
                self._waiting.remove(awaited)
            if not self._waiting and self in sys.meta_path:
                sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, with a loader that says when it is done."""
        is_wanted = any(each.name == fullname for each in self._waiting)
        if not is_wanted or getattr(self._searching, "now", False):
            return None
        self._searching.now = True
        try:
            # As another finder may do the same with what it finds.
            specs = (
                finder.find_spec(fullname, path, target)
                for finder in list(sys.meta_path)
                if finder is not self and hasattr(finder, "find_spec")
            )
            spec = next((found for found in specs if found is not None), None)
        finally:
            self._searching.now = False
        if spec is not None and spec.loader is not None:
            self._wrap(spec.loader, fullname)
        return spec

    def _wrap(self, loader: Any, name: str) -> None:
        # On the loader's instance: a loader of another class would hide its other abilities.
        execute = loader.exec_module
        own = vars(loader).get("exec_module")

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            if own is not None:
                loader.exec_module = own
            execute(module)
            self._imported(name)

        loader.exec_module = exec_module

    def _imported(self, name: str) -> None:
        with self._lock:
            ready = [each for each in self._waiting if each.name == name]
            for each in ready:
                self.remove(each)
        for each in ready:
            each.act()


_FINDER = _Finder()


def when_imported(name: str, action: Action) -> Awaited:
    """Does something when a module has been imported: now if it has been, or once it is.

    An import that fails, or a look for the module alone, is none. What the action raises is raised
    by the import.
    """
    awaited = Awaited(name, action)
    if name in sys.modules:
        action()
    else:
        _FINDER.add(awaited)
    return awaited
