"""Counting of a GPU's launches on the host, on copies of their tensors or memory in their place."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from ttools.core.compilation.inspection import Readings
from ttools.core.compilation.stages import Compilation
from ttools.core.errors import TtoolsError
from ttools.core.patches import Patches
from ttools.core.process.channel import WorkerEndedError
from ttools.interpreter import interpret
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.profiler.counting.counter import WorkCounter
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu.copies import OwnCopies
from ttools.profiler.gpu.count_request import CountRequest, RequestCounter
from ttools.profiler.gpu.counting_processes import (
    Answer,
    CountingProcesses,
    Preparation,
    count_of,
)
from ttools.profiler.gpu.launched_kernel import GpuKernel, Words


class HostCounter:
    """Counts one launch at a time.

    Args:
        notes: takes what cannot be counted, by kernel.
        own_copies: Takes note of copies of tensors to the host.
        processes: Count launches of which all is known that decides; none by default.
    """

    def __init__(
        self,
        notes: dict[str, str],
        own_copies: OwnCopies,
        processes: CountingProcesses | None = None,
    ) -> None:
        self._notes, self._own_copies = notes, own_copies
        self._counter = WorkCounter()
        self._request_counter = RequestCounter()
        self._processes = processes or CountingProcesses(0)
        self._found: list[WorkCounts] = []
        self._thread: int | None = None

    @property
    def here(self) -> bool:
        """Whether this thread is counting one."""
        return self._thread == threading.get_ident()

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        """Counts a launch that is made on the host, and does not run it."""
        self._found.append(self._counter.count(launch))
        return LaunchReport(0, 0.0)

    def of_launch(
        self, kernel: GpuKernel, grid: tuple[int, ...], words: Words
    ) -> WorkCounts | None:
        """What a launch does that is about to be made; its memory is copied."""
        with self._own_copies.copying_to_host():
            return self._count(kernel, grid, kernel.arguments(words))

    def begin(self) -> None:
        """Keep other processes until `finish`."""
        self._processes.begin()

    def ask(self, launch: CountRequest) -> Future[Answer] | None:
        """Have a launch counted by another process; return None if no process can."""
        return self._processes.submit(launch)

    def prepare(self, launch: CountRequest) -> Future[None] | None:
        """Have another process compile what counts a launch whose memory is not known yet."""
        return self._processes.submit(Preparation(launch))

    def read(self, compilation: Compilation) -> Future[Readings | None] | None:
        """Have a kernel's code read by another process; return None if no process can.

        The answer is None where it cannot be read there.
        """
        return self._processes.submit(compilation)

    def of_request(
        self, launch: CountRequest, asked: Future[Answer] | None = None
    ) -> WorkCounts | None:
        """Return what a launch does of which all is known that decides.

        Args:
            asked: What `ask` returned for it.
        """
        answer: Answer | None = None
        name = launch.spec.kernel
        try:
            # What no process has begun is counted here, while they count the rest.
            if asked is not None and not asked.cancel():
                answer = asked.result()
        except (WorkerEndedError, OSError) as error:
            self._notes.setdefault(
                name, f"counted after the run, as it could not be counted meanwhile: {error}"
            )
        except Exception:  # noqa: BLE001 - what is wrong with the launch shows below
            pass
        if answer is None:
            answer = count_of(self._request_counter, launch)
        if isinstance(answer, str):
            self._notes.setdefault(name, answer)
            return None
        for note in answer.notes:
            self._notes.setdefault(name, note)
        return answer

    def finish(self, linger: float = 0.0) -> None:
        """Have the processes end when they have done what they were asked for.

        Args:
            linger: Seconds for which they wait for more before they end.
        """
        self._processes.finish(linger)

    def _count(
        self, kernel: GpuKernel, grid: tuple[int, ...], arguments: Mapping[str, Any]
    ) -> WorkCounts | None:
        self._thread, self._found = threading.get_ident(), []
        try:
            run = interpret(only=[kernel.name], observer=self).unshared()
            with Patches() as patches, run:
                patches.replace(kernel.function, "pre_run_hooks", [])
                kernel.function.run(**arguments, grid=grid, warmup=False)
        except TtoolsError as error:
            self._notes.setdefault(kernel.name, getattr(error, "what", None) or str(error))
        finally:
            self._thread = None
        for note in (note for counts in self._found for note in counts.notes):
            self._notes.setdefault(kernel.name, note)
        return next(iter(self._found), None)
