"""CUDA graphs: launches are captured once, and made anew by every replay.

Owns which launches a graph holds. Must not know what is known of a launch.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

L = TypeVar("L")


class GraphLaunches(Generic[L]):
    """Keeps a list of launches in which replays of graphs stand for what they hold.

    Args:
        changed: hears that `add` is another.

    Attributes:
        launches: made so far, in their order.
        add: takes note of a launch; of one that is captured, for the graph's replays.
    """

    def __init__(self, changed: Callable[[], object] = lambda: None) -> None:
        self._changed = changed
        self.launches: list[L] = []
        self.add: Callable[[L], None] = self.launches.append
        self._held: weakref.WeakKeyDictionary[Any, list[L]] = weakref.WeakKeyDictionary()
        self._open: list[L] | None = None

    @property
    def capturing(self) -> bool:
        """Whether launches are captured instead of being made."""
        return self._open is not None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches torch's graphs while the context lasts."""
        from torch.cuda import CUDAGraph

        kind: Any = CUDAGraph
        begin, end, replay = kind.capture_begin, kind.capture_end, kind.replay

        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
            result = begin(graph, *args, **kwargs)
            self._open = []
            self.add = self._open.append
            self._changed()
            return result

        def capture_end(graph: Any, *args: Any, **kwargs: Any) -> Any:
            self._held[graph], self._open = self._open or [], None
            self.add = self.launches.append
            self._changed()
            return end(graph, *args, **kwargs)

        def replayed(graph: Any, *args: Any, **kwargs: Any) -> Any:
            self.launches += self._held.get(graph, [])
            return replay(graph, *args, **kwargs)

        kind.capture_begin, kind.capture_end, kind.replay = capture_begin, capture_end, replayed
        try:
            yield
        finally:
            kind.capture_begin, kind.capture_end, kind.replay = begin, end, replay
