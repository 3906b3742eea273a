"""Runs launches with hashes, as the observer of a run of `interpret()`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.reductions.kernel_orders import KernelOrders
from ttools.core.compilation.stages import Compilation, compile_for
from ttools.core.errors import TtoolsError
from ttools.core.gpus.targets import Target
from ttools.core.location import SourceLocation
from ttools.core.process.host_line import host_line
from ttools.core.spec import storage_extent
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.eager.groups import GroupError
from ttools.interpreter.eager.observation import observing_operations
from ttools.interpreter.eager.session import forget_failure
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.interpreter.runtime.launch_options import Grouping
from ttools.interpreter.runtime.snapshot import Snapshot
from ttools.sanitizer.reproducibility.follower import HashFollower, Line, Step
from ttools.sanitizer.reproducibility.hashes import Hashed
from ttools.sanitizer.reproducibility.host_choices import chosen_constants
from ttools.sanitizer.reproducibility.memory import HashMemory
from ttools.sanitizer.reproducibility.portable import PortableFollower

_NONE = Instruments()


@dataclass(kw_only=True)
class StoredTensor:
    """The elements that a launch has stored to one of its arguments.

    Attributes:
        name: Name of the parameter.
        start: Address of the storage.
        size: Size of an element in bytes.
        elements: Indices of the stored elements in the storage.
        hashes: The hashes of the elements.
        programs: Number of the program that stored each element; see `memory.SEVERAL`.
    """

    name: str
    start: int
    size: int
    elements: NDArray[np.int64]
    hashes: Hashed
    programs: NDArray[np.int64]

    def at(self, index: NDArray[np.int64]) -> StoredTensor:
        """Return some of the elements."""
        return replace(
            self,
            elements=self.elements[index],
            hashes=self.hashes[index],
            programs=self.programs[index],
        )


@dataclass(kw_only=True)
class HashedKernelRun:
    """A launch whose results have hashes.

    Attributes:
        kernel: Name of the kernel.
        grid: Number of programs along each axis.
        config: The configuration of the autotuner, if any.
        line: The line that made the launch.
        constants: Constants and the number of warps that host code has chosen, by name.
        compilation: The kernel for the target; None if the launch was not followed.
        failure: Reason why the launch was not followed, or not completely; empty if it was.
        stored: The elements that the launch has stored, by argument.
        reasons: Reasons why values are marked as unknown.
        atomics: Lines with atomics whose order affects a result, and the number of elements.
        fusible: Pairs of a line with a product and a line with a sum that the compiler may fuse.
        steps: The operations of the recorded program.
        in_groups: True if the programs ran in groups.
        followed: Number of programs whose results have hashes.
    """

    kernel: str
    grid: tuple[int, ...]
    config: dict[str, Any]
    line: str | None
    constants: dict[str, Any] = field(default_factory=dict)
    compilation: Compilation | None = None
    failure: str = ""
    stored: list[StoredTensor] = field(default_factory=list)
    reasons: dict[str, SourceLocation | None] = field(default_factory=dict)
    atomics: dict[Line, int] = field(default_factory=dict)
    fusible: tuple[tuple[Line, Line], ...] = ()
    steps: list[Step] = field(default_factory=list)
    followed: int = 0
    in_groups: bool = False

    @property
    def is_part(self) -> bool:
        """True if only some of the programs were followed."""
        return not self.failure and self.followed < prod(self.grid)


def _extents(launch: KernelLaunch) -> list[tuple[int, int]]:
    """Return the start and the end of the storage of each argument."""
    extents = {storage_extent(value) for value in launch.values}
    return sorted(e for e in extents if e is not None and e[0] < e[1])


def _written(launch: KernelLaunch) -> list[tuple[int, int]]:
    """Return the storages of arguments that a launch may write."""
    written = launch.written_storages
    return _extents(launch) if written is None else written


class HashingObserver:
    """Runs each launch as Python, with hashes.

    Args:
        target: The GPU whose order of evaluation is hashed.
        inputs: Storages whose contents are inputs, as start and end. Elements of other memory that
            no kernel has stored are unknown, because torch may have computed them, and its order of
            evaluation on a GPU is not modelled. If `inputs` is None, all memory is an input of each
            launch.
        recorded: The number of a launch, from 1, and the number of the program in it whose
            operations are recorded.
        portable: True if the hashes are compared with those for another GPU, so that operations
            whose bits depend on the GPU are unknown.
        most_programs: Maximum number of programs of a launch that are followed, spread evenly; None
            for all. Launches whose programs wait for each other are followed completely.
        in_groups: If True, programs run in groups where possible, which is faster. The hashes are
            the same.
    """

    def __init__(
        self,
        target: Target,
        inputs: Sequence[tuple[int, int]] | None = None,
        recorded: tuple[int, int] | None = None,
        *,
        portable: bool = False,
        most_programs: int | None = None,
        in_groups: bool = True,
    ) -> None:
        self.target = target
        self.memory = HashMemory()
        self.launches: list[HashedKernelRun] = []
        self._inputs, self._recorded, self._in_groups = inputs, recorded, in_groups
        self._follower = PortableFollower if portable else HashFollower
        self._most_programs = most_programs
        self._compiled: dict[KernelSource, Compilation | TtoolsError] = {}

    def record_next(self, program: int) -> None:
        """Record the operations of a program in the next launch."""
        self._recorded = len(self.launches) + 1, program

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        """Run a launch, and add it to the list of launches."""
        grid = tuple(int(n) for n in launch.spec.grid)
        record = HashedKernelRun(
            kernel=launch.kernel.name,
            grid=grid,
            config=dict(launch.site.config or {}),
            line=launch.site.line or host_line(),
            constants=chosen_constants(launch),
        )
        self.launches.append(record)
        eagerly = launch.eagerly
        if eagerly is None or launch.kernel.source is None:
            record.failure = "the launch has no Python source"
            return launch.execute(_NONE)
        compiled = self._compile(launch)
        if isinstance(compiled, TtoolsError):
            record.failure = str(compiled).splitlines()[0]
            return launch.execute(_NONE)
        record.compilation = compiled
        began = time.monotonic()
        before = Snapshot(_written(launch))
        grouping = self._grouping(launch)
        if grouping is not None:
            hashes = self.memory.copy()
            try:
                self._follow(launch, lambda p: eagerly(p, grouping), record, compiled)
                record.in_groups = True
            except (GroupError, TtoolsError):  # the programs run again, one after the other
                forget_failure()
                self.memory = hashes
                before.restore()
        try:
            if not record.in_groups:
                self._follow(launch, eagerly, record, compiled)
        except TtoolsError as error:
            record.failure = str(error).splitlines()[0]
            before.restore()
            return launch.execute(_NONE)
        if record.is_part:
            before.restore()
            return launch.execute(_NONE)
        return LaunchReport(prod(grid), time.monotonic() - began)

    def _grouping(self, launch: KernelLaunch) -> Grouping | None:
        """Return how the programs of a launch run in groups; None if they run one by one."""
        written = launch.written_storages
        if not self._in_groups or written is None or launch.kernel.variants.synchronises:
            return None
        first = 0
        if self._recorded is not None and self._recorded[0] == len(self.launches):
            first = self._recorded[1]  # it runs alone
        return Grouping(written=written, first=first)

    def _follow(
        self,
        launch: KernelLaunch,
        run: Callable[[str], None],
        record: HashedKernelRun,
        compiled: Compilation,
    ) -> None:
        number = len(self.launches)
        follower = self._follower(
            orders=KernelOrders(compiled),
            memory=self.memory,
            launch=number,
            foreign=self._is_foreign,
            recorded=self._program(number, record.grid),
        )
        self.memory.begin(_extents(launch))
        programs = self._programs(launch, prod(record.grid))
        record.followed = len(programs)
        selected = ",".join(map(str, programs)) if record.is_part else ":"
        with observing_operations(follower):
            run(selected)
        follower.finish()
        record.reasons, record.atomics = follower.reasons, follower.atomics
        record.failure = follower.untracked
        record.fusible, record.steps = tuple(follower.fusible), follower.steps
        names = self._names(launch)
        for stored in self.memory.storages():
            elements = np.flatnonzero(stored.launch == number)
            if len(elements):
                tensor = StoredTensor(
                    name=names.get(stored.start, "memory"),
                    start=stored.start,
                    size=stored.size,
                    elements=elements,
                    hashes=stored.values[elements],
                    programs=stored.program[elements],
                )
                record.stored.append(tensor)

    def _programs(self, launch: KernelLaunch, total: int) -> Sequence[int]:
        """Return the numbers of the programs to follow."""
        most = self._most_programs
        if most is None or total <= most or launch.kernel.variants.synchronises:
            return range(total)
        numbers: list[int] = np.unique(np.linspace(0, total - 1, most).astype(np.int64)).tolist()
        return numbers

    def _is_foreign(self, address: int, is_float: bool) -> bool:
        # Integers that exist before the first launch are usually indices, not results.
        if self._inputs is None or (len(self.launches) == 1 and not is_float):
            return False
        return not any(start <= address < end for start, end in self._inputs)

    def _program(self, number: int, grid: tuple[int, ...]) -> tuple[int, int, int] | None:
        if self._recorded is None or self._recorded[0] != number:
            return None
        rest, x = divmod(self._recorded[1], grid[0])
        z, y = divmod(rest, grid[1])
        return x, y, z

    def _names(self, launch: KernelLaunch) -> dict[int, str]:
        names: dict[int, str] = {}
        for index in sorted(launch.kernel.plan.pointers):
            memory = launch.memory(index)
            if memory is not None:
                names.setdefault(int(memory.storage), launch.kernel.plan.names[index])
        return names

    def _compile(self, launch: KernelLaunch) -> Compilation | TtoolsError:
        """Compile the kernel of a launch for the target; return the error if this fails."""
        source, options = launch.kernel.source, launch.kernel.options
        kernel = KernelSource(
            name=launch.kernel.name,
            function=source.fn,
            signature=dict(source.signature),
            constants=dict(source.constants),
            hints=dict(source.attrs),
            options={
                "num_warps": options.warps,
                "num_stages": options.stages,
                "num_ctas": options.blocks,
                "enable_fp_fusion": options.fp_fusion,
            },
        )
        if kernel not in self._compiled:
            try:
                self._compiled[kernel] = compile_for(kernel, self.target)
            except TtoolsError as error:
                self._compiled[kernel] = error
        return self._compiled[kernel]
