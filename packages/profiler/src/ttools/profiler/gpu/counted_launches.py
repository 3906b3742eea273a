"""Which launches a program makes on a GPU, and what each of them does.

A launch is counted on the host, on copies of its tensors, before it runs; equal launches are
counted once. Must not know how launches are timed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ttools.core import triton_versions
from ttools.core.errors import TtoolsError
from ttools.interpreter import interpret
from ttools.interpreter.backend.tuned_config import autotuner_config
from ttools.interpreter.launch import LaunchReport
from ttools.interpreter.observation import ObservedLaunch
from ttools.profiler import launch_metrics
from ttools.profiler.counting.counter import LaunchCounter
from ttools.profiler.counting.counts import LaunchCounts
from ttools.profiler.gpu.graphs import GraphLaunches
from ttools.profiler.gpu.tuned_launches import known_configs
from ttools.profiler.origin import Origin, kernel_source

#: Set while a launch is counted, which goes through the same function as the launch itself.
_counting: ContextVar[bool] = ContextVar("ttools_profiler_counts", default=False)


@dataclass(frozen=True, kw_only=True)
class GpuLaunch:
    """A launch on the GPU.

    Attributes:
        kernel: its name.
        grid: its extents.
        counts: what it does; None where that cannot be counted or was not asked for.
        source: file and first line of the kernel.
    """

    kernel: str
    grid: tuple[int, ...]
    counts: LaunchCounts | None
    source: tuple[str, int] | None = None


class MadeLaunch(NamedTuple):
    """A launch with what is its own; others may do the same.

    Attributes:
        launch: what it does.
        stack: scopes or functions around it.
        config: of the autotuner that made it.
        metrics: what its kernel tells of it.
    """

    launch: GpuLaunch
    stack: tuple[str, ...] = ()
    config: Mapping[str, Any] | None = None
    metrics: Mapping[str, float] = MappingProxyType({})


class _CountOnly:
    """An observer that counts a launch and does not run it."""

    def __init__(self, counter: LaunchCounter) -> None:
        self._counter = counter
        self.grid: tuple[int, ...] = ()
        self.counts: LaunchCounts | None = None

    def launch(self, launch: ObservedLaunch) -> LaunchReport:
        self.grid = tuple(map(int, launch.grid))
        self.counts = self._counter.count(launch)
        return LaunchReport(0, 0.0)


class CountedLaunches:
    """Watches launches while its context lasts.

    Args:
        only: names of the kernels to watch; all by default.
        counts: whether to count what launches do.
        origin: tells where launches are made.

    Attributes:
        notes: what could not be counted, by kernel.
    """

    def __init__(self, only: Sequence[str] | None, *, counts: bool, origin: Origin) -> None:
        self._made: GraphLaunches[MadeLaunch] = GraphLaunches()
        self._origin = origin
        self.notes: dict[str, str] = {}
        self._only, self._counts = only, counts
        self._counter = LaunchCounter()
        self._known: dict[object, GpuLaunch] = {}
        self._lock = threading.Lock()

    @property
    def launches(self) -> Sequence[MadeLaunch]:
        """In their order; a replayed graph's are its."""
        return self._made.launches

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Replaces `JITFunction.run` while the context lasts."""
        with ExitStack() as stack:
            stack.enter_context(self._origin.scopes.listening())
            stack.enter_context(launch_metrics.told(self._take))
            stack.enter_context(known_configs())
            stack.enter_context(self._made.watching())
            stack.enter_context(self._replaced())
            yield

    @contextmanager
    def _replaced(self) -> Iterator[None]:
        JITFunction = triton_versions.jit_function_class()
        original = JITFunction.run

        def run(function: Any, *args: Any, **kwargs: Any) -> Any:
            if not _counting.get() and not kwargs.get("warmup"):
                self._note(function, args, kwargs, original)
            return original(function, *args, **kwargs)

        JITFunction.run = run
        try:
            yield
        finally:
            JITFunction.run = original

    def _note(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[..., Any]
    ) -> None:
        name = function.__name__
        if self._only is not None and name not in self._only:
            return
        # Without counts all launches of a kernel are the same to us.
        key = _key(function, args, kwargs) if self._counts else function
        with self._lock:
            known = self._known.get(key) if key is not None else None
            if known is None:
                known = self._first(function, name, args, kwargs, run)
                if key is not None and not (self._counts and self._made.capturing):
                    self._known[key] = _for_later(known)
            self._made.add(MadeLaunch(known, self._origin.stack(), autotuner_config()))

    def _take(self, metrics: dict[str, float]) -> None:
        """What the kernel being launched tells of the launch that was noted last."""
        if metrics and not _counting.get() and self._made.latest is not None:
            self._made.replace_latest(self._made.latest._replace(metrics=metrics))

    def _first(
        self,
        function: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        run: Callable[..., Any],
    ) -> GpuLaunch:
        source = kernel_source(function)
        if self._counts and self._made.capturing:
            # Copying its tensors would end the capture.
            self.notes.setdefault(name, "captured before it ran once, so it is not counted")
        if not self._counts or self._made.capturing:
            return GpuLaunch(kernel=name, grid=(), counts=None, source=source)
        observer = _CountOnly(self._counter)
        token = _counting.set(True)
        try:
            with interpret(only=[name], observer=observer):
                function.run(*args, **kwargs)
        except TtoolsError as error:
            self.notes.setdefault(name, getattr(error, "what", None) or str(error))
        finally:
            _counting.reset(token)
        if observer.counts is not None:
            for note in observer.counts.notes:
                self.notes.setdefault(name, note)
        return GpuLaunch(kernel=name, grid=observer.grid, counts=observer.counts, source=source)


def _for_later(launch: GpuLaunch) -> GpuLaunch:
    """What is known of later launches that look the same: what they do may depend on memory."""
    counts = launch.counts
    if counts is None or not counts.depends_on_memory:
        return launch
    return replace(launch, counts=replace(counts, exact=False))


def _key(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object | None:
    """Equal for launches that do the same, but for what depends on memory; None if unknown."""
    try:
        named = tuple((name, _fact(value)) for name, value in kwargs.items())
        key = (function, tuple(map(_fact, args)), named)
        hash(key)
    except TypeError:
        return None
    return key


def _fact(value: Any) -> object:
    if hasattr(value, "data_ptr"):
        return str(value.dtype), tuple(value.shape), tuple(value.stride())
    if callable(value):  # a grid that depends on the configuration: its arguments are in the key
        return getattr(value, "__code__", value)
    return type(value), value
