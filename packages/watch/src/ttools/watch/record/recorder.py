"""The observer that runs watched kernels, records their variables and writes the trace."""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, BinaryIO
from weakref import WeakKeyDictionary

import msgspec.structs
import numpy as np

from ttools.core.location import SourceLocation, source_lines
from ttools.core.sources import fingerprint
from ttools.core.spec import ArgumentSpec, LaunchSpec, storage_extent
from ttools.interpreter.abi.module import Instruments, Site
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.run.variants import Variants
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.interpreter.runtime.selection import Grid, arrange
from ttools.ir import Module
from ttools.ir import element_type as element_of
from ttools.watch.picture.accesses import AccessMaps, LaunchAccesses
from ttools.watch.record.eager_recorder import EagerRecorder
from ttools.watch.record.rewrite import insert_watches
from ttools.watch.trace.elements import numpy_type
from ttools.watch.trace.record import Assignment, TraceEntry, pointer_argument, stored
from ttools.watch.trace.trace_format import TraceWriter
from ttools.watch.variables.selectors import (
    Selector,
    choose,
    read_selectors,
    unavailable_sentence,
    unmatched_sentence,
)
from ttools.watch.variables.unnamed_assignments import ModuleVariables, Unavailable, find_variables
from ttools.watch.variables.variables import Variable

_LONGEST_SOURCE = 1 << 20
#: Maximum number of programs of a launch that also run as Python, which takes milliseconds each.
MOST_COMPARED = 32
#: Maximum number of programs in a picture, to limit the size of the page.
MOST_PICTURED = 16


class Recorder:
    """Runs launches with watches and writes the reported values.

    Args:
        watch: Names of variables and lines, as the user writes them.
        programs: Programs to record, such as `0,5:8,last`; by default, all programs.
        seed: Seed of `random:N` in `programs`.
        eager: Recorder that first runs the same programs as Python; None for no comparison.
        accesses: Receives the accesses of launches, and decides which launches are shown.
        only_pictures: If True, only launches that appear in the picture are recorded.

    Attributes:
        writer: Writer of the trace, available after `write_to`.
        instruments: Instruments of the launches; they are part of the keys of cached kernels.

    Raises:
        UsageError: Something cannot be watched.
    """

    def __init__(
        self,
        watch: Iterable[str],
        *,
        programs: str | None = None,
        seed: int = 0,
        eager: EagerRecorder | None = None,
        accesses: LaunchAccesses | None = None,
        only_pictures: bool = False,
    ) -> None:
        self._eager, self._accesses, self._only_pictures = eager, accesses, only_pictures
        self._most = MOST_COMPARED if eager is not None else None
        if accesses is not None and eager is None:
            self._most = MOST_PICTURED
        self._selectors = read_selectors(watch)
        self._programs = programs
        self._seed = seed
        self._lock = threading.Lock()
        self._launches = 0
        self._assignments: dict[tuple[str, Site], int] = {}
        self._sources: set[str] = set()
        self._matched: set[Selector] = set()
        self._known: dict[str, list[tuple[str, str, int]]] = {}
        self._unavailable: dict[str, list[Unavailable]] = {}
        names = json.dumps(sorted(s.text for s in self._selectors))
        self.instruments = Instruments(rewrites=(f"watch {names}", fingerprint("ttools.watch")))
        self._variables: WeakKeyDictionary[Variants, list[Variable]] = WeakKeyDictionary()

    def write_to(self, file: BinaryIO, limit: int) -> None:
        """Begin a trace in a file; the values may take at most `limit` bytes."""
        self.writer = TraceWriter(file, limit)

    # ---- launches

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        """Run a launch with watches.

        Raises:
            TtoolsError: The launch fails as it would without watches.
        """
        x, y, z = (*map(int, launch.grid), 1, 1, 1)[:3]
        variables = self._look(launch)
        pictured = self._accesses is not None and x * y * z > 0 and self._accesses.wants(launch)
        if not x * y * z or not (variables or pictured) or (self._only_pictures and not pictured):
            return launch.execute(Instruments())
        chosen = self._chosen((x, y, z))
        table = np.zeros(x * y * z, np.uint8)
        table[slice(None) if chosen is None else chosen] = 1
        programs = range(x * y * z) if chosen is None else chosen.tolist()
        described = self._describe(launch, (x, y, z))
        if self._eager is not None:
            self._run_eagerly(launch, described, programs)
        accesses = None
        if self._accesses is not None and pictured:
            accesses = self._accesses.begin(launch, described.index, programs)
        return self._execute(launch, described.index, table, accesses)

    def _run_eagerly(
        self, launch: KernelLaunch, described: TraceEntry, programs: Sequence[int]
    ) -> None:
        assert self._eager is not None
        if launch.kernel.variants.synchronises:
            launch.run.warn(
                f"programs of `{launch.kernel.name}` communicate through memory, so their order "
                "may explain differences from the values in Python"
            )
        self._eager.run(launch, described, programs)

    def _execute(
        self, launch: KernelLaunch, index: int, table: Any, accesses: AccessMaps | None
    ) -> LaunchReport:
        def rewrite(module: Module) -> None:
            insert_watches(module, choose(_watchable(module, launch).variables, self._selectors))

        watch = _ValueTaker(self, index, launch.kernel.name, table)
        if accesses is None:
            return launch.execute(self.instruments, rewrite=rewrite, watch=watch)
        watch.takes_log = accesses.take
        instruments = replace(accesses.instruments, rewrites=self.instruments.rewrites)
        report = accesses.launch.execute(
            instruments, regions=accesses.regions, rewrite=rewrite, watch=watch
        )
        accesses.finish()
        return report

    def _look(self, launch: KernelLaunch) -> list[Variable]:
        """Return the watched variables of a kernel, and remember all variables that it has."""
        cached = self._variables.get(launch.kernel.variants)
        if cached is not None:
            return cached
        search = _watchable(launch.kernel.variants.module, launch)
        variables = search.variables
        with self._lock:
            unavailable = self._unavailable.setdefault(launch.kernel.name, [])
            unavailable += [item for item in search.unavailable if item not in unavailable]
            known_rows = self._known.setdefault(launch.kernel.name, [])
            rows = [(v.name, v.location.file, v.location.line) for v in variables]
            known_rows += [row for row in dict.fromkeys(rows) if row not in known_rows]
            for selector in self._selectors:
                if any(map(selector.matches, variables)):
                    self._matched.add(selector)
        chosen = self._variables[launch.kernel.variants] = choose(variables, self._selectors)
        return chosen

    def _chosen(self, grid: Grid) -> Any:
        """Return the linear ids of the programs to record; None for all."""
        programs = self._programs
        if programs is None and self._most is not None and prod(grid) > self._most:
            programs = f"0,last,random:{self._most - 2}"
        return arrange(grid, "natural", self._seed, programs)

    def _describe(self, launch: KernelLaunch, grid: Grid) -> TraceEntry:
        with self._lock:
            index = self._launches
            self._launches += 1
        arguments = tuple(_argument(launch, n) for n in range(len(launch.values)))
        spec = LaunchSpec(kernel=launch.kernel.name, grid=grid, arguments=arguments)
        described = TraceEntry(index, spec)
        self.writer.describe("launch", stored(described))
        return described

    def number_of(self, kernel: str, site: Site) -> int:
        """Return the number of a watched assignment; on first use, describe it in the trace."""
        with self._lock:
            number = self._assignments.get((kernel, site))
            if number is not None:
                return number
            number = self._assignments[kernel, site] = len(self._assignments)
            at = site.location or SourceLocation("", 0, 0)
            described = json.loads(site.text)
            element, shape, *_ = site.operands[0]
            assignment = Assignment(
                kernel=kernel,
                name=described["name"],
                file=at.file,
                line=at.line,
                callers=tuple((caller.file, caller.line) for caller in at.callers),
                element=element,
                shape=shape,
                masked=len(site.operands) > 1,
                filled=described["filled"],
                parameter=described.get("parameter", -1),
            )
            fields = msgspec.to_builtins(assignment)
            self.writer.describe("assignment", {"number": number, **fields})
            if at.file not in self._sources:
                self._sources.add(at.file)
                text = "".join(source_lines(at.file))
                if text and len(text) < _LONGEST_SOURCE:
                    self.writer.describe("source", {"file": at.file, "text": text})
            return number

    # ---- after the run

    def complaints(self) -> list[str]:
        """Return a sentence for each selector that matched nothing."""
        return [
            unmatched_sentence(selector, dict(self._known), self._unavailable)
            for selector in self._selectors
            if selector not in self._matched
        ]

    def gaps(self) -> list[str]:
        """Return a sentence for each selector that selects available and unavailable variables."""
        sentences = [
            unavailable_sentence(selector, self._unavailable)
            for selector in self._selectors
            if selector in self._matched
        ]
        return [sentence for sentence in sentences if sentence]

    def finish(self) -> None:
        self.writer.describe("end", {"refused": self.writer.refused})
        self.writer.flush()
        if self._eager is not None:
            self._eager.finish()


def _watchable(module: Module, launch: KernelLaunch) -> ModuleVariables:
    search = find_variables(module, launch.kernel.plan.names)
    kept = [v for v in search.variables if numpy_type(str(element_of(v.value.type))) is not None]
    return ModuleVariables(kept, search.unavailable)


class _ValueTaker:
    """Receives the values of one launch, as described by the protocol `monitor.Watch`."""

    def __init__(self, recorder: Recorder, launch: int, kernel: str, table: Any) -> None:
        self._recorder = recorder
        self._launch = launch
        self._kernel = kernel
        self._table = table
        self.table_address = int(table.ctypes.data)
        self.takes_log: Callable[[Any], None] | None = None
        self._assignments: dict[int, tuple[int, Callable[[int], tuple[bytes, bytes, bytes]]]] = {}

    def take(self, program: int, site: Site, payload: int) -> None:
        entry = self._assignments.get(id(site))
        if entry is None:
            number = self._recorder.number_of(self._kernel, site)
            entry = self._assignments[id(site)] = number, _reader(site)
        number, read = entry
        if not self._recorder.writer.value(number, self._launch, program, *read(payload)):
            self._table[:] = 0  # the limit is reached


def _reader(site: Site) -> Callable[[int], tuple[bytes, bytes, bytes]]:
    """Return a function that reads the iterations, mask and elements of a value.

    The function takes the address of the data that native code has written for the value.
    """
    element, shape, *_ = site.operands[0]
    kind = numpy_type(element)
    assert kind is not None  # other types are not watched
    lanes = prod(shape)
    size = lanes * kind.itemsize
    masked = len(site.operands) > 1
    word = ctypes.c_uint64.from_address

    def read(payload: int) -> tuple[bytes, bytes, bytes]:
        data = ctypes.string_at(word(payload).value, size)
        mask = ctypes.string_at(word(payload + 8).value, lanes) if masked else b""
        after = payload + 8 * (1 + masked)
        iterations = ctypes.string_at(after + 8, 8 * word(after).value)
        return iterations, mask, data

    return read


def _argument(launch: KernelLaunch, index: int) -> ArgumentSpec:
    """Describe an argument; for a tensor on a GPU, describe the host copy that the kernel uses."""
    argument = launch.spec.arguments[index]
    if index not in launch.kernel.plan.pointers:
        return argument
    tensor = launch.memory(index)
    if tensor is not None:
        return msgspec.structs.replace(argument, value=tensor)
    address = launch.raw_parameters[index]
    storage = storage_extent(launch.values[index]) or (address, address)
    return pointer_argument(argument.name, argument.type, address, storage)
