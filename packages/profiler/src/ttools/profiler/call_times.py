"""How long the host takes for `kernel[grid](...)`.

Owns the timing of calls. Must not know what a kernel does nor what runs it; who runs it in the
course of the call tells how long that took.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from ttools.core import triton_versions

K = TypeVar("K")
#: Calls of a function that are timed where it matters what timing costs: its first.
MOST_TIMED = 200


class CallTimes:
    """Times calls while `watching`.

    Attributes:
        took: the compiled kernel of each call with the seconds that it took, in their order.
    """

    def __init__(self) -> None:
        self.took: list[tuple[Any, float]] = []
        self._inside = threading.local()
        self._spoiled: set[int] = set()

    def leave_out(self, seconds: float) -> None:
        """Takes time of this thread's call for something else's."""
        self._inside.seconds = getattr(self._inside, "seconds", 0.0) + seconds

    def spoil(self) -> None:
        """Leaves out the call that is being made."""
        self._spoiled.add(len(self.took))

    def grouped(self, key: Callable[[Any], K | None]) -> dict[K, list[float]]:
        """Seconds of each call. The first of a compiled kernel, which may compile it, is left out.

        Args:
            key: of a compiled kernel; None leaves it out.
        """
        found: defaultdict[K, list[float]] = defaultdict(list)
        seen: set[int] = set()
        for number, (kernel, seconds) in enumerate(self.took):
            name = key(kernel)
            if name is not None and id(kernel) in seen and number not in self._spoiled:
                found[name].append(seconds)
            seen.add(id(kernel))
        return dict(found)

    @contextmanager
    def watching(self, *, synchronous: bool) -> Iterator[None]:
        """Replaces Triton's `kernel[grid]` while the context lasts.

        Args:
            synchronous: whether what runs a kernel does so during the call, see `leave_out`.
        """
        jit = triton_versions.jit_function_class()
        outer = (triton_versions.autotuner_class(), triton_versions.heuristics_class())
        careful = self._careful()
        kinds = dict.fromkeys((*outer, jit), careful)
        if not synchronous:
            kinds[jit] = self._quick()
        before = {kind: vars(kind).get(_CALL) for kind in kinds}
        for kind, call in kinds.items():
            setattr(kind, _CALL, call)
        try:
            yield
        finally:
            for kind, own in before.items():
                if own is None:
                    delattr(kind, _CALL)
                else:
                    setattr(kind, _CALL, own)

    def _quick(self) -> Callable[[Any, Any], Any]:
        note, now = self.took.append, time.perf_counter
        timed: Counter[int] = Counter()  # by id: kernels in `took` hold their functions
        done: set[int] = set()

        def call(function: Any, grid: Any) -> Any:
            if id(function) in done:
                # Reading the clock costs a program that launches much, and so does a lambda.
                return partial(function.run, grid=grid, warmup=False)

            def launch(*args: Any, **kwargs: Any) -> Any:
                start = now()
                kernel = function.run(*args, grid=grid, warmup=False, **kwargs)
                note((kernel, now() - start))
                timed[id(function)] += 1
                if timed[id(function)] == MOST_TIMED:
                    done.add(id(function))
                return kernel

            return launch

        return call

    def _careful(self) -> Callable[[Any, Any], Any]:
        inside = self._inside

        def call(function: Any, grid: Any) -> Any:
            def launch(*args: Any, **kwargs: Any) -> Any:
                before, inside.seconds = getattr(inside, "seconds", 0.0), 0.0
                start = time.perf_counter()
                try:
                    kernel = function.run(*args, grid=grid, warmup=False, **kwargs)
                finally:
                    took, own = time.perf_counter() - start, inside.seconds
                    inside.seconds = before + took
                self.took.append((kernel, max(0.0, took - own)))
                return kernel

            return launch

        return call


#: Of the classes of kernels: makes `kernel[grid]`.
_CALL = "__getitem__"
