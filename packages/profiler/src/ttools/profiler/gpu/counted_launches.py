"""Which launches a program makes on a GPU, and what each of them does.

Watches launches where Triton hands them to the launcher of a compiled kernel. What is done at
every launch is kept to a lookup: programs that launch much are to run as fast as without. Launches
are counted on memory that stands for theirs, in other processes while the program runs or in this
one when it has ended. Where what they do depends on what is in memory, that memory is copied when a
launch is made, for a sample of the launches.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ttools.core.compilation.inspection import Readings
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.specialisation import source_by_kernel
from ttools.core.compilation.stages import launched_compilation
from ttools.core.gpus.targets import Target
from ttools.core.launch_path import LAUNCHER, take_over
from ttools.core.patches import Patches
from ttools.interpreter.backend.tuned_config import autotuner_config, is_trial
from ttools.profiler.gpu.copies import OwnCopies
from ttools.profiler.gpu.counting_processes import CountingProcesses
from ttools.profiler.gpu.equal_launches import (
    EqualCalls,
    MadeCall,
    first_of_kind,
    launches_of,
)
from ttools.profiler.gpu.graphs import GraphCalls
from ttools.profiler.gpu.host_count import HostCounter
from ttools.profiler.gpu.launched_kernel import (
    FIRST_ARGUMENT,
    METADATA,
    GpuKernel,
    Words,
)
from ttools.profiler.gpu.memory_samples import bytes_of
from ttools.profiler.gpu.repeated import repeated
from ttools.profiler.gpu.tuned_launches import TunedConfigs
from ttools.profiler.run import launch_metrics
from ttools.profiler.run.call_times import CallTimes
from ttools.profiler.run.launch_metrics import KernelMetadata
from ttools.profiler.run.origin import Origin
from ttools.profiler.run.repetition import ONCE, Repetition
from ttools.profiler.run.session import OnCounted

#: With configuration, scopes, what the kernel says, and whether it is an autotuner's trial.
_Whole = tuple[EqualCalls, Mapping[str, Any] | None, tuple[str, ...], KernelMetadata, bool]
#: A launch as it is noted: whole where it has any of these.
_Noted = EqualCalls | _Whole


class GpuCounting:
    """Watches launches while its context lasts.

    Args:
        only: names of the kernels to watch; all by default.
        counts: whether to count what launches do.
        origin: hears of scopes.
        own_copies: Takes note of copies that counting makes while the program runs.
        stacks: whether to tell the scopes around each launch.
        repetition: how often launches are made, and which of them only warm up.
        trials: whether trials of autotuners are launches like others.
        processes: Count launches while the program runs; by default all are counted after it.
        target: Have these processes read the code of kernels that are compiled for it, too.

    Attributes:
        notes: what could not be counted, by kernel.
        calls: how long calls took.
        note: takes note of a launch; another function where more is to be known of it.
    """

    def __init__(
        self,
        only: Sequence[str] | None,
        *,
        counts: bool,
        origin: Origin,
        own_copies: OwnCopies | None = None,
        stacks: bool = True,
        repetition: Repetition = ONCE,
        trials: bool = False,
        processes: CountingProcesses | None = None,
        target: Target | None = None,
    ) -> None:
        self._trials = trials
        self._made: GraphCalls[_Noted] = GraphCalls(self._choose_note, self._replayed)
        self._copied = 0
        self.calls = CallTimes()
        self._configs = TunedConfigs(self.calls.leave_out, self._choose_note)
        self._origin, self._stacks = origin, stacks
        self.notes: dict[str, str] = {}
        self._only, self._counts = only, counts
        self._repetition = repetition
        self._distinguishes = counts or repetition.warmup > 0
        self._own_copies = own_copies or OwnCopies()
        self._counter = HostCounter(self.notes, self._own_copies, processes)
        self._target = target
        #: What will hold what is read off the code of compiled kernels.
        self._code: dict[Any, Future[Readings | None] | None] = {}
        #: Compiled kernels with what stands for their launchers.
        self._launchers: dict[Any, Callable[..., Any]] = {}
        self._lock = threading.Lock()
        self._active = False
        self.note: Callable[[EqualCalls], None]
        self._choose_note()

    @property
    def launches(self) -> list[MadeCall]:
        """In their order; a replayed graph's are its."""
        own: Counter[EqualCalls] = Counter()
        found = []
        every = [_complete(noted) for noted in self._made.launches]
        told = launches_of([each[0] for each in every])
        for launch, (alike, config, stack, metadata, trial) in zip(told, every, strict=True):
            own[alike.kind] += not trial
            warmup = own[alike.kind] <= self._repetition.warmup
            known = launch, alike.kernel.compiled, config, stack, metadata.metrics
            found.append(MadeCall(*known, warmup, trial, metadata.name))
        return found

    @property
    def made(self) -> int:
        return len(self._made.launches)

    @property
    def variants(self) -> dict[Any, KernelSource]:
        """The specialisations launched, in the order of their first launches."""
        compiled = {id(k): k for k in (each.kernel.compiled for each in self._alikes())}
        return source_by_kernel(compiled.values())

    def _alikes(self) -> Iterator[EqualCalls]:
        """Of each launch that is not left out."""
        every = (_complete(noted) for noted in self._made.launches)
        return (each[0] for each in every if not each[-1])

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Stands for the launchers of compiled kernels while the context lasts."""
        with ExitStack() as stack:
            stack.enter_context(_alone(self))
            stack.enter_context(self._origin.scopes.listening(self._choose_note))
            stack.enter_context(self._configs.known())
            stack.enter_context(self._made.watching())
            stack.enter_context(self.calls.watching(synchronous=self._repetition.iterations > 1))
            patches = stack.enter_context(Patches())
            take_over(patches, LAUNCHER, lambda original: _Found(self._run(original)))
            self._counter.begin()
            self._active = True
            try:
                yield
            finally:
                self._active = False
                self._withdraw()
                self._counter.finish(_LINGER_S)

    def count(self, progress: OnCounted = lambda *_: None) -> None:
        """Count launches that were not counted when they were made.

        Args:
            progress: Is called with how many kinds of launches were counted, and of how many.
        """
        kinds = list({id(each.kind): each.kind for each in self._alikes()}.values())
        for kind in kinds:
            kind.ask_for_all(self._counter)
        self._counter.finish()
        for done, kind in enumerate(sorted(kinds, key=EqualCalls.is_being_counted)):
            progress(done, len(kinds))
            kind.count(self._counter)

    def readings_of(self, source: KernelSource, target: Target) -> Readings | None:
        """Return what another process reads off a kernel; None if it has not begun to."""
        reading = self._code.get(source.compiled) if target == self._target else None
        if reading is None or reading.cancel():
            return None
        try:
            return reading.result()
        except Exception:  # noqa: BLE001 - reading it here shows what is wrong
            return None

    # ---- at every launch

    def _run(self, original: Any) -> Callable[[Any], Any]:
        def run(compiled: Any) -> Any:
            if self._counter.here:
                return original.__get__(compiled, type(compiled))
            return self._stand_in(compiled, original)

        return run

    def _stand_in(self, compiled: Any, original: Any) -> Callable[..., Any]:
        """What stands for the launcher of a compiled kernel."""
        launcher = self._launchers.get(compiled)
        if launcher is None:
            launcher = original.__get__(compiled, type(compiled))
            function = getattr(compiled.src, "fn", None)
            if function is not None:
                if not self._configs.tuners:
                    self.calls.begin(function, compiled)
                kernel = GpuKernel(compiled)
                if self._only is None or kernel.name in self._only:
                    launcher = self._beginning(kernel, launcher)
        self._let_stand(compiled, launcher)
        return launcher

    def _let_stand(self, compiled: Any, launcher: Callable[..., Any]) -> None:
        self._launchers[compiled] = launcher
        if _watching[-1] is self:
            vars(compiled)[_RUN] = launcher

    def _withdraw(self) -> None:
        """Asks the class again for what launches its kernels."""
        for compiled in self._launchers:
            vars(compiled).pop(_RUN, None)

    def _beginning(self, kernel: GpuKernel, launcher: Callable[..., Any]) -> Callable[..., Any]:
        """Stands for a launcher until the first launch; others may leave out constants."""
        noting = self._noting(kernel, launcher)

        def launch(*words: Any) -> Any:
            chosen = noting if len(words) == kernel.words else launcher
            self._let_stand(kernel.compiled, chosen)
            return chosen(*words)

        return launch

    def _noting(self, kernel: GpuKernel, launcher: Any) -> Callable[..., Any]:
        known: dict[Hashable, EqualCalls] = {}
        by_memory = self._counts and kernel.needs_memory
        told = kernel.function.launch_metadata is not None
        if told or by_memory or self._repetition.iterations > 1:
            return self._telling(kernel, launcher, known)
        code = kernel.code(counts=self._distinguishes)
        key = code.key()
        return code.noting(
            get=known.get,
            first=lambda words: self._first(kernel, known, key, words),
            watch=self,
            call=launcher.__call__,  # bound here, not at every launch
        )

    def _note_origin(self, alike: EqualCalls) -> None:
        left_out = self._is_left_out()
        if not left_out and self._active:
            self._ask(alike)
        self._made.add((alike, autotuner_config(), self._stack(), _NOTHING, left_out))

    def _is_left_out(self) -> bool:
        return not self._trials and is_trial()

    def _choose_note(self) -> None:
        followed = self._configs.tuners or self._origin.scopes.heard
        self.note = self._note_origin if followed else self._made.add

    # ---- at first launches, and at those of kernels that tell numbers or are repeated

    def _telling(
        self,
        kernel: GpuKernel,
        launcher: Callable[..., Any],
        known: dict[Hashable, EqualCalls],
    ) -> Callable[..., Any]:
        key = kernel.code(counts=self._distinguishes).key()

        def launch(*words: Any) -> Any:
            new = key(*words) not in known
            alike = self._first(kernel, known, key, words)
            metadata = _NOTHING
            if kernel.function.launch_metadata is not None:
                given = words[METADATA], alike.spec.grid, words[FIRST_ARGUMENT:]
                metadata = launch_metrics.of_launch(kernel.compiled, *given)
            own = autotuner_config(), self._stack(), metadata, self._is_left_out()
            times = self._repetition.times(first=new)
            if times > 1 and not self._made.capturing and not is_trial():
                start = time.perf_counter()
                for again in repeated(kernel, words, times - 1, self.notes, self._own_copies):
                    self._made.add((self._sampled(alike, words), *own))
                    launcher(*words)
                    again()
                self.calls.leave_out(time.perf_counter() - start)
            self._made.add((self._sampled(alike, words), *own))
            return launcher(*words)

        return launch

    def _sampled(self, alike: EqualCalls, words: Words) -> EqualCalls:
        """Return what stands for a launch, with copies of the memory that decides what it does."""
        if alike.sample is None or not self._active:
            return alike
        if self._made.capturing:
            return alike.captured(words)
        start = time.perf_counter()
        found = self._copying(alike, lambda: alike.made(words))
        self.calls.leave_out(time.perf_counter() - start)
        return found

    def _copying(self, alike: EqualCalls, copy: Callable[[], EqualCalls]) -> EqualCalls:
        """Return what `copy` makes of a launch, as long as there is room for copies."""
        with self._lock:
            if self._copied > _MOST_COPIED:
                self.notes.setdefault(alike.kernel.name, _NO_ROOM)
                return alike.kind
            before, found = self._own_copies.now(), copy()
            contents = found.contents or {}
            self._own_copies.add(before, (len(each.content) for each in contents.values()))
            self._copied += bytes_of(contents)
        return found

    def _replayed(self, noted: _Noted) -> _Noted:
        """Return what stands for a captured launch in a replay that is about to be made."""
        if not self._active:
            return noted
        if not isinstance(noted, tuple):
            return noted
        alike, config, stack, metadata, trial = noted
        if alike.deciding is None:
            return noted
        return self._copying(alike, alike.again), config, stack, metadata, trial

    def _stack(self) -> tuple[str, ...]:
        return self._origin.scopes.current if self._stacks else ()

    def _first(
        self,
        kernel: GpuKernel,
        known: dict[Hashable, EqualCalls],
        key_of: Callable[..., Hashable],
        words: Words,
    ) -> EqualCalls:
        """The first launch of its kind; counted now if only now memory holds what it reads."""
        key = key_of(*words)
        with self._lock:
            alike = known.get(key)
            if alike is not None:
                return alike
            alike = EqualCalls(kernel, kernel.signature(words))
            if self._counts and self._active:
                self.calls.discard()
                capturing = self._made.capturing
                found = first_of_kind(kernel, words, self._counter, capturing=capturing)
                if found is None:
                    self.notes.setdefault(kernel.name, _CAPTURED)
                    return alike
                alike = found
            if self._active and not self._is_left_out():
                self._ask(alike)
            known[key] = alike
        return alike

    def _ask(self, alike: EqualCalls) -> None:
        """Have other processes count a launch and read its kernel, unless they were asked to.

        Trials of autotuners are not asked for, but a later launch may be equal to one.
        """
        alike.ask(self._counter)
        kernel = alike.kernel
        if self._target is None or kernel.compiled in self._code:
            return
        self._code[kernel.compiled] = None
        self.calls.discard()
        own = KernelSource(name=kernel.name, compiled=kernel.compiled)
        compilation = launched_compilation(own, self._target)
        if compilation is not None:
            # Only this process knows the function.
            compilation = replace(compilation, source=KernelSource(name=kernel.name))
            self._code[kernel.compiled] = self._counter.read(compilation)


class _Found:
    """Gives a compiled kernel's attribute at its first use, which the kernel then has itself.

    Unlike a property, it lets what stands in the kernel's own dictionary win: later launches find
    their launcher there without a call.
    """

    def __init__(self, find: Callable[[Any], Any]) -> None:
        self._find = find

    def __get__(self, compiled: Any, kind: type | None = None) -> Any:
        return self if compiled is None else self._find(compiled)


#: Those that watch now, the outermost first.
_watching: list[GpuCounting] = []


@contextmanager
def _alone(watch: GpuCounting) -> Iterator[None]:
    """Shows one that begins inside another one the launches of kernels known to the outer."""
    for other in _watching:
        other._withdraw()
    _watching.append(watch)
    try:
        yield
    finally:
        _watching.remove(watch)


#: Seconds for which processes that count wait after the run for the samples to count.
_LINGER_S = 10.0
#: Of compiled kernels: what launches them.
_RUN = "run"
_NOTHING = KernelMetadata(MappingProxyType({}))
#: Bytes that copies of memory may take on the GPU, together.
_MOST_COPIED = 256 << 20
_NO_ROOM = (
    "what it does depends on memory, and copies of that take more than 256 MiB, so later launches "
    "are estimated by those before"
)
_CAPTURED = "captured before it ran once, so it is not counted: what it does depends on memory"


def _complete(noted: _Noted) -> _Whole:
    return noted if isinstance(noted, tuple) else (noted, None, (), _NOTHING, False)
