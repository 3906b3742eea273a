"""Runs a compiled kernel over its grid.

Owns the `NativeLaunch` structure that native code reads, the grid's checks, and the choice between
this thread and the pool. It must not know how code was made nor what the parameters mean; what
happens in kernels whose programs wait for each other is `parking`'s.
"""

from __future__ import annotations

import ctypes
import signal
import struct
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from ttools.core.errors import KernelError, UsageError
from ttools.core.location import SourceLocation
from ttools.interpreter.abi.launch_layout import FORMAT, PARAMETERS, NativeLaunch, offset
from ttools.interpreter.abi.module import CallbackKind, EmittedModule
from ttools.interpreter.native.jit import NativeCode
from ttools.interpreter.native.line_table import LineTable
from ttools.interpreter.runtime import crash_note, parking
from ttools.interpreter.runtime.callbacks import CALLBACK, Callbacks
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.monitor import Monitor, SiteTable
from ttools.interpreter.runtime.pool import Arena, default_threads, pool, share
from ttools.interpreter.runtime.selection import Grid, arrange
from ttools.interpreter.runtime.stopping import Running, Stop
from ttools.interpreter.runtime.support.native_runtime import native_runtime

#: A thread that gets less work than this is not worth waking.
_WORTHWHILE_SECONDS = 20e-6
#: Work that seemed no longer than this on several threads may have been mere waking: see it alone.
_DOUBTFUL_SECONDS = 200e-6
#: Launches that may take longer leave the calling thread free to notice Ctrl-C.
_PATIENCE_SECONDS = 0.1
#: A limit of so many times what a launch without loops takes is out of its reach.
_BY_FAR = 1e3

_PENDING = offset("pending")
INTERRUPTED = 128 + signal.SIGINT
_LAST_PROGRAM = 2**31 - 1
_U64 = 2**64 - 1


_DEFAULT = LaunchOptions()
#: Sites of these kinds never call.
_SILENT = {CallbackKind.ENDLESS, CallbackKind.LOOP}


class Kernel:
    """Loaded native code, the emitter's description of it, and what its programs cost so far.

    Args:
        lines: see below.
        defined: where the kernel is defined, for last words.

    Attributes:
        cost: seconds per program on one thread, a moving average; None before the first launch.
        ran_alone: whether any launch had one thread, so that the cost is not only that of waking.
        last_words: address of what a note says of the kernel, see `crash_note`.
        lines: which line each address of the code belongs to, where it was emitted to tell.
        endless: whether its programs may run for ever, and look at the abort flag meanwhile.
        may_last: whether they have loops in which they look at it, or wait for each other.
        note_stop: address of what they call when they see it set.
    """

    def __init__(
        self,
        emitted: EmittedModule,
        native: NativeCode,
        lines: LineTable | None = None,
        defined: SourceLocation | None = None,
    ) -> None:
        self.emitted = emitted
        self.native = native
        self.lines = lines
        self.cost: float | None = None
        self.ran_alone = False
        self._layout = struct.Struct(f"{FORMAT}{len(emitted.parameters)}Q")
        self.pack_into = self._layout.pack_into
        self.launch_bytes = self._layout.size
        kinds = {site.kind for site in emitted.sites}
        self.calls_back = bool(kinds - _SILENT or emitted.probes)
        self.probes = SiteTable(emitted.probes)
        # What a kernel prints must come out program by program.
        self.prints = CallbackKind.PRINT in kinds
        self.endless = CallbackKind.ENDLESS in kinds
        self.may_last = self.endless or CallbackKind.LOOP in kinds or emitted.spins
        self.last_words = crash_note.phrase(emitted.name, defined)
        self.note_stop = native_runtime().note_stop

    def add_cost(self, measured: float) -> None:
        """Takes the seconds per program of another launch into account."""
        self.cost = measured if self.cost is None else 0.5 * (self.cost + measured)


class LaunchReport(NamedTuple):
    """What a launch did.

    The outcome of a launch, not the launch, which is a `LaunchSpec`.

    Attributes:
        programs: how many ran.
        seconds: from the first start to the last end.
        threads: how many threads they could use.
        warnings: what the user should know of a launch that completed.
    """

    programs: int
    seconds: float
    threads: int = 1
    warnings: tuple[parking.CompletionWarning, ...] = ()


class _Scratch:
    """Memory of one launch at a time: a `NativeLaunch` with its parameters, and an arena."""

    __slots__ = ("_memory", "address", "arena", "buffer", "launch")

    def __init__(self) -> None:
        self.arena = Arena()
        self._allocate(1024)

    def _allocate(self, size: int) -> None:
        self._memory = Arena()
        self.address = self._memory.reserve(size)
        self.buffer = (ctypes.c_char * self._memory.size).from_address(self.address)
        self.launch = NativeLaunch.from_address(self.address)

    def reserve(self, launch_bytes: int) -> None:
        if launch_bytes > self._memory.size:
            self._allocate(launch_bytes)

    def abort(self) -> None:
        """Stops the launch: no more programs start, running ones end at their next check."""
        self.launch.abort = 1


class _Scratches(threading.local):
    """Each thread's scratch memory, deeper launches (from callbacks) using the later ones."""

    def __init__(self) -> None:
        self.all = [_Scratch()]
        self.depth = 0


_scratches = _Scratches()


def run(
    kernel: Kernel,
    params: Sequence[int],
    grid: Sequence[int],
    options: LaunchOptions = _DEFAULT,
    monitor: Monitor | None = None,
) -> LaunchReport:
    """Runs the programs of `grid` and returns when all have ended.

    Args:
        params: raw 64-bit values of the parameters, in order.
        grid: one to three extents.
        options: which programs run, in which order, on how many threads.
        monitor: receives what an instrumented kernel observes; its address is the last parameter.

    Raises:
        UsageError: the grid, the selection or an option makes no sense.
        KernelError: a `device_assert` failed, the programs wait for each other forever, or the
            launch took longer than it may (kind `timeout`).
    """
    x, y, z = extents = _extents(grid)
    count = x * y * z
    order = None
    if options.programs is not None or options.order != "natural":
        order = arrange(extents, options.order, options.seed, options.programs) if count else None
        count = count if order is None else len(order)
    if count == 0:
        return LaunchReport(0, 0.0)

    local = _scratches
    if local.depth == len(local.all):
        local.all.append(_Scratch())
    scratch = local.all[local.depth]
    local.depth += 1
    try:
        scratch.reserve(kernel.launch_bytes)
        _fill(kernel, scratch, params, extents, count, 0 if order is None else order.ctypes.data)
        if kernel.may_last or _may_outlast(kernel, count, options.seconds):
            return _run_watched(kernel, scratch, extents, count, options, monitor)
        if kernel.calls_back:
            return _call(kernel, scratch, extents, count, options, monitor, None)
        return _execute(kernel, scratch, count, options, None, None)
    finally:
        local.depth -= 1


def _run_watched(
    kernel: Kernel,
    scratch: _Scratch,
    extents: Grid,
    count: int,
    options: LaunchOptions,
    monitor: Monitor | None,
) -> LaunchReport:
    """Runs the programs of a launch that may have to be stopped."""
    running = Running(scratch.address, scratch.launch, options.seconds)
    try:
        with running:
            report = _call(kernel, scratch, extents, count, options, monitor, running)
    except KeyboardInterrupt:
        if monitor is not None:
            monitor.stop = _stop(kernel, scratch, extents, count, running)
        raise
    if running.reason is not None:
        _raise_stopped(_stop(kernel, scratch, extents, count, running), monitor)
    return report


def _call(
    kernel: Kernel,
    scratch: _Scratch,
    extents: Grid,
    count: int,
    options: LaunchOptions,
    monitor: Monitor | None,
    running: Running | None,
) -> LaunchReport:
    """Runs the programs, and answers what they call."""
    if not kernel.calls_back:
        return _execute(kernel, scratch, count, options, None, running)
    with Callbacks(kernel.emitted, extents, scratch.address, monitor) as callbacks:
        report = _execute(kernel, scratch, count, options, callbacks, running)
    callbacks.raise_first()
    return report


def _stop(kernel: Kernel, scratch: _Scratch, extents: Grid, count: int, running: Running) -> Stop:
    """Where a launch was when it was stopped."""
    launch = scratch.launch
    program, location = None, None
    if launch.stopped:
        x, y, _ = extents
        linear = launch.stopped_program
        program = linear % x, linear // x % y, linear // (x * y)
        location = kernel.emitted.sites[launch.stopped_site].location
    return Stop(
        kernel=kernel.emitted.name,
        reason=running.reason or "interrupt",
        seconds=time.monotonic() - running.began,
        program=program,
        location=location,
        begun=min(launch.next, count),
        programs=count,
    )


def _raise_stopped(stop: Stop, monitor: Monitor | None) -> NoReturn:
    if monitor is not None:
        monitor.stop = stop
    if stop.reason == "timeout":
        raise KernelError(
            f"kernel `{stop.kernel}` was stopped after {stop.seconds:.3g} s; {stop.progress}",
            stop.location,
            kind="timeout",
            program=stop.program,
        )
    if stop.reason == "interrupt" and _in_main_thread():
        signal.pthread_sigmask(signal.SIG_BLOCK, ())  # Python raises here what it still has to
        raise KeyboardInterrupt
    # A thread that does not catch it ends without a word; a subclass would be printed.
    raise SystemExit(INTERRUPTED)


def _may_outlast(kernel: Kernel, count: int, seconds: float | None) -> bool:
    """Whether a launch without loops may take longer than it is given, by what it took before."""
    if not seconds or kernel.cost is None:
        return bool(seconds)
    return kernel.cost * count > min(_PATIENCE_SECONDS, seconds / _BY_FAR)


def _extents(grid: Sequence[int]) -> Grid:
    extents = (*map(int, grid), 1, 1, 1)[:3] if 1 <= len(grid) <= 3 else None
    if extents is None:
        raise UsageError(f"grid {tuple(grid)}: a grid has one to three extents")
    x, y, z = extents
    if x < 0 or y < 0 or z < 0:
        raise UsageError(f"grid {tuple(grid)}: an extent cannot be negative")
    if x > _LAST_PROGRAM or y > _LAST_PROGRAM or z > _LAST_PROGRAM:
        raise UsageError(f"grid {tuple(grid)}: an extent can be at most 2**31 - 1")
    if x * y * z >= 2**63:
        raise UsageError(f"grid {tuple(grid)}: more programs than a 64-bit number can count")
    return x, y, z


def _fill(
    kernel: Kernel,
    scratch: _Scratch,
    params: Sequence[int],
    extents: Grid,
    count: int,
    order: int,
) -> None:
    """Writes the `NativeLaunch` structure and the parameters behind it."""
    address = scratch.address
    head = 0, count, order, *extents, 0, address + PARAMETERS
    fields = (*head, CALLBACK, 1, kernel.note_stop)
    try:
        kernel.pack_into(scratch.buffer, 0, *fields, *params)
    except struct.error:
        expected = len(kernel.emitted.parameters)
        if len(params) != expected:
            raise UsageError(
                f"kernel `{kernel.emitted.name}` has {expected} parameters, not {len(params)}"
            ) from None
        kernel.pack_into(scratch.buffer, 0, *fields, *(value & _U64 for value in params))


def _execute(
    kernel: Kernel,
    scratch: _Scratch,
    count: int,
    options: LaunchOptions,
    callbacks: Callbacks | None,
    running: Running | None,
) -> LaunchReport:
    emitted = kernel.emitted
    crash_note.remember(kernel.last_words)
    cost = kernel.cost
    threads = _most_threads(kernel, count, options)
    if callbacks is not None and emitted.spins:
        if cost is not None and threads > 1:
            scratch.launch.batch = _batch(count, threads, cost)
        start = time.perf_counter()
        warnings = parking.run_waiting(
            kernel.native.address, emitted, scratch.address, callbacks, min(threads, count)
        )
        seconds = time.perf_counter() - start
        kernel.add_cost(seconds * threads / count)
        return LaunchReport(count, seconds, threads, warnings)

    if threads > 1:
        threads = _worthwhile_threads(kernel, count, threads)
    scratch.launch.batch = _batch(count, threads, cost)
    brief = cost is not None and cost * count < _PATIENCE_SECONDS * threads
    patient = brief and not kernel.endless
    alone = count == 1 and not kernel.endless
    if threads == 1 and (alone or patient or not _in_main_thread()):
        arena = scratch.arena.reserve(emitted.arena_bytes)
        if running is not None and _in_main_thread():
            running.hold_main()
        start = time.perf_counter()
        kernel.native.function(scratch.address, arena)
        seconds = time.perf_counter() - start
    else:
        if running is not None and patient and _in_main_thread():
            running.hold_main()
        seconds, threads = _share(kernel, scratch, threads, patient)
    if threads == 1 and not kernel.ran_alone:
        kernel.ran_alone, kernel.cost = True, None
    kernel.add_cost(seconds * threads / count)
    return LaunchReport(count, seconds, threads)


def _most_threads(kernel: Kernel, count: int, options: LaunchOptions) -> int:
    """How many threads a launch may use; how many there are is not asked where one is enough."""
    brief = kernel.cost is not None and kernel.cost * count < _WORTHWHILE_SECONDS
    if count == 1 or (brief and not kernel.emitted.spins):
        return 1
    return options.threads or default_threads()


def _worthwhile_threads(kernel: Kernel, count: int, threads: int) -> int:
    if kernel.prints:
        return 1
    if kernel.cost is None:
        return min(threads, count)
    if not kernel.ran_alone and kernel.cost * count < _DOUBTFUL_SECONDS:
        return 1
    return min(threads, count, 1 + int(kernel.cost * count / _WORTHWHILE_SECONDS))


def _batch(count: int, threads: int, cost: float | None) -> int:
    """How many programs a thread takes at once: enough to hide the hand-out, few to balance."""
    if threads == 1:
        return min(count, 1024)
    batch = min(count // (threads * 16), 64)
    if cost:
        batch = min(batch, int(10e-6 / cost))
    return max(1, batch)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _share(kernel: Kernel, scratch: _Scratch, threads: int, patient: bool) -> tuple[float, int]:
    """Runs a launch on workers, and on this thread if it need not watch for Ctrl-C.

    Returns:
        The seconds it took and the number of threads that ran programs.
    """
    takes_part = patient or not _in_main_thread()
    arena_bytes = kernel.emitted.arena_bytes
    workers = pool().lease(threads - takes_part, arena_bytes, limit=threads)
    # Without a worker, as in a launch from a worker's callback, this thread does it all.
    takes_part = takes_part or not workers
    arena = scratch.arena.reserve(arena_bytes) if takes_part else None
    address, pending = scratch.address, scratch.address + _PENDING
    start = time.perf_counter()
    try:
        share(workers, kernel.native.address, address, arena, pending, scratch.abort)
    finally:
        pool().take_back(workers, keep=max(threads, len(workers)))
    return time.perf_counter() - start, len(workers) + takes_part
