"""Records the launches that a program makes on a GPU, and their work.

Launches are observed where Triton calls the launcher of a compiled kernel. Observing a launch takes
one dictionary lookup, so a program with many launches runs about as fast as without the profiler.
Launches are counted on host memory, either by other processes while the program runs or by this
process after the run. If the work of launches depends on memory, this memory is copied for a sample
of the launches, at the time of the launch.
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
from ttools.core.kernel_selector import kernel_selector
from ttools.core.launch_path import (
    INDUCTOR,
    INDUCTOR_TRIAL,
    LAUNCHER,
    TRIAL,
    TUNED,
    observe,
    take_over,
)
from ttools.core.patches import Patches
from ttools.core.spec import whole_storage
from ttools.interpreter.backend.tuned_config import autotuner_config, follow_configs, is_trial
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
from ttools.profiler.run import launch_metrics
from ttools.profiler.run.call_times import CallTimes
from ttools.profiler.run.launch_metrics import KernelMetadata
from ttools.profiler.run.origin import Origin
from ttools.profiler.run.repetition import NOT_REPEATED, ONCE, Repetition
from ttools.profiler.run.session import OnCounted

#: A launch with its configuration, scopes and metadata; the last entry is True for an autotuner's
#: trial.
_Whole = tuple[EqualCalls, Mapping[str, Any] | None, tuple[str, ...], KernelMetadata, bool]
#: A recorded launch; a tuple if it has a configuration, scopes or metadata, or if it is a trial.
_Record = EqualCalls | _Whole


class GpuCounting:
    """Records launches during `watching`, and counts them.

    Args:
        only: Names of the kernels to record, or a predicate on names; all by default.
        counts: If False, launches are recorded but not counted.
        origin: Observer of the program's scopes.
        own_copies: Records the copies that counting makes while the program runs.
        stacks: If True, the scopes around each launch are recorded.
        repetition: Number of times that each launch is made, and number of launches that only warm
            up.
        trials: If True, trials of autotuners are treated like other launches.
        processes: Processes that count while the program runs; by default, everything is counted
            after the run.
        target: Target for which these processes also disassemble kernels; None to disassemble none.

    Attributes:
        notes: Reasons why launches could not be counted, by kernel.
        calls: Times of the program's calls `kernel[grid](...)`.
        note: Function that records a launch. While scopes are open or an autotuner runs, it is a
            slower function that also records the scopes and the autotuner's configuration.
    """

    def __init__(
        self,
        only: Sequence[str] | Callable[[str], bool] | None,
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
        self._made: GraphCalls[_Record] = GraphCalls(self._choose_note, self._replayed)
        self._copied = 0
        self.calls = CallTimes()
        self._configs = _TunedConfigs(self.calls.leave_out, self._choose_note)
        self._origin, self._stacks = origin, stacks
        self.notes: dict[str, str] = {}
        self._selects, self._counts = kernel_selector(only), counts
        self._repetition = repetition
        self._distinguishes = counts or repetition.warmup > 0
        self._own_copies = own_copies or OwnCopies()
        self._counter = HostCounter(self.notes, self._own_copies, processes)
        self._target = target
        #: The results of disassembly, by compiled kernel.
        self._code: dict[Any, Future[Readings | None] | None] = {}
        #: The functions that replace launchers, by compiled kernel.
        self._launchers: dict[Any, Callable[..., Any]] = {}
        self._lock = threading.Lock()
        self._active = False
        self.note: Callable[[EqualCalls], None]
        self._choose_note()

    @property
    def launches(self) -> list[MadeCall]:
        """Return all launches in order; each replay of a graph adds the launches captured in it."""
        own: Counter[EqualCalls] = Counter()
        launches = []
        every = [_complete(record) for record in self._made.launches]
        works = launches_of([record[0] for record in every])
        for launch, (alike, config, stack, metadata, trial) in zip(works, every, strict=True):
            own[alike.kind] += not trial
            warmup = own[alike.kind] <= self._repetition.warmup
            facts = launch, alike.kernel.compiled, config, stack, metadata.metrics
            launches.append(MadeCall(*facts, warmup, trial, metadata.name))
        return launches

    @property
    def made(self) -> int:
        """Return the number of launches so far."""
        return len(self._made.launches)

    @property
    def variants(self) -> dict[Any, KernelSource]:
        """Return the source of each launched specialisation, in the order of first launches."""
        compiled = {id(k): k for k in (calls.kernel.compiled for calls in self._alikes())}
        return source_by_kernel(compiled.values())

    def _alikes(self) -> Iterator[EqualCalls]:
        """Yield the record of each launch, except for excluded launches."""
        every = (_complete(record) for record in self._made.launches)
        return (record[0] for record in every if not record[-1])

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Replace the launchers of compiled kernels during the `with` block."""
        with ExitStack() as stack:
            stack.enter_context(_alone(self))
            stack.enter_context(self._origin.scopes.listening(self._choose_note))
            stack.enter_context(self._configs.following())
            stack.enter_context(self._made.watching())
            stack.enter_context(self.calls.watching(synchronous=self._repetition.iterations > 1))
            patches = stack.enter_context(Patches())
            take_over(patches, LAUNCHER, lambda original: _LazyAttribute(self._run(original)))
            self._counter.begin()
            self._active = True
            try:
                yield
            finally:
                self._active = False
                self._withdraw()
                self._counter.finish(_LINGER_S)

    def count(self, progress: OnCounted = lambda *_: None) -> None:
        """Count the launches that were not counted when they were made.

        Args:
            progress: Called with the number of counted kinds of launches and their total.
        """
        kinds = list({id(calls.kind): calls.kind for calls in self._alikes()}.values())
        for kind in kinds:
            kind.ask_for_all(self._counter)
        self._counter.finish()
        for done, kind in enumerate(sorted(kinds, key=EqualCalls.is_being_counted)):
            progress(done, len(kinds))
            kind.count(self._counter)

    def readings_of(self, source: KernelSource, target: Target) -> Readings | None:
        """Return the facts that another process derives from a kernel; None if it has not begun."""
        reading = self._code.get(source.compiled) if target == self._target else None
        if reading is None or reading.cancel():
            return None
        try:
            return reading.result()
        except Exception:  # noqa: BLE001 - reading it in this process raises a clearer error
            return None

    # ---- at every launch

    def _run(self, original: Any) -> Callable[[Any], Any]:
        def run(compiled: Any) -> Any:
            if self._counter.here:
                return original.__get__(compiled, type(compiled))
            return self._replacement(compiled, original)

        return run

    def _replacement(self, compiled: Any, original: Any) -> Callable[..., Any]:
        """Return the function that replaces the launcher of a compiled kernel."""
        launcher = self._launchers.get(compiled)
        if launcher is None:
            launcher = original.__get__(compiled, type(compiled))
            function = getattr(compiled.src, "fn", None)
            if function is not None:
                if not self._configs.tuners:
                    self.calls.begin(function, compiled)
                kernel = GpuKernel(compiled)
                if self._selects(kernel.name):
                    launcher = self._first_launcher(kernel, launcher)
        self._set_launcher(compiled, launcher)
        return launcher

    def _set_launcher(self, compiled: Any, launcher: Callable[..., Any]) -> None:
        self._launchers[compiled] = launcher
        if _watching[-1] is self:
            vars(compiled)[_RUN] = launcher

    def _withdraw(self) -> None:
        """Restore the launchers of all kernels."""
        for compiled in self._launchers:
            vars(compiled).pop(_RUN, None)

    def _first_launcher(
        self, kernel: GpuKernel, launcher: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return a launcher that replaces itself once it knows the number of words of a launch."""
        recording = self._recording_launcher(kernel, launcher)

        def launch(*words: Any) -> Any:
            chosen = recording if len(words) == kernel.words else launcher
            self._set_launcher(kernel.compiled, chosen)
            return chosen(*words)

        return launch

    def _recording_launcher(self, kernel: GpuKernel, launcher: Any) -> Callable[..., Any]:
        kinds: dict[Hashable, EqualCalls] = {}
        by_memory = self._counts and kernel.needs_memory
        has_metadata = kernel.function.launch_metadata is not None
        if has_metadata or by_memory or self._repetition.iterations > 1:
            return self._detailed_launcher(kernel, launcher, kinds)
        code = kernel.code(counts=self._distinguishes)
        key = code.key()
        return code.noting(
            get=kinds.get,
            first=lambda words: self._first(kernel, kinds, key, words),
            watch=self,
            call=launcher.__call__,  # looked up once instead of in every launch
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

    # ---- at first launches, and at those of kernels with metadata or repetitions

    def _detailed_launcher(
        self,
        kernel: GpuKernel,
        launcher: Callable[..., Any],
        kinds: dict[Hashable, EqualCalls],
    ) -> Callable[..., Any]:
        key = kernel.code(counts=self._distinguishes).key()

        def launch(*words: Any) -> Any:
            new = key(*words) not in kinds
            alike = self._first(kernel, kinds, key, words)
            metadata = _NOTHING
            if kernel.function.launch_metadata is not None:
                words_of_metadata = words[METADATA], alike.spec.grid, words[FIRST_ARGUMENT:]
                metadata = launch_metrics.of_launch(kernel.compiled, *words_of_metadata)
            context = autotuner_config(), self._stack(), metadata, self._is_left_out()
            times = self._repetition.times(first=new)
            if times > 1 and not self._made.capturing and not is_trial():
                start = time.perf_counter()
                for again in _repeated(kernel, words, times - 1, self.notes, self._own_copies):
                    self._made.add((self._sampled(alike, words), *context))
                    launcher(*words)
                    again()
                self.calls.leave_out(time.perf_counter() - start)
            self._made.add((self._sampled(alike, words), *context))
            return launcher(*words)

        return launch

    def _sampled(self, alike: EqualCalls, words: Words) -> EqualCalls:
        """Return the record of a launch, with copies of the memory that determines its work."""
        if alike.sample is None or not self._active:
            return alike
        if self._made.capturing:
            return alike.captured(words)
        start = time.perf_counter()
        sampled = self._copying(alike, lambda: alike.made(words))
        self.calls.leave_out(time.perf_counter() - start)
        return sampled

    def _copying(self, alike: EqualCalls, copy: Callable[[], EqualCalls]) -> EqualCalls:
        """Return the result of `copy`, or the launch kind's record if the limit is reached."""
        with self._lock:
            if self._copied > _MOST_COPIED:
                self.notes.setdefault(alike.kernel.name, _COPY_LIMIT)
                return alike.kind
            before, copied = self._own_copies.now(), copy()
            contents = copied.contents or {}
            self._own_copies.add(before, (len(copy_of.content) for copy_of in contents.values()))
            self._copied += bytes_of(contents)
        return copied

    def _replayed(self, launch: _Record) -> _Record:
        """Return the record of a captured launch for the replay that is about to start."""
        if not self._active:
            return launch
        if not isinstance(launch, tuple):
            return launch
        alike, config, stack, metadata, trial = launch
        if alike.deciding is None:
            return launch
        return self._copying(alike, alike.again), config, stack, metadata, trial

    def _stack(self) -> tuple[str, ...]:
        return self._origin.scopes.current if self._stacks else ()

    def _first(
        self,
        kernel: GpuKernel,
        kinds: dict[Hashable, EqualCalls],
        key_of: Callable[..., Hashable],
        words: Words,
    ) -> EqualCalls:
        """Return the record of a kind of launches; create it for the first launch of this kind."""
        key = key_of(*words)
        with self._lock:
            alike = kinds.get(key)
            if alike is not None:
                return alike
            alike = EqualCalls(kernel, kernel.signature(words))
            if self._counts and self._active:
                self.calls.discard()
                capturing = self._made.capturing
                first = first_of_kind(kernel, words, self._counter, capturing=capturing)
                if first is None:
                    self.notes.setdefault(kernel.name, _CAPTURED)
                    return alike
                alike = first
            if self._active and not self._is_left_out():
                self._ask(alike)
            kinds[key] = alike
        return alike

    def _ask(self, alike: EqualCalls) -> None:
        """Have other processes count a launch and disassemble its kernel, unless they have.

        Trials of autotuners are not counted, but a later launch may equal a trial.
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
            # The function of the kernel cannot be sent to another process.
            compilation = replace(compilation, source=KernelSource(name=kernel.name))
            self._code[kernel.compiled] = self._counter.read(compilation)


class _TunedConfigs:
    """Tracks autotuners and the configurations of their launches while `following` is active.

    Args:
        leave_out: Function that is called with the duration of each trial in seconds.
        changed: Function that is called when `tuners` changes.

    Attributes:
        tuners: Number of autotuners that are running. If it is 0, launches have no configuration.
    """

    def __init__(self, leave_out: Callable[[float], None], changed: Callable[[], object]) -> None:
        self.tuners = 0
        self._changed = changed
        self._leave_out = leave_out

    def _count(self, more: int) -> None:
        self.tuners += more
        self._changed()

    @contextmanager
    def following(self) -> Iterator[None]:
        """Observe autotuners, their trials and their chosen launches during the `with` block."""
        with Patches() as patches:
            follow_configs(patches)
            count = self._count
            for step in (TUNED, INDUCTOR):
                observe(patches, step, before=lambda *_: count(1), after=lambda *_: count(-1))
            for trial in (TRIAL, INDUCTOR_TRIAL):
                take_over(patches, trial, self._timed)
            yield

    def _timed(self, trial: Callable[..., Any]) -> Callable[..., Any]:
        def _bench(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return trial(tuner, *args, **kwargs)
            finally:
                self._leave_out(time.perf_counter() - start)

        return _bench


def _repeated(
    kernel: GpuKernel,
    words: Words,
    times: int,
    notes: dict[str, str],
    own_copies: OwnCopies,
) -> Iterator[Callable[[], None]]:
    """Yield once for each repetition of a launch, with a function to call after it.

    The function restores the memory that the launch may have written, so that kernels that work in
    place or use atomics do the same work each time. If it is unknown which memory the launch
    writes, there are no repetitions.

    Args:
        times: Number of repetitions of the launch.
        notes: Receives the reason why a launch cannot be repeated, by kernel.
        own_copies: Recorder of the copies that save and restore memory.
    """
    written = kernel.written(words)
    if written is None:
        notes.setdefault(kernel.name, NOT_REPEATED)
        return
    storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in written}
    kept: list[tuple[Any, Any]] = []
    before_copies = own_copies.now()
    for tensor in storages.values():
        # Contiguous bytes are copied without a kernel, which would appear in the profile.
        everything = whole_storage(tensor.untyped_storage())
        kept.append((everything, everything.clone()))

    own_copies.add(before_copies, (len(everything) for everything, _ in kept))

    def again() -> None:
        own_copies.add(own_copies.now(), (len(everything) for everything, _ in kept))
        for everything, before in kept:
            everything.copy_(before)

    for _ in range(times):
        yield again


class _LazyAttribute:
    """A descriptor that computes an attribute of a compiled kernel at its first use.

    Unlike a property, it has lower priority than an entry in the kernel's own dictionary, so that
    later launches find their launcher there without a call.
    """

    def __init__(self, find: Callable[[Any], Any]) -> None:
        self._find = find

    def __get__(self, compiled: Any, kind: type | None = None) -> Any:
        return self if compiled is None else self._find(compiled)


#: The active recordings, the outermost first.
_watching: list[GpuCounting] = []


@contextmanager
def _alone(watch: GpuCounting) -> Iterator[None]:
    """Let a nested recording observe kernels whose launchers outer recordings have replaced."""
    for other in _watching:
        other._withdraw()
    _watching.append(watch)
    try:
        yield
    finally:
        _watching.remove(watch)


#: Seconds after the run for which counting processes wait for sampled launches.
_LINGER_S = 10.0
#: The attribute of compiled kernels that holds their launcher.
_RUN = "run"
_NOTHING = KernelMetadata(MappingProxyType({}))
#: The limit for the total size of all copies of memory on the GPU, in bytes.
_MOST_COPIED = 256 << 20
_COPY_LIMIT = (
    "its work depends on the contents of memory, and copies of this memory take more than 256 MiB, "
    "so later launches are estimated from earlier ones"
)
_CAPTURED = (
    "not counted: its work depends on the contents of memory, and a CUDA graph captured the kernel "
    "before it had run"
)


def _complete(launch: _Record) -> _Whole:
    return launch if isinstance(launch, tuple) else (launch, None, (), _NOTHING, False)
