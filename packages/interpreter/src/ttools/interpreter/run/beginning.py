"""When a run takes Triton over: at once, or not before a program imports torch or Triton.

A program that imports neither is not to wait for them. Which driver is active is asked before
anything else changes what torch says of devices, a device map above all: with torch, which AMD's
driver imports when it is asked. Must not know what taking over means.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType

from ttools.core.imports import after_import


class Beginning:
    """One taking over.

    Args:
        begin: takes over; imports Triton.
        now: whether not to wait.

    Raises:
        Exception: what `begin` raises, if it is called at once.
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
        """Stops waiting; returns whether Triton was taken over."""
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
            # Before anything is held that the hooks of other runs need, too.
            with suppress(ImportError):
                importlib.import_module("triton")
        finally:
            self._in_torch = False
        self._act()

    def _after_triton(self, _: ModuleType) -> None:
        if not self._in_torch:
            with suppress(ImportError):
                importlib.import_module("torch")  # which acts
            self._act()
