"""Kernels whose programs wait for each other: locks, flags, grid barriers.

A GPU runs many programs at once and a waiting one costs nothing; here it holds a thread. So the
calling thread supervises: programs start in order, a thread taking a few neighbours at once until
the first program waits, then one at a time, what it had taken in advance being given back. When the
running ones wait and others have not started, more threads start, up to a stated limit. If all wait
and nothing is left to start, that is a deadlock, reported and never a hang.

What is known of a thread is what its `Runner` says (see `native_runtime`): the program, the wait
it is in, and how often that wait has called back, once for every 64 iterations of the waiting loop.
"""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ttools.core.errors import KernelError, UsageError
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

#: Waiting programs that may hold a thread beyond the launch's own threads.
DEFAULT_MAX_PARKED = 1024
#: How long nothing may move before a proven deadlock is reported: a host thread might help.
_DEADLOCK_SECONDS = 1.0
#: A program that has waited this long while others work leaves its turn to another thread.
_PARK_SECONDS = 2e-3
#: At most so many threads are started at once.
_MOST_AT_ONCE = 32

#: The supervisor looks this often, in nanoseconds, when all wait and when some still work.
_TICK, _LONGEST_TICK = 100_000, 2_000_000
#: All waiting programs together may wake this often: every 20 us.
_WAKE_NANOSECONDS = 20_000
_WORDS = ctypes.sizeof(Runner) // 8
_COLUMN = {name: getattr(Runner, name).offset // 8 for name, *_ in Runner._fields_}


@dataclass(frozen=True, slots=True)
class CompletionWarning:
    """Something about a launch that completed.

    Attributes:
        kind: `deadlock`: it completed only because more programs ran at once than threads.
        message: what the user should know.
        location: where in the kernel.
        program: coordinates of one program concerned.
    """

    kind: str
    message: str
    location: SourceLocation | None
    program: tuple[int, int, int]

    def __str__(self) -> str:
        where = "" if self.location is None else f"{self.location}: "
        return f"{where}warning[{self.kind}]: {self.message}"


def max_parked() -> int:
    """The limit on waiting programs, from `TTOOLS_MAX_PARKED`."""
    text = os.environ.get("TTOOLS_MAX_PARKED", "")
    try:
        limit = int(text) if text else DEFAULT_MAX_PARKED
    except ValueError:
        limit = -1
    if limit < 0:
        raise UsageError(f"TTOOLS_MAX_PARKED={text[:100]}: not a number of programs")
    return limit


def run_waiting(
    entry: int, emitted: EmittedModule, launch: int, callbacks: Callbacks, threads: int
) -> tuple[CompletionWarning, ...]:
    """Runs a launch whose programs may wait for each other.

    Args:
        entry: address of the kernel's `ttools_run`.
        launch: address of the filled `NativeLaunch`, followed by the count of unfinished jobs.
        threads: how many programs should make progress at once.

    Raises:
        KernelError: `deadlock`, naming who waits where.
    """
    crew = _Crew(entry, emitted.arena_bytes, launch)
    supervisor = _Supervisor(crew, emitted, callbacks, threads, max_parked())
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
    """The threads of one launch and the memory in which they say what they do."""

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
        """Starts up to `number` threads that take programs; returns how many could start."""
        import numpy as np

        workers = pool().lease(number, self._arena_bytes, limit=1 << 30)
        if not workers:
            return 0
        first = len(self._workers)
        self._workers += workers
        # Cache lines are not shared between runners, so the block is aligned like one.
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
        """One word of every runner, copied now."""
        import numpy as np

        index = _COLUMN[name]
        return np.concatenate([rows[:, index] for rows in self._chunks])

    def started(self) -> int:
        """Programs taken so far and not given back; while others run, rather more than fewer."""
        launch = self._launch_structure
        returned = launch.returned
        return int(min(self.count, launch.next) - returned)

    def wait(self, nanoseconds: int) -> int:
        """Waits for the end of all threads, up to a limit; returns how many run on."""
        left: int = self._runtime.await_jobs(self._launch + offset("pending"), nanoseconds)
        return left

    def let_sleep(self, waiting: int) -> None:
        """Sets how long a wait may sleep, given how many programs wait."""
        longest = max(100_000, waiting * _WAKE_NANOSECONDS)
        self._launch_structure.longest_sleep = longest

    @property
    def aborted(self) -> bool:
        return bool(self._launch_structure.abort)

    def abort(self) -> None:
        """Makes every program return at its next check, and notes the first that waits."""
        launch = self._launch_structure
        launch.abort = 1
        if self._chunks and not launch.stopped:
            pairs = zip(self.column("program").tolist(), self.column("site").tolist(), strict=True)
            note_stop(launch, (pair for pair in pairs if min(pair) >= 0))
        for rows in self._chunks:
            for i in range(len(rows)):
                ctypes.c_int32.from_address(rows[i].ctypes.data + offset("abort")).value = 1

    def disband(self, *, keep: int) -> None:
        """Waits for the threads, whatever the user types, and returns them to the pool."""
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
    """What all threads were doing at one moment, as far as it can be read."""

    program: Column
    site: Column
    calls: Column
    instance: Column
    waiting: Any
    started: int
    complete: bool

    @classmethod
    def take(cls, crew: _Crew) -> _Snapshot:
        # The order of reading matters: a wait that ends in between changes `instance`, which is
        # read after `calls`; a program that starts is in `started`, read last, before `program`
        # has it.
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
        """Every started program has ended or was in a wait when it was read."""
        return self.complete and bool((self.waiting == self.live).all()) and bool(self.live.any())

    def same_waits(self, other: _Snapshot) -> bool:
        """The same programs are in the same waits."""
        if len(self.program) != len(other.program):
            return False
        same = (self.program == other.program) & (self.instance == other.instance)
        return bool(same.all())


class _Supervisor:
    """Decides, from snapshots, when to start more threads and when all is lost.

    The proof that no running program can go on by itself: at two snapshots in a row all live
    programs are in the same waits, so at a moment between them all were waiting at once, and
    memory has stood still since; then each has gone through at least one whole iteration of its
    waiting loop after that moment, that is two more callbacks, without leaving it.

    It rests on loops that call back being waits: they change nothing that another waits for. A
    loop that takes the CPU for long between callbacks is taken for work by native code.
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
        """Returns when all threads have ended."""
        tick = _TICK
        while self._crew.wait(tick):
            if self._crew.aborted:
                self._crew.abort()
                continue
            snapshot = _Snapshot.take(self._crew)
            waiting = int(snapshot.waiting.sum())
            self._crew.let_sleep(waiting)
            # The end wakes us; so while programs work, look less and less often.
            tick = _TICK if snapshot.all_wait else min(2 * tick, _LONGEST_TICK)
            if waiting:
                self._judge(snapshot)
            else:
                self._last = self._base = None
                self._moved = time.monotonic()

    def _judge(self, snapshot: _Snapshot) -> None:
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
        if active < self._threads and time.monotonic() - self._moved > _PARK_SECONDS:
            self._start(self._threads - active)

    def _stuck(self, snapshot: _Snapshot) -> None:
        """No running program can go on: only one that has not started could let it."""
        started = self._crew.started()
        if started != snapshot.started or started < min(len(self._crew), self._crew.count):
            return  # a thread has taken a program meanwhile, or is about to take its first one
        unstarted = self._crew.count - started
        if unstarted and self._start(self._at_once):
            self._at_once = min(2 * self._at_once, _MOST_AT_ONCE)
            for site, program in self._waits(snapshot):
                self._needed.setdefault(site, program)
        elif time.monotonic() - self._moved > _DEADLOCK_SECONDS and not self._timed(snapshot):
            raise self._deadlock(snapshot, unstarted)

    def _timed(self, snapshot: _Snapshot) -> bool:
        """Return whether a wait of the launch ends when its time is over."""
        return any(self._emitted.sites[site].text == TIMED for site, _ in self._waits(snapshot))

    def _start(self, number: int) -> int:
        unstarted = self._crew.count - self._crew.started()
        number = min(number, unstarted, self._limit - len(self._crew))
        return self._crew.start(number) if number > 0 else 0

    def _waits(self, snapshot: _Snapshot) -> list[tuple[int, int]]:
        """(site, program) of the waiting programs, lowest program first."""
        pairs = zip(snapshot.program.tolist(), snapshot.site.tolist(), strict=True)
        return [(site, program) for program, site in sorted(pairs) if program >= 0 and site >= 0]

    def _deadlock(self, snapshot: _Snapshot, unstarted: int) -> KernelError:
        waits = self._waits(snapshot)
        by_site: dict[int, list[int]] = {}
        for site, program in waits:
            by_site.setdefault(site, []).append(program)
        where = [self._who(site, programs) for site, programs in by_site.items()]
        if unstarted:
            why = (
                f"{len(waits)} programs wait, {unstarted} have not started, and no more may run "
                "at once"
            )
            advice = f"raise TTOOLS_MAX_PARKED (now {self._limit - self._threads})"
        else:
            why = "every running program waits, and none is left to start"
            advice = "on a GPU this launch would hang"
        message = "\n".join(
            [f"deadlock in kernel `{self._emitted.name}`: {why}", *(f"      {w}" for w in where)]
        )
        location = self._emitted.sites[waits[0][0]].location if waits else None
        first = self._callbacks.coordinates(waits[0][1]) if waits else None
        return KernelError(message, location, advice, kind="deadlock", program=first)

    def _who(self, site: int, programs: list[int]) -> str:
        shown = ", ".join(str(self._callbacks.coordinates(p)) for p in programs[:4])
        more = f" and {len(programs) - 4} more" if len(programs) > 4 else ""
        noun = "program" if len(programs) == 1 else "programs"
        location = self._emitted.sites[site].location
        return f"{noun} {shown}{more} at {location if location else 'an unknown line'}"

    def warnings(self) -> tuple[CompletionWarning, ...]:
        """What to say of a launch that has completed."""
        return tuple(
            CompletionWarning(
                "deadlock",
                f"requires co-residency: program {self._callbacks.coordinates(program)} of kernel "
                f"`{self._emitted.name}` waits for a program that starts after it; with fewer "
                "programs running at once than that needs, it deadlocks",
                self._emitted.sites[site].location,
                self._callbacks.coordinates(program),
            )
            for site, program in self._needed.items()
        )
