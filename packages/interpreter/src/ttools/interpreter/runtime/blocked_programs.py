"""The scheduler of blocked programs: runs kernels whose programs wait for each other.

Locks, flags and grid barriers make one program wait for another. A GPU runs many programs at the
same time, so programs that wait rarely prevent others from running. Here, each program occupies a
thread until it ends. Therefore waiting programs may occupy all threads while the program that would
end their wait has not started. To solve this, the calling thread does not run programs, but
supervises the workers:

- Programs start in order. A thread takes several neighbouring programs at once. When the first
  program waits, threads give back the programs that they have taken but not started, and take one
  program at a time from then on.
- If every running program waits and some have not started, the supervisor starts more threads:
  1, then 2, 4, and so on up to 32 at a time, until `TTOOLS_MAX_PARKED` threads have been added.
- If fewer programs than threads make progress, because some wait while others work, the supervisor
  also starts threads, so that the waits do not slow the launch down.
- If every running program waits and none can be started, the launch is deadlocked. The supervisor
  raises a `KernelError` that names the waiting programs and their source lines.

Example: a launch of 4 programs on 2 threads ends with a grid barrier, which a program leaves when
all 4 have arrived. Programs 0 and 1 arrive and wait. The supervisor sees that both wait and that
programs 2 and 3 have not started. It starts one thread, on which program 2 arrives and waits, and
then another one, on which program 3 arrives. The barrier opens and all four programs end. The
launch completes with the warning "requires co-residency", because it depends on programs that start
later. If program 3 skipped the barrier instead, programs 0, 1 and 2 would wait with nothing left to
start, and the launch would be reported as a deadlock.

Each thread describes its state in a `Runner` (see `native_runtime`): the program that it runs, the
wait that the program is in, and the number of callbacks from that wait, one for every 64 iterations
of the waiting loop. `_Supervisor` explains how a deadlock is proved from this state.
"""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ttools.core.errors import KernelError, UsageError, Waiting
from ttools.core.location import SourceLocation
from ttools.interpreter.abi.launch_layout import KERNEL_BYTES, NativeLaunch, offset
from ttools.interpreter.abi.module import EmittedModule
from ttools.interpreter.runtime.callbacks import Callbacks
from ttools.interpreter.runtime.pool import Worker, mailboxes, pool
from ttools.interpreter.runtime.stopping import note_stop
from ttools.interpreter.runtime.support.native_runtime import Runner, native_runtime
from ttools.ir.dialects.ttools import TIMED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

#: The number of threads that may be added to a launch for waiting programs.
DEFAULT_MAX_BLOCKED = 1024
#: The time between the proof of a deadlock and its report. Until then, a thread of the host may
#: still change the memory for which the programs wait.
_DEADLOCK_SECONDS = 1.0
#: If programs have waited for this time while others work, further threads are started.
_BLOCKED_SECONDS = 2e-3
#: The largest number of threads that are started at once.
_MOST_AT_ONCE = 32

#: The interval in nanoseconds at which the supervisor examines the threads if all programs wait,
#: and the longest interval if some programs work.
_TICK, _LONGEST_TICK = 100_000, 2_000_000
#: The average time between two wake-ups, counted over all waiting programs: 20 us.
_WAKE_NANOSECONDS = 20_000
_WORDS = ctypes.sizeof(Runner) // 8
_COLUMN = {name: getattr(Runner, name).offset // 8 for name, *_ in Runner._fields_}


@dataclass(frozen=True, slots=True)
class CompletionWarning:
    """A warning about a launch that completed.

    Attributes:
        kind: `deadlock` if the launch completed only because more threads were started for it.
        message: Text of the warning.
        location: Source location that the warning refers to.
        program: Coordinates of one program that the warning refers to.
    """

    kind: str
    message: str
    location: SourceLocation | None
    program: tuple[int, int, int]

    def __str__(self) -> str:
        where = "" if self.location is None else f"{self.location}: "
        return f"{where}warning[{self.kind}]: {self.message}"


def max_blocked() -> int:
    """Return the limit on additional threads for waiting programs, from `TTOOLS_MAX_PARKED`."""
    text = os.environ.get("TTOOLS_MAX_PARKED", "")
    try:
        limit = int(text) if text else DEFAULT_MAX_BLOCKED
    except ValueError:
        limit = -1
    if limit < 0:
        raise UsageError(
            f"TTOOLS_MAX_PARKED={text[:100]}: must be a number of programs, at least 0"
        )
    return limit


def run_waiting(
    entry: int, emitted: EmittedModule, launch: int, callbacks: Callbacks, threads: int
) -> tuple[CompletionWarning, ...]:
    """Run a launch whose programs may wait for each other.

    Args:
        entry: Address of the kernel's `ttools_run`.
        emitted: Description of the kernel's native code.
        launch: Address of the filled `NativeLaunch`.
        callbacks: Handles the callbacks of the launch.
        threads: Number of programs that should make progress at the same time.

    Raises:
        KernelError: The launch is deadlocked; the message names the programs and their locations.
    """
    crew = _Crew(entry, emitted.arena_bytes, launch)
    supervisor = _Supervisor(crew, emitted, callbacks, threads, max_blocked())
    try:
        crew.start(threads)
        supervisor.watch()
    except BaseException:
        crew.abort()
        raise
    finally:
        crew.disband(keep=threads)
    return supervisor.warnings()


class _Crew:
    """The threads of one launch and the memory in which they describe their state."""

    def __init__(self, entry: int, arena_bytes: int, launch: int) -> None:
        self._runtime = native_runtime()
        self._entry = entry
        self._arena_bytes = arena_bytes
        self._launch = launch
        self._launch_structure = NativeLaunch.from_address(launch)
        self._workers: list[Worker] = []
        self._chunks: list[NDArray[np.int64]] = []
        self.count = self._launch_structure.count
        self.let_sleep(0)

    def __len__(self) -> int:
        return len(self._workers)

    def start(self, number: int) -> int:
        """Start up to `number` threads that take programs; return the number that started."""
        import numpy as np

        workers = pool().lease(number, self._arena_bytes, limit=1 << 30)
        if not workers:
            return 0
        first = len(self._workers)
        self._workers += workers
        # Align the block to a cache line, so that no two runners share one.
        memory = np.zeros((len(workers) + 1) * _WORDS, np.int64)
        skip = -memory.ctypes.data % 64 // 8
        rows = memory[skip : skip + len(workers) * _WORDS].reshape(len(workers), _WORDS)
        template = np.zeros(_WORDS, np.int64)
        shown = ctypes.string_at(self._launch, KERNEL_BYTES)
        template[: KERNEL_BYTES // 8] = np.frombuffer(shown, np.int64)
        template[offset("order") // 8] = 0
        template[offset("callback") // 8] = self._runtime.callback
        template[offset("batch") // 8] = 1
        template[_COLUMN["shared"]] = self._launch
        template[_COLUMN["entry"]] = self._entry
        template[_COLUMN["callback"]] = self._launch_structure.callback
        template[_COLUMN["program"]] = template[_COLUMN["site"]] = -1
        rows[:] = template
        self._chunks.append(rows)
        assert first + len(workers) == len(self._workers)
        self._runtime.share(
            mailboxes(workers),
            len(workers),
            self._runtime.run_each,
            rows.ctypes.data,
            _WORDS * 8,
            None,
            self._launch + offset("pending"),
            0,
        )
        return len(workers)

    def column(self, name: str) -> Column:
        """Return a copy of one field of all runners."""
        import numpy as np

        index = _COLUMN[name]
        return np.concatenate([rows[:, index] for rows in self._chunks])

    def started(self) -> int:
        """Return the number of programs that threads have taken and not given back.

        While threads run, the result may be too high, but not too low.
        """
        launch = self._launch_structure
        returned = launch.returned
        return int(min(self.count, launch.next) - returned)

    def wait(self, nanoseconds: int) -> int:
        """Wait up to a limit for all threads to end; return the number that still run."""
        unfinished: int = self._runtime.await_jobs(self._launch + offset("pending"), nanoseconds)
        return unfinished

    def let_sleep(self, waiting: int) -> None:
        """Set the longest sleep of a waiting program.

        Args:
            waiting: Number of waiting programs; the more there are, the longer each may sleep.
        """
        longest = max(100_000, waiting * _WAKE_NANOSECONDS)
        self._launch_structure.longest_sleep = longest

    @property
    def aborted(self) -> bool:
        return bool(self._launch_structure.abort)

    def abort(self) -> None:
        """Make every program return at its next check, and record the first one that waits."""
        launch = self._launch_structure
        launch.abort = 1
        if self._chunks and not launch.stopped:
            pairs = zip(self.column("program").tolist(), self.column("site").tolist(), strict=True)
            note_stop(launch, (pair for pair in pairs if min(pair) >= 0))
        for rows in self._chunks:
            for i in range(len(rows)):
                ctypes.c_int32.from_address(rows[i].ctypes.data + offset("abort")).value = 1

    def disband(self, *, keep: int) -> None:
        """Wait for the threads, even after Ctrl-C, and return them to the pool."""
        while True:
            try:
                while self.wait(50_000_000):
                    pass
                break
            except KeyboardInterrupt:
                self.abort()
        launch = self._launch_structure
        if launch.abort and not launch.stopped:
            runs = [
                NativeLaunch.from_address(row.ctypes.data) for rows in self._chunks for row in rows
            ]
            note_stop(launch, ((r.stopped_program, r.stopped_site) for r in runs if r.stopped))
        pool().take_back(self._workers, keep=keep)


@dataclass
class _Snapshot:
    """The state of all threads, read field by field while they run."""

    program: Column
    site: Column
    calls: Column
    instance: Column
    waiting: Any
    started: int
    complete: bool

    @classmethod
    def take(cls, crew: _Crew) -> _Snapshot:
        # The order of the reads matters. A wait that ends during the reads changes `instance`,
        # which is read after `calls`. A program that starts is counted in `started` before its
        # thread sets `program`, so `started` is read last.
        calls = crew.column("calls")
        site = crew.column("site")
        instance = crew.column("instance")
        finished = crew.column("finished")
        program = crew.column("program")
        live = program >= 0
        started = crew.started()
        complete = int(finished.sum()) + int(live.sum()) == started
        return cls(program, site, calls, instance, live & (calls > 0), started, complete)

    @property
    def live(self) -> Any:
        return self.program >= 0

    @property
    def all_wait(self) -> bool:
        """True if every started program had ended or was in a wait when it was read."""
        return self.complete and bool((self.waiting == self.live).all()) and bool(self.live.any())

    def same_waits(self, other: _Snapshot) -> bool:
        """Return whether the same programs are in the same waits."""
        if len(self.program) != len(other.program):
            return False
        same = (self.program == other.program) & (self.instance == other.instance)
        return bool(same.all())


class _Supervisor:
    """Decides from snapshots when to start more threads and when a launch is deadlocked.

    No running program can continue by itself if both of the following hold:

    1. In two consecutive snapshots, all live programs are in the same waits. So there was a moment
      between the snapshots at which all of them were waiting, and memory has not changed since.
    2. Since that moment, each live program has called back at least twice more. So it has executed
      at least one whole iteration of its waiting loop after that moment, and has not left the loop.

    The proof assumes that loops which call back only wait, that is, that they change no memory for
    which another program waits. A loop that uses the CPU for a long time between two callbacks is
    treated as work by native code, not as a wait.
    """

    def __init__(
        self,
        crew: _Crew,
        emitted: EmittedModule,
        callbacks: Callbacks,
        threads: int,
        limit: int,
    ) -> None:
        self._crew = crew
        self._emitted = emitted
        self._callbacks = callbacks
        self._threads = threads
        self._limit = threads + limit
        self._last: _Snapshot | None = None
        self._base: _Snapshot | None = None
        self._moved = time.monotonic()
        self._at_once = 1
        self._needed: dict[int, int] = {}

    def watch(self) -> None:
        """Supervise the threads until all have ended."""
        tick = _TICK
        while self._crew.wait(tick):
            if self._crew.aborted:
                self._crew.abort()
                continue
            snapshot = _Snapshot.take(self._crew)
            waiting = int(snapshot.waiting.sum())
            self._crew.let_sleep(waiting)
            # When the last worker thread ends, it wakes this thread, so the interval may grow while
            # programs work.
            tick = _TICK if snapshot.all_wait else min(2 * tick, _LONGEST_TICK)
            if waiting:
                self._check_progress(snapshot)
            else:
                self._last = self._base = None
                self._moved = time.monotonic()

    def _check_progress(self, snapshot: _Snapshot) -> None:
        last, self._last = self._last, snapshot
        if last is None or not snapshot.same_waits(last):
            self._base = None
            self._moved = time.monotonic()
            return
        if snapshot.all_wait:
            if self._base is None:
                self._base = snapshot
            elif bool((snapshot.calls >= self._base.calls + 2)[snapshot.live].all()):
                self._stuck(snapshot)
            return
        self._base = None
        active = int(snapshot.live.sum()) - int(snapshot.waiting.sum())
        if active < self._threads and time.monotonic() - self._moved > _BLOCKED_SECONDS:
            self._start(self._threads - active)

    def _stuck(self, snapshot: _Snapshot) -> None:
        """Start more threads, because only a program that has not started can end the waits.

        Raises:
            KernelError: No program can be started, so the launch is deadlocked.
        """
        started = self._crew.started()
        if started != snapshot.started or started < min(len(self._crew), self._crew.count):
            return  # a thread has since taken a program, or is about to take its first one
        unstarted = self._crew.count - started
        if unstarted and self._start(self._at_once):
            self._at_once = min(2 * self._at_once, _MOST_AT_ONCE)
            for site, program in self._waits(snapshot):
                self._needed.setdefault(site, program)
        elif time.monotonic() - self._moved > _DEADLOCK_SECONDS and not self._timed(snapshot):
            raise self._deadlock(snapshot, unstarted)

    def _timed(self, snapshot: _Snapshot) -> bool:
        """Return whether any of the waits has a timeout, so that it ends by itself."""
        return any(self._emitted.sites[site].text == TIMED for site, _ in self._waits(snapshot))

    def _start(self, number: int) -> int:
        unstarted = self._crew.count - self._crew.started()
        number = min(number, unstarted, self._limit - len(self._crew))
        return self._crew.start(number) if number > 0 else 0

    def _waits(self, snapshot: _Snapshot) -> list[tuple[int, int]]:
        """Return the site and the linear id of each waiting program, the lowest id first."""
        pairs = zip(snapshot.program.tolist(), snapshot.site.tolist(), strict=True)
        return [(site, program) for program, site in sorted(pairs) if program >= 0 and site >= 0]

    def _deadlock(self, snapshot: _Snapshot, unstarted: int) -> KernelError:
        waits = self._waits(snapshot)
        by_site: dict[int, list[int]] = {}
        for site, program in waits:
            by_site.setdefault(site, []).append(program)
        waiting = tuple(
            Waiting(
                tuple(map(self._callbacks.coordinates, programs)),
                self._emitted.sites[site].location,
            )
            for site, programs in by_site.items()
        )
        where = [f"{programs_text(one)} at {one.location or 'an unknown line'}" for one in waiting]
        if unstarted:
            why = (
                f"{len(waits)} programs wait, {unstarted} have not started, and the limit on "
                "programs that run at once is reached"
            )
            advice = f"raise TTOOLS_MAX_PARKED (now {self._limit - self._threads})"
        else:
            why = "every running program waits, and all programs have started"
            advice = "on a GPU this launch would hang"
        message = "\n".join(
            [f"deadlock in kernel `{self._emitted.name}`: {why}", *(f"      {w}" for w in where)]
        )
        location = self._emitted.sites[waits[0][0]].location if waits else None
        first = self._callbacks.coordinates(waits[0][1]) if waits else None
        return KernelError(
            message, location, advice, kind="deadlock", program=first, waiting=waiting
        )

    def warnings(self) -> tuple[CompletionWarning, ...]:
        """Return the warnings about a launch that has completed."""
        return tuple(
            CompletionWarning(
                "deadlock",
                f"requires co-residency: program {self._callbacks.coordinates(program)} of kernel "
                f"`{self._emitted.name}` waits for a program that starts after it; the launch "
                "deadlocks if the GPU cannot run both at the same time",
                self._emitted.sites[site].location,
                self._callbacks.coordinates(program),
            )
            for site, program in self._needed.items()
        )


def programs_text(waiting: Waiting) -> str:
    """Return the first of the waiting programs: `programs (0, 0, 0), (1, 0, 0) and 6 more`."""
    programs = waiting.programs
    shown = ", ".join(map(str, programs[:4]))
    more = f" and {len(programs) - 4} more" if len(programs) > 4 else ""
    return f"{'program' if len(programs) == 1 else 'programs'} {shown}{more}"
