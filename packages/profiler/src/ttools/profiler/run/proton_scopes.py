"""Records the Proton scopes that a program opens, and their metrics.

The recorder observes `proton.scope(name, metrics)` even while no Proton session runs.
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
    """Records Proton's scopes during `listening`.

    Attributes:
        metrics: The metrics that the program reported, in order, with the scopes that were open at
            each report.
        heard: True once any scope was entered.
    """

    def __init__(self) -> None:
        self.heard = False
        self.metrics: list[tuple[tuple[str, ...], dict[str, float]]] = []
        self._open = threading.local()
        self._begun: Callable[[], object] = lambda: None

    @property
    def current(self) -> tuple[str, ...]:
        """Return the scopes that are open in this thread, outermost first."""
        names: tuple[str, ...] = getattr(self._open, "names", ())
        return names

    @contextmanager
    def listening(self, begun: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Record scopes during the `with` block; without Proton, nothing is recorded.

        Args:
            begun: Called when the first scope is entered.
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
            # The method of a timed scope may call that of a plain scope, in which case the scope
            # was already recorded.
            if self.current is not before:
                return
            if name == "_enter_scope":
                self._enter(scope.name, scope.metrics)
            else:
                self._leave()

        return change

    def _function(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def enter(name: str, **options: Any) -> Any:
            result = original(name, **options)
            self._enter(name, options.get("metrics"))
            return result

        @functools.wraps(original)
        def leave(*words: Any, **options: Any) -> Any:
            result = original(*words, **options)
            self._report(options.get("metrics"))
            self._leave()
            return result

        return enter if name == "enter_scope" else leave

    def _enter(self, name: str, metrics: Mapping[str, Any] | None) -> None:
        if not self.heard:
            self.heard = True
            self._begun()
        self._open.names = (*self.current, str(name))
        self._report(metrics)

    def _leave(self) -> None:
        self._open.names = self.current[:-1]

    def _report(self, metrics: Mapping[str, Any] | None) -> None:
        reported = numbers(metrics or {})
        if reported:
            self.metrics.append((self.current, reported))


_FUNCTIONS = ("enter_scope", "exit_scope")


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that are single numbers, without waiting for tensors on a GPU."""
    numbers_by_name = {}
    for name, value in metrics.items():
        if hasattr(value, "data_ptr"):
            if value.numel() != 1 or real_device(value).type != "cpu":
                continue
            value = value.item()
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers_by_name[str(name)] = float(value)
    return numbers_by_name
