"""Runs a compiled kernel over its grid.

This module checks the grid, fills the `NativeLaunch` structure that native code reads, and chooses
between the calling thread and the thread pool. Kernels whose programs wait for each other are run
by the scheduler of blocked programs in `blocked_programs.py`.
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
from ttools.core.spec import coordinates
from ttools.interpreter.abi.launch_layout import FORMAT, PARAMETERS, NativeLaunch, offset
from ttools.interpreter.abi.module import CallbackKind, EmittedModule
from ttools.interpreter.native.jit import NativeCode
from ttools.interpreter.native.line_table import LineTable
from ttools.interpreter.runtime import blocked_programs, crash_note
from ttools.interpreter.runtime.callbacks import CALLBACK, Callbacks
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.monitor import Monitor, SiteTable
from ttools.interpreter.runtime.pool import Arena, default_threads, pool, share
from ttools.interpreter.runtime.selection import Grid, arrange
from ttools.interpreter.runtime.stopping import Running, Stop
from ttools.interpreter.runtime.support.native_runtime import native_runtime

#: Waking a thread is only worthwhile if it gets more work than this.
_WORTHWHILE_SECONDS = 20e-6
#: If a launch on several threads took no longer than this, waking them may have taken most of the
#: time, so the next launch is measured on one thread.
_DOUBTFUL_SECONDS = 200e-6
#: If a launch may take longer than this, the calling thread runs no programs, so that it can react
#: to Ctrl-C.
_PATIENCE_SECONDS = 0.1
#: If the time limit exceeds the expected duration of a launch without loops by this factor, the
#: launch is not watched.
_BY_FAR = 1e3

_PENDING = offset("pending")
INTERRUPTED = 128 + signal.SIGINT
_LAST_PROGRAM = 2**31 - 1
_U64 = 2**64 - 1


_DEFAULT = LaunchOptions()
#: Sites of these kinds never call back.
_SILENT = {CallbackKind.ENDLESS, CallbackKind.LOOP}


class Kernel:
    """Loaded native code, the emitter's description of it, and the measured cost of its programs.

    Args:
        emitted: The emitter's description of the code.
        lines: Maps code addresses to source lines, or None if line tables are off.
        defined: Source location of the kernel's definition, for crash reports.

    Attributes:
        cost: Seconds per program on one thread, a moving average; None before the first launch.
        ran_alone: True if any launch has used a single thread. Otherwise, the measured cost may
            mostly be the cost of waking threads.
        crash_name: Address of the kernel's name for crash reports, see `crash_note.phrase`.
        endless: True if programs may run forever; they check the abort flag in their loops.
        may_last: True if programs have loops that check the abort flag, or wait for each other.
        note_stop: Address of the function that programs call when the abort flag is set.
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
        # A kernel that prints runs on one thread, so that its output is ordered by program.
        self.prints = CallbackKind.PRINT in kinds
        self.endless = CallbackKind.ENDLESS in kinds
        self.may_last = self.endless or CallbackKind.LOOP in kinds or emitted.spins
        self.crash_name = crash_note.phrase(emitted.name, defined)
        self.note_stop = native_runtime().note_stop

    def add_cost(self, measured: float) -> None:
        """Update the moving average of the cost with the seconds per program of a launch."""
        self.cost = measured if self.cost is None else 0.5 * (self.cost + measured)


class LaunchReport(NamedTuple):
    """The outcome of a launch.

    Attributes:
        programs: Number of programs that ran.
        seconds: Time from the start of the first program to the end of the last one.
        threads: Number of threads that were available to the programs.
        warnings: Warnings about a launch that completed.
    """

    programs: int
    seconds: float
    threads: int = 1
    warnings: tuple[blocked_programs.CompletionWarning, ...] = ()


class _Scratch:
    """The memory for one launch at a time: a `NativeLaunch` with its parameters, and an arena."""

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
        """Stop the launch; no more programs start, and running ones end at their next check."""
        self.launch.abort = 1


class _Scratches(threading.local):
    """The scratch memory of each thread.

    There is one entry per nested launch, because a callback of a launch may make another launch.
    """

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
    """Run the programs of `grid` and return when all have ended.

    Args:
        params: Raw 64-bit values of the parameters, in order.
        grid: One to three extents.
        options: Selection, order and time limit of the programs, and the number of threads.
        monitor: Receives the observations of an instrumented kernel, whose last parameter is the
            monitor's address.

    Raises:
        UsageError: The grid, the selection or an option is invalid.
        KernelError: A `device_assert` failed, the programs wait for each other forever, or the
            launch exceeded its time limit (kind `timeout`).
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
    """Run the programs of a launch that may have to be stopped."""
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
    """Run the programs and handle their callbacks."""
    if not kernel.calls_back:
        return _execute(kernel, scratch, count, options, None, running)
    with Callbacks(kernel.emitted, extents, scratch.address, monitor) as callbacks:
        report = _execute(kernel, scratch, count, options, callbacks, running)
    callbacks.raise_first()
    return report


def _stop(kernel: Kernel, scratch: _Scratch, extents: Grid, count: int, running: Running) -> Stop:
    """Return the state of a launch when it was stopped."""
    launch = scratch.launch
    program, location = None, None
    if launch.stopped:
        program = coordinates(launch.stopped_program, extents)
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
        # This call runs Python's handlers of pending signals, so their exception is raised here.
        signal.pthread_sigmask(signal.SIG_BLOCK, ())
        raise KeyboardInterrupt
    # `threading` ends a thread silently on `SystemExit` itself; it prints other exceptions.
    raise SystemExit(INTERRUPTED)


def _may_outlast(kernel: Kernel, count: int, seconds: float | None) -> bool:
    """Return whether a launch without loops may exceed its time limit, given its measured cost."""
    if not seconds or kernel.cost is None:
        return bool(seconds)
    return kernel.cost * count > min(_PATIENCE_SECONDS, seconds / _BY_FAR)


def _extents(grid: Sequence[int]) -> Grid:
    extents = (*map(int, grid), 1, 1, 1)[:3] if 1 <= len(grid) <= 3 else None
    if extents is None:
        raise UsageError(f"grid {tuple(grid)}: a grid has one to three dimensions")
    x, y, z = extents
    if x < 0 or y < 0 or z < 0:
        raise UsageError(f"grid {tuple(grid)}: an extent cannot be negative")
    if x > _LAST_PROGRAM or y > _LAST_PROGRAM or z > _LAST_PROGRAM:
        raise UsageError(f"grid {tuple(grid)}: an extent can be at most 2**31 - 1")
    if x * y * z >= 2**63:
        raise UsageError(f"grid {tuple(grid)}: the number of programs must be less than 2**63")
    return x, y, z


def _fill(
    kernel: Kernel,
    scratch: _Scratch,
    params: Sequence[int],
    extents: Grid,
    count: int,
    order: int,
) -> None:
    """Write the `NativeLaunch` structure and the parameters that follow it."""
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
    crash_note.remember(kernel.crash_name)
    cost = kernel.cost
    threads = _most_threads(kernel, count, options)
    if callbacks is not None and emitted.spins:
        if cost is not None and threads > 1:
            scratch.launch.batch = _batch(count, threads, cost)
        start = time.perf_counter()
        warnings = blocked_programs.run_waiting(
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
    """Return the number of threads that a launch may use.

    The default number of threads is only determined if a single thread does not suffice.
    """
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
    """Return the number of programs that a thread takes at once.

    Larger batches hide the cost of taking programs; smaller ones balance the load.
    """
    if threads == 1:
        return min(count, 1024)
    batch = min(count // (threads * 16), 64)
    if cost:
        batch = min(batch, int(10e-6 / cost))
    return max(1, batch)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _share(kernel: Kernel, scratch: _Scratch, threads: int, patient: bool) -> tuple[float, int]:
    """Run a launch on workers, and on this thread unless it must react to Ctrl-C.

    Returns:
        The duration in seconds and the number of threads that ran programs.
    """
    takes_part = patient or not _in_main_thread()
    arena_bytes = kernel.emitted.arena_bytes
    workers = pool().lease(threads - takes_part, arena_bytes, limit=threads)
    # If there is no worker, as in a launch from a worker's callback, this thread runs all programs.
    takes_part = takes_part or not workers
    arena = scratch.arena.reserve(arena_bytes) if takes_part else None
    address, pending = scratch.address, scratch.address + _PENDING
    start = time.perf_counter()
    try:
        share(workers, kernel.native.address, address, arena, pending, scratch.abort)
    finally:
        pool().take_back(workers, keep=max(threads, len(workers)))
    return time.perf_counter() - start, len(workers) + takes_part
