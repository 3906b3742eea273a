"""Which launches a program makes on a GPU, and what each of them does.

A launch is counted on the host, on copies of its tensors, before it runs; equal launches are
counted once. What is done at every launch is kept to a few lookups: programs that launch much are
to run as fast as without. Must not know how launches are timed.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ttools.core import triton_versions
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.launched import sources_of
from ttools.core.errors import TtoolsError
from ttools.interpreter import interpret
from ttools.interpreter.launch import LaunchReport
from ttools.interpreter.observation import ObservedLaunch
from ttools.profiler import launch_metrics
from ttools.profiler.counting.counter import LaunchCounter
from ttools.profiler.counting.counts import LaunchCounts
from ttools.profiler.gpu.graphs import GraphLaunches
from ttools.profiler.gpu.tuned_launches import TunedConfigs
from ttools.profiler.origin import Origin, kernel_source

#: Launches that are recognised by their arguments' identities; then begin anew.
_MOST_RECOGNISED = 4096
#: Arguments that are the same value whenever they are the same object.
_CONSTANT = (int, float, str, bool, type(None))


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
        compiled: the kernel that Triton compiled for it.
        config: of the autotuner that made it.
        stack: scopes around it, where these were asked for.
        metrics: what its kernel tells of it.
    """

    launch: GpuLaunch
    compiled: Any = None
    config: Mapping[str, Any] | None = None
    stack: tuple[str, ...] = ()
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
        origin: hears of scopes.
        stacks: whether to tell the scopes around each launch.

    Attributes:
        notes: what could not be counted, by kernel.
    """

    def __init__(
        self, only: Sequence[str] | None, *, counts: bool, origin: Origin, stacks: bool = True
    ) -> None:
        self._made: GraphLaunches[tuple[Any, ...]] = GraphLaunches()
        self._configs = TunedConfigs()
        self._origin, self._stacks = origin, stacks
        self.notes: dict[str, str] = {}
        self._only, self._counts = only, counts
        self._counter = LaunchCounter()
        self._known: dict[object, GpuLaunch] = {}
        #: Launches by the identities of function and arguments, all of which are held or watched.
        self._recognised: dict[tuple[int, ...], tuple[GpuLaunch, list[Any]]] = {}
        self._plain: dict[int, tuple[Any, GpuLaunch | None]] = {}
        self._lock = threading.Lock()
        self._counting: int | None = None

    @property
    def launches(self) -> list[MadeLaunch]:
        """In their order; a replayed graph's are its."""
        return [MadeLaunch(*each) for each in self._made.launches]

    @property
    def sources(self) -> list[KernelSource]:
        """The specialisations launched, in the order of their first launches."""
        compiled = {id(each[1]): each[1] for each in self._made.launches}
        return sources_of(compiled.values())

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Replaces `JITFunction.run` while the context lasts."""
        kind = triton_versions.jit_function_class()
        original = kind.run
        with ExitStack() as stack:
            stack.enter_context(self._origin.scopes.listening())
            stack.enter_context(self._configs.known())
            stack.enter_context(self._made.watching())
            kind.run = self._counted(original) if self._counts else self._uncounted(original)
            try:
                yield
            finally:
                kind.run = original

    # ---- at every launch

    def _uncounted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        plain, made, configs = self._plain, self._made, self._configs

        def run(function: Any, *args: Any, **kwargs: Any) -> Any:
            if function.launch_metadata is not None:
                return self._told(function, args, kwargs, original)
            kernel = original(function, *args, **kwargs)
            try:
                launch = plain[id(function)][1]
            except KeyError:
                launch = self._plainly(function)
            if launch is not None and not kwargs.get("warmup"):
                made.add((launch, kernel, configs.current() if configs.tuners else None))
            return kernel

        return run

    def _counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        recognised, made, configs = self._recognised, self._made, self._configs
        origin = self._origin

        def run(function: Any, *args: Any, **kwargs: Any) -> Any:
            if self._counting is not None and self._counting == threading.get_ident():
                return original(function, *args, **kwargs)
            if function.launch_metadata is not None:
                return self._told(function, args, kwargs, original)
            ids = (id(function), *map(id, args), *map(id, kwargs.values()))
            known = recognised.get(ids)
            launch = self._note(function, args, kwargs, ids) if known is None else known[0]
            kernel = original(function, *args, **kwargs)
            if launch is not None:
                config = configs.current() if configs.tuners else None
                stack = origin.scopes.current if self._stacks else ()
                made.add((launch, kernel, config, stack))
            return kernel

        return run

    # ---- at first launches, and at those of kernels that tell numbers

    def _told(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        original: Callable[..., Any],
    ) -> Any:
        launch = (
            self._note(function, args, kwargs, None) if self._counts else self._plainly(function)
        )
        metrics: list[dict[str, float]] = []
        with launch_metrics.told(metrics.append):
            kernel = original(function, *args, **kwargs)
        if launch is not None and not kwargs.get("warmup"):
            stack = self._origin.scopes.current if self._stacks else ()
            told = metrics[-1] if metrics else {}
            self._made.add((launch, kernel, self._configs.current(), stack, told))
        return kernel

    def _plainly(self, function: Any) -> GpuLaunch | None:
        """A launch of which only the kernel is known; None if it is not wanted."""
        known = self._plain.get(id(function))
        if known is None:
            name = function.__name__
            wanted = self._only is None or name in self._only
            launch = GpuLaunch(kernel=name, grid=(), counts=None, source=kernel_source(function))
            # Holding the function keeps its id.
            known = self._plain[id(function)] = (function, launch if wanted else None)
        return known[1]

    def _note(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        ids: tuple[int, ...] | None,
    ) -> GpuLaunch | None:
        plain = self._plainly(function)
        if plain is None or kwargs.get("warmup"):
            return None
        key = _key(function, args, kwargs)
        with self._lock:
            known = self._known.get(key) if key is not None else None
            if known is None:
                known = self._first(function, plain, args, kwargs)
                if self._made.capturing:
                    return known
                if key is not None:
                    self._known[key] = _for_later(known)
            if ids is not None:
                self._recognise(ids, (*args, *kwargs.values()), _for_later(known))
        return known

    def _recognise(self, ids: tuple[int, ...], values: Sequence[Any], launch: GpuLaunch) -> None:
        """Lets the next launch with the very same arguments be recognised by their identities."""
        if len(self._recognised) >= _MOST_RECOGNISED:
            self._recognised.clear()
        forget, held = self._recognised.pop, []
        for value in values:
            if hasattr(value, "data_ptr"):
                # Gone with the tensor, since another object may then have its id.
                held.append(weakref.ref(value, lambda _: forget(ids, None)))
            elif _is_constant(value):
                held.append(value)
            else:
                return
        self._recognised[ids] = (launch, held)

    def _first(
        self, function: Any, plain: GpuLaunch, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> GpuLaunch:
        name = plain.kernel
        if self._made.capturing:
            # Copying its tensors would end the capture.
            self.notes.setdefault(name, "captured before it ran once, so it is not counted")
            return plain
        observer = _CountOnly(self._counter)
        self._counting = threading.get_ident()
        try:
            with interpret(only=[name], observer=observer):
                function.run(*args, **kwargs)
        except TtoolsError as error:
            self.notes.setdefault(name, getattr(error, "what", None) or str(error))
        finally:
            self._counting = None
        if observer.counts is not None:
            for note in observer.counts.notes:
                self.notes.setdefault(name, note)
        return replace(plain, grid=observer.grid, counts=observer.counts)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return isinstance(value, _CONSTANT)


def _for_later(launch: GpuLaunch) -> GpuLaunch:
    """What is known of later launches that look the same: what they do may depend on memory."""
    counts = launch.counts
    if counts is None or not counts.depends_on_memory or not counts.exact:
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
