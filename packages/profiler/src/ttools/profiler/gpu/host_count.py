"""Counts GPU launches on the host, with copies of their tensors or with empty host memory."""

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
    """Counts one launch at a time, or has other processes count launches.

    Args:
        notes: Receives the reason why launches cannot be counted, by kernel.
        own_copies: Recorder of copies of tensors to the host.
        processes: Processes that count launches given as plain data; none by default.
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
        """Return whether the calling thread is counting a launch."""
        return self._thread == threading.get_ident()

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        """Count a launch on the host instead of running it; the interpreter calls this method."""
        self._found.append(self._counter.count(launch))
        return LaunchReport(0, 0.0)

    def of_launch(
        self, kernel: GpuKernel, grid: tuple[int, ...], words: Words
    ) -> WorkCounts | None:
        """Return the work of a launch that is about to be made, from copies of its memory."""
        with self._own_copies.copying_to_host():
            return self._count(kernel, grid, kernel.arguments(words))

    def begin(self) -> None:
        """Announce a run to the other processes."""
        self._processes.begin()

    def ask(self, launch: CountRequest) -> Future[Answer] | None:
        """Have another process count a launch; return None if there are no processes."""
        return self._processes.submit(launch)

    def prepare(self, launch: CountRequest) -> Future[None] | None:
        """Have another process compile the counting kernel of a launch whose memory is unknown."""
        return self._processes.submit(Preparation(launch))

    def read(self, compilation: Compilation) -> Future[Readings | None] | None:
        """Have another process disassemble a kernel; return None if there are no processes.

        The answer is None if the process fails.
        """
        return self._processes.submit(compilation)

    def of_request(
        self, launch: CountRequest, asked: Future[Answer] | None = None
    ) -> WorkCounts | None:
        """Return the work of a launch, or None with a note if it cannot be counted.

        Args:
            launch: The launch with the contents of the memory that determines its work.
            asked: Result of `ask` for the launch; None if no other process was asked.
        """
        answer: Answer | None = None
        name = launch.spec.kernel
        try:
            # If no process has begun to count the launch, this process counts it while they count
            # others.
            if asked is not None and not asked.cancel():
                answer = asked.result()
        except (WorkerEndedError, OSError) as error:
            self._notes.setdefault(
                name, f"counted after the run, because counting during the run failed: {error}"
            )
        except Exception:  # noqa: BLE001 - counting in this process raises a clearer error
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
        """Let the other processes end when they have answered all requests.

        Args:
            linger: Seconds for which they wait for further requests.
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
