"""Counts launches of a GPU's kernels on the host, on copies of their tensors or on stand-ins."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ttools.core.errors import TtoolsError
from ttools.core.patches import Patches
from ttools.interpreter import interpret
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.profiler.counting.counter import WorkCounter
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu.copies import OwnCopies
from ttools.profiler.gpu.launched_kernel import GpuKernel, Words
from ttools.profiler.gpu.memory_samples import CopiedBytes
from ttools.profiler.gpu.stand_ins import made


class HostCounter:
    """Counts one launch at a time.

    Args:
        notes: takes what cannot be counted, by kernel.
        own_copies: Takes note of copies of tensors to the host.
    """

    def __init__(self, notes: dict[str, str], own_copies: OwnCopies) -> None:
        self._notes, self._own_copies = notes, own_copies
        self._counter = WorkCounter()
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

    def of_forms(
        self,
        kernel: GpuKernel,
        grid: tuple[int, ...],
        forms: Mapping[str, Any],
        contents: Mapping[int, CopiedBytes] = MappingProxyType({}),
    ) -> WorkCounts | None:
        """Return what a launch did of which the forms of its arguments are known.

        Args:
            contents: What storages held that decides what it did.
        """
        try:
            arguments = made(forms, contents)
        except RuntimeError as error:
            self._notes.setdefault(kernel.name, f"no room on the host to count it: {error}")
            return None
        return self._count(kernel, grid, arguments)

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
