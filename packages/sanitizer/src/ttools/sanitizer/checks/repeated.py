"""The base class of checks that repeat a launch as Python to follow its values."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

import numpy as np
from numpy.typing import NDArray

from ttools.core.spec import storage_extent
from ttools.interpreter.abi.arguments import ArgumentPlan
from ttools.interpreter.eager.observation import OperationObserver, observing_operations
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.sanitizer.checks.check import Check
from ttools.sanitizer.memory.launch_state import SavedMemory

#: Maximum number of programs of a launch that are followed.
_MOST_PROGRAMS = 256
#: Number of programs that are followed before the elapsed time is checked again.
_AT_ONCE = 32
#: Seconds after which no further programs of a launch are started.
_SECONDS = 60.0
#: A floating-point type in a type of Triton, such as `*fp16` or `tensordesc<bf16[16, 16]>`.
_FLOAT = re.compile(r"\b(fp|bf|f)\d")


class RepeatedCheck(Check):
    """A check of launches with floating-point numbers; it repeats them with an observer."""

    is_default = False
    is_slow = True

    _before: SavedMemory | None = None

    def prepare(self, options: LaunchOptions) -> LaunchOptions:
        """Save the memory of a launch with floating-point numbers, so that it can be repeated."""
        launch = self.checked.launch
        if self.checked.is_trial or launch.eagerly is None or not has_floats(launch.kernel.plan):
            return options
        written = launch.written_storages
        values = launch.values
        if written is not None:  # programs change no other memory
            values = [value for value in values if storage_extent(value) in written]
        self._before = SavedMemory(values, self.checked.memory)
        if written is None:
            self._before.add(self.checked.book.on_host())
        return options

    @property
    def lacks_source(self) -> bool:
        """True if the launch has floating-point numbers but no Python source for a repetition."""
        launch = self.checked.launch
        return launch.eagerly is None and has_floats(launch.kernel.plan)

    def extents(self) -> list[tuple[int, int]]:
        """Return the start address and end address of each argument's storage."""
        extents = (storage_extent(value) for value in self.checked.launch.values)
        return [e for e in extents if e is not None and e[0] < e[1]]

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Restore memory from before the launch; afterwards, it is that from after the launch."""
        before, launch = self._before, self.checked.launch
        assert before is not None
        after, monitor = before.again(), launch.monitor
        before.restore()
        try:
            yield
        finally:
            launch.monitor = monitor
            after.restore()

    def repeat(
        self,
        observer: OperationObserver,
        programs: NDArray[np.int64] | None = None,
        most: int = _MOST_PROGRAMS,
    ) -> str:
        """Repeat the launch; return a sentence if some programs were left out.

        Args:
            programs: The only programs of interest; by default all.
            most: Maximum number of programs that are repeated.
        """
        checked = self.checked
        run = checked.launch.eagerly
        assert run is not None
        total = prod(checked.spec.grid)
        chosen = np.arange(total)
        if not checked.kernel.waits:
            chosen = chosen if programs is None else programs
            if len(chosen) > most:
                chosen = chosen[np.unique(np.linspace(0, len(chosen) - 1, most).astype(np.int64))]
        step = len(chosen) if checked.kernel.waits else _AT_ONCE
        began, done = time.monotonic(), 0
        with self.restored(), observing_operations(observer):
            while done < len(chosen) and (not done or time.monotonic() - began < _SECONDS):
                run(",".join(map(str, chosen[done : done + step].tolist())))
                done += step
        followed = min(done, len(chosen))
        return f"{followed:,} of {total:,} programs were followed" if followed < total else ""


def has_floats(plan: ArgumentPlan) -> bool:
    """Return whether a kernel has arguments that are, or point to, floating-point numbers."""
    return any(_FLOAT.search(name) for name in plan.types)
