"""Replacements for modules that tests of libraries import: CUDA binaries, and large packages.

The names of such a module can be imported, used in annotations and as base classes, but not called.
`install` can also define some of its functions, which are written in torch.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class AbsentModule(types.ModuleType):
    """A module whose names can be imported, but not called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"{self.__name__}.{name}")


class _AbsentClass(type):
    """The metaclass of the classes that replace names; their attributes are replaced, too."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"{cls.__qualname__}.{name}")


def absent(name: str) -> type:
    """Return a class that replaces a function or class of the given name."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise NotImplementedError(f"{name} is in a library that is not installed")

    return _AbsentClass(name.rpartition(".")[2], (), {"__new__": refuse, "__qualname__": name})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds packages that are not installed, and every module in them."""

    def __init__(self, packages: Mapping[str, Mapping[str, Callable[..., Any]]]) -> None:
        self._packages = packages

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in self._packages:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return AbsentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(self._packages.get(module.__name__, {}))


def install(packages: Mapping[str, Mapping[str, Callable[..., Any]]]) -> None:
    """Make packages that are not installed importable, with the given functions."""
    sys.meta_path.insert(0, _Finder(packages))
