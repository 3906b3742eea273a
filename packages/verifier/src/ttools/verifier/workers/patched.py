"""Finds functions of torch, Triton, NumPy and Python that a program has replaced.

A file that contains both a candidate and its reference could replace functions on which the
reference depends, so the reference's process restores them. In the candidate's own process, such a
replacement has no effect on the verdict, but the report lists the replaced functions.
"""

from __future__ import annotations

import sys
from typing import Any

from ttools.core.ownership import is_library_file

_MODULES = (
    "builtins",
    "time",
    "torch",
    "torch.nn.functional",
    "torch.linalg",
    "torch.testing",
    "torch.special",
    "torch.cuda",
    "torch.autograd",
    "triton.testing",
    "numpy",
    "numpy.testing",
)
_CLASSES = ("torch.Tensor", "torch.cuda.Event", "torch.nn.Module", "torch.Generator")
_MISSING = object()


class Patched:
    """Remembers the current functions and classes that modules and classes contain."""

    def __init__(self) -> None:
        self._known: list[tuple[str, Any, dict[str, Any]]] = []
        for name in _MODULES:
            owner = sys.modules.get(name)
            if owner is not None:
                self._known.append((name, owner, _functions(owner)))
        for name in _CLASSES:
            module, _, last = name.rpartition(".")
            owner = getattr(sys.modules.get(module), last, None)
            if owner is not None:
                self._known.append((name, owner, _functions(owner)))

    def names(self) -> list[str]:
        """Return the names of functions and classes that have been replaced."""
        return [f"{name}.{key}" for name, _, key, _ in self._changed()]

    def put_back(self) -> list[str]:
        """Restore the replaced functions and classes, and return their names."""
        changed = list(self._changed())
        for _, owner, key, value in changed:
            setattr(owner, key, value)
        return [f"{name}.{key}" for name, _, key, _ in changed]

    def _changed(self) -> list[tuple[str, Any, str, Any]]:
        changed = []
        for name, owner, originals in self._known:
            now = vars(owner)
            for key, value in originals.items():
                if now.get(key, _MISSING) is not value and not _is_of_library(now.get(key)):
                    changed.append((name, owner, key, value))
        return changed


def _functions(owner: Any) -> dict[str, Any]:
    """Return the functions and classes of a module or class, except names that begin with `__`."""
    return {
        key: value
        for key, value in vars(owner).items()
        if callable(value) and not key.startswith("__")
    }


def _is_of_library(value: Any) -> bool:
    """Return whether a function belongs to a library.

    Libraries may replace their own functions; torch, for example, wraps some of them when needed.
    """
    code = getattr(value, "__code__", None)
    return code is not None and is_library_file(code.co_filename)
