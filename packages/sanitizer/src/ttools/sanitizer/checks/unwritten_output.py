"""The part of `initcheck` for uninitialised outputs that a launch did not write completely.

`memory.outputs` decides which of these outputs are reported, and when. Values alone do not show
which bytes were written: memory that contains the pattern of unwritten memory after a launch is
only a candidate. The stores of the launch are evidence. If the launch logs its accesses, the log
contains its stores. Any other launch is run again, provided that it has not changed memory that it
reads and that its programs do not wait for each other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ttools.core.findings.findings import Finding, Related
from ttools.core.location import SourceLocation, location_of_line, user_location
from ttools.core.process.host_line import host_line
from ttools.core.spec import view_spec
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.abi.region import Region
from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.runtime.monitor import Monitor
from ttools.ir import Module
from ttools.ir.dialects.traits import WRITES
from ttools.sanitizer.analysis.dataflow import is_read
from ttools.sanitizer.analysis.pointer_tables import pointer_tables
from ttools.sanitizer.causes.grids import grid_notes
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.launch.replay import read_and_written, undoing
from ttools.sanitizer.memory.host_storages import start_of
from ttools.sanitizer.memory.launch_state import tensors_among
from ttools.sanitizer.memory.outputs import OutputView
from ttools.sanitizer.memory.shadows import ArgumentShadows
from ttools.sanitizer.memory.unwritten_elements import Missing, consecutive, ordinal
from ttools.sanitizer.memory.unwritten_storage import UnwrittenStorage
from ttools.sanitizer.passes import undefined
from ttools.sanitizer.races import Records

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ttools.sanitizer.checks.check import Check

_TAIL = (
    "let the grid cover the tail, for example with triton.cdiv(n, BLOCK) programs instead of "
    "n // BLOCK, and mask the accesses"
)
_STEP = "only every {} element is written: correct the stride of the store"
_OVERLAP = (
    "correct the index of the store in line {}: several programs or lanes store to the same "
    "elements, and none stores to these"
)
_COPIES = "write the memory before it is copied, for example with torch.zeros"
_BESIDE = (
    "read the tensor that the kernel was given; .contiguous(), .reshape() and .to() may have made "
    "a copy, which must be copied back"
)

#: Maximum number of launches that a finding names as writers of a tensor.
_MOST_WRITERS = 3
#: Used instead of a parameter for pointers that do not derive from any parameter.
_BEHIND = -1


def stores(module: Module) -> Mapping[int, SourceLocation]:
    """Return the last location at which a kernel stores through each parameter."""
    return dict(_places(module, writes=True))


def loads(module: Module) -> Mapping[int, SourceLocation]:
    """Return a location at which a kernel loads through each parameter."""
    return dict(_places(module, writes=False))


def _places(module: Module, *, writes: bool) -> Iterator[tuple[int, SourceLocation]]:
    provenance = Provenance(module.kernel)
    for op in module.kernel.walk():
        if not (op.has(WRITES) and op.operand("ptr") is not None if writes else is_read(op)):
            continue
        location = user_location(op.location) or op.location
        for root in provenance.of(op.operands[0]):
            if location is not None:
                yield _BEHIND if root is None else root, location


def watch_outputs(check: Check, shadows: ArgumentShadows | None) -> None:
    """After a launch, watch the outputs that it has left partly unwritten.

    Args:
        check: The `initcheck` of the launch.
        shadows: The shadows that the kernel itself has kept; None if there are none.
    """
    checked = check.checked
    launch, regions, outputs = checked.launch, checked.regions, checked.outputs
    outputs.passed_to_launch({region.storage[0] for region in regions})
    if outputs.any:
        read = checked.kernel.fact(undefined.reads)
        outputs.consumed(regions[n].storage[0] for n in read)
        if checked.is_given_device_memory:
            outputs.consumed(filter(None, (start_of(launch.arguments[n]) for n in read)))
    kept = frozenset[int]() if shadows is None else frozenset(shadows.kept)
    reads_unwritten = any(finding.kind == "uninit_read" for finding in checked.findings)
    for start in kept:
        storage = checked.memory.find(start)
        if storage is not None:
            storage.settle(carries=not reads_unwritten)
    stored = StoredBytes(checked)
    complete = _take_stores(checked, stored, kept)
    if reads_unwritten:
        return  # unwritten elements are an effect of the reads that are reported already
    for index in launch.kernel.variants.effects.written:
        region = regions[index]
        storage = checked.memory.find(region.storage[0])
        if storage is None:
            continue
        if not checked.is_trial and not checked.is_given_device_memory:
            _watch_untouched(check, index)
        if outputs.is_whole(
            region, is_trial=checked.is_trial, is_searched=storage.start in complete
        ):
            continue
        tensor = next(iter(tensors_among([launch.arguments[index]])), None)
        if tensor is None or not hasattr(tensor, "untyped_storage"):
            continue
        view = view_spec(tensor)
        if view.span[1] > storage.nbytes:
            continue
        copied = storage.carried if storage.start in kept else None
        missing = storage.refresh().view(np.bool_).copy() if checked.is_trial else None
        make_finding = _output_finding(
            check, index, frozenset() if shadows is None else shadows.sources
        )
        output_view = OutputView(
            view=view, make_finding=make_finding, copied=copied, missing=missing
        )
        outputs.watch(tensor.untyped_storage(), output_view)
    if launch.kernel.variants.effects.unknown_writes:
        _watch_behind_pointers(check, stored, kept)
    outputs.settle()


def _take_stores(
    checked: CheckedLaunch, stored: StoredBytes, kept: frozenset[int]
) -> frozenset[int]:
    """Update the records of the storages to which a launch may have stored.

    Args:
        checked: A launch that has run.
        stored: The bytes to which the launch has stored.
        kept: Addresses of storages whose shadows the kernel itself has kept.

    Returns:
        Addresses of the storages in which a search has found no unwritten bytes in any region.
    """
    launch = checked.launch
    complete, incomplete = set[int](), set[int]()
    for index in launch.kernel.variants.effects.written:
        region = checked.regions[index]
        storage = checked.memory.find(region.storage[0])
        if storage is not None:
            storage.writers[launch.kernel.name, launch.site.line] = None
            is_complete = storage.start not in kept and stored.take(storage, region)
            (complete if is_complete else incomplete).add(storage.start)
    return frozenset(complete - incomplete)


def earlier_writers(checked: CheckedLaunch, index: int) -> tuple[Related, ...]:
    """Return the last launches before this one that stored to a part of a tensor.

    Args:
        checked: A launch that has run, but whose outputs are not watched yet.
        index: Index of the tensor's parameter.
    """
    storage = checked.memory.find(checked.regions[index].storage[0]) if index >= 0 else None
    writers = [] if storage is None else list(storage.writers)[-_MOST_WRITERS:]
    return tuple(
        Related(
            message=f"this launch of `{kernel}` stores to the tensor, but not to these elements",
            location=location_of_line(line),
        )
        for kernel, line in writers
        if line is not None
    )


def _watch_untouched(check: Check, index: int) -> None:
    """Watch unwritten tensors of an output's size that were not passed to the launch."""
    checked = check.checked
    tensor = checked.launch.arguments[index]
    count = int(tensor.numel()) if hasattr(tensor, "untyped_storage") else 0
    if count and checked.memory.untouched.of(count):
        checked.outputs.watch_untouched(
            count, _UntouchedFinding(_output_finding(check, index, frozenset()))
        )


def _watch_behind_pointers(check: Check, taken: StoredBytes, kept: frozenset[int]) -> None:
    """Watch memory that the launch has partly written through pointers loaded from memory."""
    checked, outputs = check.checked, check.checked.outputs
    monitor = checked.monitor
    if monitor is None or not checked.instruments.footprints or checked.is_trial:
        return
    own = {region.storage for region in checked.regions}
    for start, end, storage in checked.book.on_host():
        if (start, end) in own or not checked.memory.is_watched(start):
            continue
        watched = checked.memory.find(start)
        if watched is not None and start not in kept:
            taken.take(watched, Region((start, end), (start, end)))
        if outputs.is_whole(Region((start, end), (start, end))):
            continue
        stored = stores_to(monitor, start, end)
        if len(stored):
            # If the program takes the address of a storage, it may mean only a part of the storage.
            item = int(monitor.sites[int(stored["site"][0])].size)
            view = consecutive((end - start) // item, item)
            make_finding = _output_finding(check, _BEHIND, frozenset())
            outputs.watch(storage, OutputView(view=view, make_finding=make_finding))
            outputs.consumed([start])  # only reads show which part is an output


@dataclass(frozen=True)
class _OutputFinding:
    """Makes the findings for one output, without keeping the arguments of the launch alive.

    Attributes:
        name: The output's name in messages.
        unwritten: Template of the finding for elements that were never written.
        copied: Template of the finding for elements that hold copies of unwritten elements.
        explanations: Notes that explain the finding; they come before all other notes.
        of_launch: All findings of the launch. Those of other checks are added later.
    """

    name: str
    unwritten: Finding
    copied: Finding
    explanations: tuple[str, ...] = ()
    of_launch: Sequence[Finding] = ()

    def __call__(self, missing: Missing, *, copied: bool, read: bool) -> Finding:
        few = f"{missing.count:,} of {missing.total:,} elements of {self.name}"
        line = host_line() if read else None
        at = f" at {self.place(line)}" if line else ""
        when = f"and the host reads them{at}" if read else "and the run has ended"
        template, text = self.unwritten, f"{few} were never written, {when}"
        if copied:
            template = self.copied
            text = f"elements that were never written were copied to {few}, {when}"
        overlap = self._overlap()
        if not copied and overlap is not None and overlap.location is not None:
            template = replace(template, help=_OVERLAP.format(overlap.location.line))
        elif not copied and missing.at_end and missing.count < missing.total:
            template = replace(template, help=_TAIL)
        if not copied and missing.written_step is not None:
            step = ordinal(missing.written_step)
            template = replace(template, help=_STEP.format(step))
        return replace(
            template,
            message=text,
            severity="error" if read else "warning",
            notes=(*self.explanations, *missing.sentences(), *template.notes),
            related=() if line is None else (_reader(line),),
        )

    def _overlap(self) -> Finding | None:
        """Return an error about stores of different values to one element of the output."""
        argument = self.unwritten.argument
        overlaps = (
            finding
            for finding in self.of_launch
            if (finding.kind, finding.severity) == ("overlapping_store", "error")
        )
        same = (finding for finding in overlaps if argument and finding.argument == argument)
        return next(same, None)

    def place(self, line: str) -> str:
        """Return a line of host code as text for sentences.

        The text names the file unless it is the file of the kernel.
        """
        file, _, number = line.rpartition(":")
        kernel = self.unwritten.location
        same = kernel is not None and os.path.realpath(kernel.file) == os.path.realpath(file)
        return f"line {number}" if same else f"{Path(file).name}:{number}"


@dataclass(frozen=True)
class _UntouchedFinding:
    """Makes the findings for tensors that the host reads instead of an output.

    Attributes:
        output: Makes the findings for the output itself.
    """

    output: _OutputFinding

    def __call__(self, missing: Missing, *, copied: bool, read: bool) -> Finding:
        finding = self.output(missing, copied=False, read=read)
        line = finding.related[0].location if finding.related else None
        at = "" if line is None else f" at {self.output.place(f'{line.file}:{line.line}')}"
        name = self.output.name
        return replace(
            finding,
            message=f"the host reads {missing.total:,} elements{at} that were never written and "
            f"not passed to any launch: this launch stores as many to another tensor, {name}",
            notes=(*self.output.explanations, *self.output.unwritten.notes),
            help=_BESIDE,
        )


def _reader(line: str) -> Related:
    return Related(message="the host reads the tensor here", location=location_of_line(line))


def _output_finding(check: Check, index: int, copied_from: frozenset[int]) -> _OutputFinding:
    spec, kernel = check.checked.spec, check.checked.kernel
    notes = ("grid: ({}, {}, {})".format(*spec.grid),)
    stored = kernel.fact(stores).get(index)
    source = min(copied_from - {index}, default=index)
    if index == _BEHIND:
        index = source = kernel.at(pointer_tables, stored, _BEHIND)
        name = f"a tensor behind `{spec.names[index]}`" if index >= 0 else "a tensor in a table"
    else:
        name = f"`{spec.names[index]}`"
    return _OutputFinding(
        name,
        check.finding(
            "unwritten_output",
            "",
            argument=spec.argument(index),
            location=stored,
            notes=notes,
        ),
        check.finding(
            "uninit_read",
            "",
            argument=spec.argument(source),
            location=kernel.fact(loads).get(source) or stored,
            notes=notes,
            help=_COPIES,
        ),
        grid_notes(check.checked),
        check.checked.findings,
    )


#: Maximum total size of the storages that are copied for a second run, in bytes.
_LARGEST_SAVED = 1 << 32
#: Copying up to this number of bytes takes negligible time.
_LITTLE = 1 << 20
#: In storages of more bytes than this, only the part that was passed to the launch is searched.
_LARGEST_SEARCHED = 1 << 24
#: A launch is not run again for storages of more bytes than this.
_LARGEST_RUN_FOR = 1 << 22


class StoredBytes:
    """The bytes to which a launch has stored, determined on demand.

    Args:
        checked: A launch that has run.
    """

    def __init__(self, checked: CheckedLaunch) -> None:
        self._checked = checked
        self._again: Monitor | None = None
        self._is_again = False

    @property
    def is_logged(self) -> bool:
        """Return whether the launch has logged all its stores."""
        monitor = self._checked.monitor
        logs = self._checked.instruments.footprints
        return monitor is not None and logs and not monitor.log_is_full

    def take(self, storage: UnwrittenStorage, region: Region) -> bool:
        """Mark as written the bytes of a storage to which the launch has stored.

        Nothing happens unless the storage may have unwritten bytes.

        Args:
            storage: Unwritten memory, which is updated.
            region: The part of the storage that was passed to the launch.

        Returns:
            True if a search has found that no byte of the region is unwritten.
        """
        start, nbytes = storage.start, storage.nbytes
        first, end = region.view if nbytes > _LARGEST_SEARCHED else region.storage
        if not storage.remembers_writes:
            return False
        if not storage.suspects(first - start, end - start):
            return True
        monitor = self._checked.monitor if self.is_logged else self._again
        can_run = monitor is None and not self._is_again and nbytes <= _LARGEST_RUN_FOR
        if can_run and storage.needs_second_run(self._is_cheap):
            self._is_again = True
            monitor = self._again = _logged_again(self._checked)
        if monitor is not None:
            stored = stores_to(monitor, start, start + nbytes, ("store", "atomic"))
            storage.store(
                (stored["start"].astype(np.int64) - start, stored["end"].astype(np.int64) - start)
            )
        return False

    @property
    def _is_cheap(self) -> bool:
        """Return whether the launch writes little memory."""
        written = self._checked.launch.written_storages
        return written is not None and sum(b - a for a, b in written) <= _LITTLE


def _logged_again(checked: CheckedLaunch) -> Monitor | None:
    """Run a launch again with a log of its stores, and restore memory.

    Returns:
        None if the launch cannot be repeated, or its stores do not fit into a log.
    """
    launch = checked.launch
    written = launch.written_storages
    if (
        written is None
        or launch.kernel.variants.synchronises
        or checked.hung
        or checked.kernel.calls
    ):
        return None
    if sum(end - start for start, end in written) > _LARGEST_SAVED:
        return None
    if read_and_written(launch, checked.kernel.fact(undefined.reads), written):
        return None  # the second run would read what the first run has written
    with undoing(launch, written):
        launch.execute(
            Instruments(guards=True, footprints=True),
            regions=checked.regions,
            allocations=checked.allocations,
        )
        monitor = launch.monitor
        return None if monitor is None or monitor.log_is_full else monitor
    return None


def stores_to(
    monitor: Monitor, start: int, end: int, kinds: tuple[str, ...] = ("store",)
) -> Records:
    """Return a launch's accesses of the given kinds to a storage."""
    records, _ = monitor.records()
    writes = np.array([site.kind in kinds for site in monitor.sites], np.bool_)
    inside = records[(records["start"] < end) & (records["end"] > start)]
    stored: Records = inside[writes[inside["site"]]]
    return stored
