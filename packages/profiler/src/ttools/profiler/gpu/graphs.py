"""Records launches in CUDA graphs, which are captured once and made again in every replay."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from ttools.core.patches import Patches

L = TypeVar("L")


class GraphCalls(Generic[L]):
    """A list of launches to which each replay of a graph adds the graph's launches.

    Args:
        changed: Function that is called when `add` is replaced.
        replayed: Function that returns the list entry of a captured launch, before its replay.

    Attributes:
        launches: All launches so far, in order.
        add: Function that adds a launch to the list, or to the graph that is being captured.
    """

    def __init__(
        self,
        changed: Callable[[], object] = lambda: None,
        replayed: Callable[[L], L] = lambda launch: launch,
    ) -> None:
        self._changed, self._renewed = changed, replayed
        self.launches: list[L] = []
        self.add: Callable[[L], None] = self.launches.append
        self._held: weakref.WeakKeyDictionary[Any, list[L]] = weakref.WeakKeyDictionary()
        self._open: list[L] | None = None

    @property
    def capturing(self) -> bool:
        """Return whether a graph is being captured."""
        return self._open is not None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe torch's graphs during the `with` block."""
        from torch.cuda import CUDAGraph

        with Patches() as patches:
            patches.wrap(CUDAGraph, "capture_begin", self._beginning)
            patches.wrap(CUDAGraph, "capture_end", self._ending)
            patches.wrap(CUDAGraph, "replay", self._replaying)
            yield

    def _beginning(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
            result = begin(graph, *args, **kwargs)
            self._open = []
            self.add = self._open.append
            self._changed()
            return result

        return capture_begin

    def _ending(self, end: Callable[..., Any]) -> Callable[..., Any]:
        def capture_end(graph: Any, *args: Any, **kwargs: Any) -> Any:
            self._held[graph], self._open = self._open or [], None
            self.add = self.launches.append
            self._changed()
            return end(graph, *args, **kwargs)

        return capture_end

    def _replaying(self, replay: Callable[..., Any]) -> Callable[..., Any]:
        def replayed(graph: Any, *args: Any, **kwargs: Any) -> Any:
            self.launches += map(self._renewed, self._held.get(graph, []))
            return replay(graph, *args, **kwargs)

        return replayed
