"""Recording of variables of kernels that run as Python, in the same format as for native code."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import msgspec
import numpy as np

from ttools.core.errors import UnsupportedError, UsageError
from ttools.core.location import source_lines
from ttools.interpreter.eager.debugging.frames import is_kernel_frame, kernel_frames
from ttools.interpreter.eager.elements import Handle
from ttools.interpreter.eager.observation import observing
from ttools.interpreter.eager.session import Program, current
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.runtime.snapshot import Snapshot
from ttools.watch.record.eager_source import report_assignments
from ttools.watch.trace.record import Assignment, TraceEntry, stored
from ttools.watch.trace.trace_format import TraceWriter


class EagerRecorder:
    """Runs selected programs of launches as Python and records their variables.

    Args:
        file: File for the trace.
        limit: Maximum number of bytes of recorded values.
    """

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self.writer = TraceWriter(file, limit)
        # Programs that wait for each other run alternately, so iterations are counted per program.
        self._iterations: dict[Program, list[int]] = {}
        self._assignments: dict[Assignment, int] = {}
        self._sources: set[str] = set()
        self._launch = 0
        self._kernel = ""
        self._parameters: dict[str, int] = {}

    def run(self, launch: KernelLaunch, described: TraceEntry, programs: Sequence[int]) -> None:
        """Run programs of a launch, and then restore memory.

        Args:
            launch: The launch, which has not run yet.
            described: Description of the launch for the trace.
            programs: Linear ids of the programs to run.

        Raises:
            TtoolsError: The programs fail, or cannot run as Python.
        """
        if launch.eagerly is None:
            raise UsageError(
                f"kernel `{launch.kernel.name}` has no Python source to run; compare with a trace "
                "instead"
            )
        written = launch.written_storages
        if written is None:
            raise UnsupportedError(
                f"comparing kernel `{launch.kernel.name}`, which stores through pointers from "
                "memory"
            )
        self.writer.describe("launch", stored(described))
        self._launch, self._kernel = described.index, launch.kernel.name
        self._parameters = {name: n for n, name in enumerate(launch.kernel.plan.names)}
        self._iterations.clear()
        snapshot = Snapshot(written)
        try:
            with observing(self):
                launch.eagerly(",".join(map(str, programs)))
        finally:
            snapshot.restore()

    # ---- called by the instrumented kernel, see `eager_source`

    def instrument(self, function: ast.FunctionDef) -> None:
        """Change a function of the kernel so that it calls the methods below."""
        report_assignments(function)

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Count the iterations of a loop in the `with` block."""
        iterations = self._iterations.setdefault(current().program, [])
        iterations.append(-1)
        try:
            yield
        finally:
            iterations.pop()

    def iteration(self) -> None:
        """Begin an iteration; called at the start of a loop's body."""
        self._iterations[current().program][-1] += 1

    def assigned(self, name: str, value: Any, line: int) -> None:
        """Record the value that the statement at `line` has assigned to the variable `name`."""
        frame = sys._getframe(1)
        handle = getattr(value, "handle", None)
        if not isinstance(handle, Handle) or not is_kernel_frame(frame):
            return
        session = current()
        x, y, _ = session.grid
        px, py, pz = session.program
        callers = kernel_frames(frame.f_back)
        assignment = Assignment(
            kernel=self._kernel,
            name=name,
            file=frame.f_code.co_filename,
            line=line,
            callers=tuple((f.f_code.co_filename, f.f_lineno) for f in callers),
            element=handle.element.text,
            shape=tuple(int(extent) for extent in handle.data.shape),
            masked=False,
            filled=False,
            parameter=self._parameters.get(handle.origin or "", -1),
        )
        number = self._number_of(assignment)
        iterations = np.array(self._iterations.get(session.program, ()), "<i8").tobytes()
        data = np.ascontiguousarray(handle.data).tobytes()
        program = px + x * (py + y * pz)
        self.writer.value(number, self._launch, program, iterations, b"", data)

    def _number_of(self, assignment: Assignment) -> int:
        number = self._assignments.get(assignment)
        if number is None:
            number = self._assignments[assignment] = len(self._assignments)
            fields = msgspec.to_builtins(assignment)
            self.writer.describe("assignment", {"number": number, **fields})
            file = assignment.file
            if file not in self._sources:
                self._sources.add(file)
                self.writer.describe("source", {"file": file, "text": "".join(source_lines(file))})
        return number

    def finish(self) -> None:
        self.writer.describe("end", {"refused": self.writer.refused})
        self.writer.flush()
