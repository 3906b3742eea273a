"""Which of Proton's scopes a program is in, and what it says of them.

A program's `proton.scope(name, metrics)` does nothing while Proton records nothing; a recorder
listens to it all the same. Owns the listening.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ttools.core.device_map.mapping import real_device
from ttools.core.patches import Patches


class ScopeRecorder:
    """Listens to Proton's scopes while `listening`.

    Attributes:
        metrics: what the program reported of scopes, in that order, each with the scopes
            that it was in.
        heard: whether any scope was entered.
    """

    def __init__(self) -> None:
        self.heard = False
        self.metrics: list[tuple[tuple[str, ...], dict[str, float]]] = []
        self._open = threading.local()
        self._begun: Callable[[], object] = lambda: None

    @property
    def current(self) -> tuple[str, ...]:
        """The scopes that this thread is in, outermost first."""
        names: tuple[str, ...] = getattr(self._open, "names", ())
        return names

    @contextmanager
    def listening(self, begun: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Listens while the context lasts; without Proton there is nothing to hear.

        Args:
            begun: called when the first scope was heard.
        """
        self._begun = begun
        try:
            profiler = importlib.import_module("triton.profiler")
            scopes = importlib.import_module("triton.profiler.scope")
        except ImportError:
            yield
            return
        kinds = (scopes.scope, scopes.cpu_timed_scope)
        replaced = [
            *((kind, name) for kind in kinds for name in ("_enter_scope", "_exit_scope")),
            *((module, name) for module in (scopes, profiler) for name in _FUNCTIONS),
        ]
        with Patches() as patches:
            for owner, name in replaced:
                wrap = self._method if isinstance(owner, type) else self._function
                patches.wrap(owner, name, functools.partial(wrap, name))
            yield

    def _method(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def change(scope: Any) -> None:
            before = self.current
            original(scope)
            # A timed scope enters and leaves by way of the plain one's method, if at all.
            if self.current is not before:
                return
            if name == "_enter_scope":
                self._enter(scope.name, scope.metrics)
            else:
                self._leave()

        return change

    def _function(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def enter(name: str, **given: Any) -> Any:
            result = original(name, **given)
            self._enter(name, given.get("metrics"))
            return result

        @functools.wraps(original)
        def leave(*words: Any, **given: Any) -> Any:
            result = original(*words, **given)
            self._tell(given.get("metrics"))
            self._leave()
            return result

        return enter if name == "enter_scope" else leave

    def _enter(self, name: str, metrics: Mapping[str, Any] | None) -> None:
        if not self.heard:
            self.heard = True
            self._begun()
        self._open.names = (*self.current, str(name))
        self._tell(metrics)

    def _leave(self) -> None:
        self._open.names = self.current[:-1]

    def _tell(self, metrics: Mapping[str, Any] | None) -> None:
        found = numbers(metrics or {})
        if found:
            self.metrics.append((self.current, found))


_FUNCTIONS = ("enter_scope", "exit_scope")


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Those metrics that are one number; reading a GPU's tensor would wait for the GPU."""
    found = {}
    for name, value in metrics.items():
        if hasattr(value, "data_ptr"):
            if value.numel() != 1 or real_device(value).type != "cpu":
                continue
            value = value.item()
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            found[str(name)] = float(value)
    return found
