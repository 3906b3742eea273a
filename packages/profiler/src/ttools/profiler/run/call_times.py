"""Measures the time that calls `kernel[grid](...)` take on the host."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from ttools.core.launch_path import OUTER_SUBSCRIPTS, SUBSCRIPT, take_over
from ttools.core.patches import Patches

K = TypeVar("K")
#: The number of calls of a function that are timed in the mode in which later calls have no
#: overhead.
MOST_TIMED = 200


class CallTimes:
    """Measures the times of calls during `watching`.

    Attributes:
        took: The compiled kernel and the seconds of each call, in the order of the calls.
    """

    def __init__(self) -> None:
        self.took: list[tuple[Any, float]] = []
        self._inside = threading.local()
        self._discarded: set[int] = set()
        self._quick: _FirstCalls | None = None
        #: Ids of kernels whose first call was not timed.
        self._begun: set[int] = set()

    def leave_out(self, seconds: float) -> None:
        """Subtract a number of seconds from the time of the current call in this thread."""
        self._inside.seconds = getattr(self._inside, "seconds", 0.0) + seconds

    def discard(self) -> None:
        """Exclude the call that is being timed from the results."""
        if self._quick is None or self._quick.timing:
            self._discarded.add(len(self.took))

    def begin(self, function: Any, kernel: Any) -> None:
        """Start to time calls of a function when a compiled kernel is launched for the first time.

        Args:
            function: The function from which the kernel was compiled.
            kernel: The compiled kernel that is launched.
        """
        if self._quick is not None:
            self._quick.begin(function, kernel)

    def grouped(self, key: Callable[[Any], K | None]) -> dict[K, list[float]]:
        """Return the seconds of each call, except for calls that may have compiled the kernel.

        Args:
            key: Function that returns the group of a compiled kernel, or None to leave the kernel
                out.
        """
        groups: defaultdict[K, list[float]] = defaultdict(list)
        launched = set(self._begun)
        for number, (kernel, seconds) in enumerate(self.took):
            name = key(kernel)
            if name is not None and id(kernel) in launched and number not in self._discarded:
                groups[name].append(seconds)
            launched.add(id(kernel))
        return dict(groups)

    @contextmanager
    def watching(self, *, synchronous: bool) -> Iterator[None]:
        """Replace Triton's `kernel[grid]` during the `with` block.

        Args:
            synchronous: True if kernels run during the call; then `leave_out` subtracts their time,
                and all calls are timed.
        """
        careful = self._careful()
        with Patches() as patches:
            for step in OUTER_SUBSCRIPTS if not synchronous else (*OUTER_SUBSCRIPTS, SUBSCRIPT):
                take_over(patches, step, lambda _: careful)
            if synchronous:
                yield
                return
            self._quick = _FirstCalls(self.took, self._begun)
            with self._quick.watching():
                yield

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


class _FirstCalls:
    """Measures the first calls of each function, and then restores Triton's own method.

    Args:
        took: Receives the compiled kernel and the seconds of each call.
        begun: Receives the ids of kernels whose first call was not timed.

    Attributes:
        timing: True while calls are timed.
    """

    def __init__(self, took: list[tuple[Any, float]], begun: set[int]) -> None:
        self.timing = False
        self._took, self._begun = took, begun
        #: The number of timed calls, by the id of the function; kernels in `took` keep the
        #: functions alive.
        self._timed: Counter[int] = Counter()
        self._waiting: set[int] = set()
        self._patches = Patches()
        self._lock = threading.Lock()
        self._ended = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Time calls during the `with` block."""
        self._time(True)
        try:
            yield
        finally:
            self._ended = True
            self._time(False)

    def begin(self, function: Any, kernel: Any) -> None:
        """Start to time calls when a compiled kernel is launched for the first time."""
        if self._timed[id(function)] < MOST_TIMED:
            self._waiting.add(id(function))
            if not self.timing:
                self._begun.add(id(kernel))
                self._time(True)

    def _time(self, timing: bool) -> None:
        with self._lock:
            self.timing = timing and not self._ended
            self._patches.undo()
            if self.timing:
                take_over(self._patches, SUBSCRIPT, lambda _: self._call())

    def _call(self) -> Callable[[Any, Any], Any]:
        note, now = self._took.append, time.perf_counter
        timed, waiting = self._timed, self._waiting

        def call(function: Any, grid: Any) -> Any:
            if timed[id(function)] >= MOST_TIMED:
                return partial(function.run, grid=grid, warmup=False)
            waiting.add(id(function))

            def launch(*args: Any, **kwargs: Any) -> Any:
                start = now()
                kernel = function.run(*args, grid=grid, warmup=False, **kwargs)
                note((kernel, now() - start))
                timed[id(function)] += 1
                if timed[id(function)] == MOST_TIMED:
                    waiting.discard(id(function))
                    if not waiting:
                        self._time(False)
                return kernel

            return launch

        return call
