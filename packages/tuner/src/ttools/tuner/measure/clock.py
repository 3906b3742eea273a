"""Timing and counting of launches on the CPU.

Only the launches themselves are timed; hooks, resets of memory and Python code are not.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING

from ttools.core.errors import TtoolsError
from ttools.interpreter.run.launch_rules import refused
from ttools.tuner.measure.outputs import require_restorable
from ttools.tuner.measure.pointer_tables import Pointees

if TYPE_CHECKING:
    from ttools.interpreter.abi.module import Instruments
    from ttools.interpreter.run.kernel_launch import KernelLaunch
    from ttools.interpreter.runtime.launch import LaunchReport
    from ttools.profiler.counting.counter import WorkCounter
    from ttools.profiler.counting.counts import WorkCounts

_NO_POINTEES = Pointees()


class Clock:
    """Observes and times the launches of a run, see `ttools.interpreter.run.kernel_launch`.

    Args:
        counter: Counts the work of the kernel being tried before each of its launches; None
            disables counting.

    Attributes:
        launches: Number of launches so far, of any kernel.
        counts: Work counts of the latest launch of a kernel being tried.
        uncounted: The reason why that launch could not be counted; empty if it was.
    """

    def __init__(self, counter: WorkCounter | None = None) -> None:
        self.launches = 0
        self.counts: WorkCounts | None = None
        self.uncounted = ""
        self._counter = counter
        self._trial = threading.local()

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        """Run a launch, and time it if it belongs to the kernel being tried."""
        self.launches += 1
        is_tried = getattr(self._trial, "kernel", None) == launch.kernel.name
        if is_tried:
            if self._trial.compile_only:
                return _compiled(launch)
            # Violations matter only if the target is a GPU; in this case, there is a counter.
            if launch.violations and self._counter is not None:
                raise refused(launch.kernel.name, launch.violations)
            require_restorable(launch, self._trial.pointees)
            self._count(launch)
        report = launch.execute(_plain())
        if is_tried:
            self._trial.seconds += report.seconds
            self._trial.last = launch
        return report

    def _count(self, launch: KernelLaunch) -> None:
        if self._counter is None:
            return
        try:
            self.counts = self._counter.count(launch)
        except TtoolsError as error:
            self.counts, self.uncounted = None, str(error).splitlines()[0]

    def expect(
        self, kernel: str, pointees: Pointees = _NO_POINTEES, *, compile_only: bool = False
    ) -> None:
        """Time, or only compile, this thread's launches of a kernel from now on."""
        self._trial.pointees = pointees
        self._trial.kernel, self._trial.seconds, self._trial.last = kernel, 0.0, None
        self._trial.compile_only = compile_only

    def take(self) -> tuple[float, KernelLaunch | None]:
        """Return the total seconds of the launches since `expect`, and the last launch.

        Later launches are not timed.
        """
        self._trial.kernel = None
        return self._trial.seconds, self._trial.last


@cache
def _plain() -> Instruments:
    # Worker processes for a GPU load this module, too, but do not need the slow import.
    from ttools.interpreter.abi.module import Instruments

    return Instruments()


def _compiled(launch: KernelLaunch) -> LaunchReport:
    from ttools.interpreter.runtime.launch import LaunchReport

    launch.native(_plain())
    return LaunchReport(programs=0, seconds=0.0)
