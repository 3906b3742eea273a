"""Watches the outputs of a launch that were handed to it uninitialised, and words what is missing.

A part of initcheck. `memory.outputs` decides which outputs are judged, and when.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ttools.core.findings.findings import Finding, Related
from ttools.core.location import SourceLocation, location_of_line, user_location
from ttools.core.process.host_line import host_line
from ttools.interpreter.abi.region import Region
from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import Module
from ttools.ir.dialects.traits import WRITES
from ttools.sanitizer.analysis.dataflow import is_read
from ttools.sanitizer.analysis.pointer_tables import pointer_tables
from ttools.sanitizer.launch.stored_bytes import StoredBytes, stores_to
from ttools.sanitizer.memory.host_views import start_of
from ttools.sanitizer.memory.launch_state import tensors_among
from ttools.sanitizer.memory.missing import Missing, View
from ttools.sanitizer.memory.outputs import Handed
from ttools.sanitizer.memory.shadows import ArgumentShadows
from ttools.sanitizer.passes import undefined

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ttools.sanitizer.checks.check import Check

_TAIL = (
    "let the grid cover the tail, for example triton.cdiv(n, BLOCK) programs where n // BLOCK are "
    "launched, and mask the accesses"
)
_COPIES = "write the memory before it is copied, for example with torch.zeros"
_BESIDE = (
    "read the tensor that the kernel was given; .contiguous(), .reshape() and .to() may have made "
    "a copy, which is to be copied back"
)

#: In the place of a parameter: pointers that derive from none.
_BEHIND = -1


def stores(module: Module) -> Mapping[int, SourceLocation]:
    """By parameter: where a kernel stores through it, the last location of several."""
    return dict(_places(module, writes=True))


def loads(module: Module) -> Mapping[int, SourceLocation]:
    """By parameter: where a kernel loads through it."""
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
    """Watch what a launch has left unwritten; called when it has run.

    Args:
        check: initcheck, of the launch.
        shadows: Those that the launch has kept itself, if it has.
    """
    checked = check.checked
    launch, regions, outputs = checked.launch, checked.regions, checked.outputs
    outputs.handed({region.storage[0] for region in regions})
    if outputs.any:
        read = checked.kernel.fact(undefined.reads)
        outputs.consumed(regions[n].storage[0] for n in read)
        if checked.is_given_device_memory:
            outputs.consumed(filter(None, (start_of(launch.arguments[n]) for n in read)))
    kept = frozenset[int]() if shadows is None else frozenset(shadows.kept)
    reads_unwritten = any(found.kind == "uninit_read" for found in checked.findings)
    for start in kept:
        storage = checked.memory.find(start)
        if storage is not None:
            storage.settle(carries=not reads_unwritten)
    stored = StoredBytes(checked)
    for index in launch.kernel.variants.effects.written:
        storage = checked.memory.find(regions[index].storage[0])
        if storage is not None and storage.start not in kept:
            stored.take(storage, regions[index])
    if reads_unwritten:
        return  # what it left, or computed to be as if it had, is an effect of that
    for index in launch.kernel.variants.effects.written:
        region = regions[index]
        storage = checked.memory.find(region.storage[0])
        if storage is None:
            continue
        if not checked.is_trial and not checked.is_given_device_memory:
            _watch_bystanders(check, index)
        if outputs.is_whole(region, is_trial=checked.is_trial):
            continue
        tensor = next(iter(tensors_among([launch.arguments[index]])), None)
        if tensor is None or not hasattr(tensor, "untyped_storage"):
            continue
        view = View.of(tensor)
        if view.end > storage.nbytes:
            continue
        copied = storage.carried if storage.start in kept else None
        missing = storage.refresh().view(np.bool_).copy() if checked.is_trial else None
        tell = _sentence(check, index, frozenset() if shadows is None else shadows.sources)
        handed = Handed(view=view, tell=tell, copied=copied, missing=missing)
        outputs.watch(tensor.untyped_storage(), handed)
    if launch.kernel.variants.effects.unknown_writes:
        _watch_behind_pointers(check, stored, kept)
    outputs.settle()


def _watch_bystanders(check: Check, index: int) -> None:
    """Watches tensors of an output's size that the launch was not given, and nobody has written."""
    checked = check.checked
    tensor = checked.launch.arguments[index]
    count = int(tensor.numel()) if hasattr(tensor, "untyped_storage") else 0
    if count and checked.memory.bystanders.of(count):
        checked.outputs.watch_bystanders(count, _Beside(_sentence(check, index, frozenset())))


def _watch_behind_pointers(check: Check, taken: StoredBytes, kept: frozenset[int]) -> None:
    """Watch what a launch has stored to through pointers from memory, and not written whole."""
    checked, outputs = check.checked, check.checked.outputs
    monitor = checked.monitor
    if monitor is None or not checked.instruments.footprints or checked.is_trial:
        return
    own = {region.storage for region in checked.regions}
    for start, end, storage in checked.book.on_host():
        if (start, end) in own or not checked.memory.is_watched(start):
            continue
        known = checked.memory.find(start)
        if known is not None and start not in kept:
            taken.take(known, Region((start, end), (start, end)))
        if outputs.is_whole(Region((start, end), (start, end))):
            continue
        stored = stores_to(monitor, start, end)
        if len(stored):
            # Whoever took the address may have meant a part, of which nothing is known.
            item = int(monitor.sites[int(stored["site"][0])].size)
            view = View(offset=0, shape=((end - start) // item,), strides=(item,), item=item)
            tell = _sentence(check, _BEHIND, frozenset())
            outputs.watch(storage, Handed(view=view, tell=tell))
            outputs.consumed([start])  # which of it is an output only its reader knows


@dataclass(frozen=True)
class _Sentence:
    """What is said of one output; it must not keep the arguments of the launch alive.

    Attributes:
        name: what the output is called.
        unwritten: the finding of elements that nobody wrote, but for what is known later.
        copied: the same of elements that hold copies.
    """

    name: str
    unwritten: Finding
    copied: Finding

    def __call__(self, missing: Missing, *, copied: bool, read: bool) -> Finding:
        few = f"{missing.count:,} of {missing.total:,} elements of {self.name}"
        line = host_line() if read else None
        at = f" at {self.place(line)}" if line else ""
        when = f"and the host reads them{at}" if read else "and the run has ended"
        found, text = self.unwritten, f"{few} were never written, {when}"
        if copied:
            found = self.copied
            text = f"elements that were never written were copied to {few}, {when}"
        if not copied and missing.at_end and missing.count < missing.total:
            found = replace(found, help=_TAIL)
        return replace(
            found,
            message=text,
            severity="error" if read else "warning",
            notes=(*missing.sentences(), *found.notes),
            related=() if line is None else (_reader(line),),
        )

    def place(self, line: str) -> str:
        """A line of the host as a sentence names it, with the file unless it is the kernel's."""
        file, _, number = line.rpartition(":")
        kernel = self.unwritten.location
        same = kernel is not None and os.path.realpath(kernel.file) == os.path.realpath(file)
        return f"line {number}" if same else f"{Path(file).name}:{number}"


@dataclass(frozen=True)
class _Beside:
    """What is said of a tensor that the host reads in the place of an output.

    Attributes:
        output: the same of that one.
    """

    output: _Sentence

    def __call__(self, missing: Missing, *, copied: bool, read: bool) -> Finding:
        found = self.output(missing, copied=False, read=read)
        line = found.related[0].location if found.related else None
        at = "" if line is None else f" at {self.output.place(f'{line.file}:{line.line}')}"
        name = self.output.name
        return replace(
            found,
            message=f"the host reads {missing.total:,} elements{at} that were never written, and "
            f"no launch was given them: this one stores as many to another tensor, {name}",
            notes=found.notes[len(missing.sentences()) :],
            help=_BESIDE,
        )


def _reader(line: str) -> Related:
    return Related(message="the host reads it here", location=location_of_line(line))


def _sentence(check: Check, index: int, copied_from: frozenset[int]) -> _Sentence:
    spec, kernel = check.checked.spec, check.checked.kernel
    notes = ("grid: ({}, {}, {})".format(*spec.grid),)
    stored = kernel.fact(stores).get(index)
    source = min(copied_from - {index}, default=index)
    if index == _BEHIND:
        index = source = kernel.at(pointer_tables, stored, _BEHIND)
        name = f"a tensor behind `{spec.names[index]}`" if index >= 0 else "a tensor in a table"
    else:
        name = f"`{spec.names[index]}`"
    return _Sentence(
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
    )
