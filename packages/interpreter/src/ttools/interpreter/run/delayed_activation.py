"""Delays the activation of a run until the program imports torch or Triton.

A program that imports neither therefore does not wait for these imports. When the program has
imported torch, Triton is imported and the run is activated, before a device map, for example,
changes the devices that torch reports. This order is required because Triton's drivers query
torch's devices.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType

from ttools.core.imports import after_import


class Beginning:
    """A pending or completed activation.

    Args:
        begin: Activates the run; imports Triton.
        now: If True, activate immediately.

    Raises:
        Exception: `begin` was called immediately and failed.
    """

    def __init__(self, begin: Callable[[], object], *, now: bool) -> None:
        self._begin = begin
        self._begun = self._in_torch = False
        self._waits: list[Callable[[], None]] = []
        if now or "torch" in sys.modules or "triton" in sys.modules:
            self._act()
        else:
            self._waits = [
                after_import("torch", self._after_torch),
                after_import("triton", self._after_triton),
            ]

    def end(self) -> bool:
        """Stop waiting; return whether the run was activated."""
        for stop in self._waits:
            stop()
        return self._begun

    def _act(self) -> None:
        if not self._begun:
            self._begin()
            self._begun = True

    def _after_torch(self, _: ModuleType) -> None:
        self._in_torch = True
        try:
            # Import Triton first, because `_act` may hold locks that other packages' import hooks
            # need.
            with suppress(ImportError):
                importlib.import_module("triton")
        finally:
            self._in_torch = False
        self._act()

    def _after_triton(self, _: ModuleType) -> None:
        if not self._in_torch:
            with suppress(ImportError):
                importlib.import_module("torch")  # calls `_after_torch`, which activates the run
            self._act()
