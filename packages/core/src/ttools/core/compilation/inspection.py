"""What a compiled kernel takes and does: as data, as text and in a notebook.

Two kernels can be compared figure by figure. Pages in HTML are made by `html.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

from ttools.core.compilation.annotation import annotate
from ttools.core.compilation.instructions import (
    WIDEST,
    GlobalAccess,
    MatrixInstructions,
    dots_without_matrix_units,
    global_accesses,
    matrix_instructions,
)
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.layouts.ttgir import explain, layouts_of, shapes_of
from ttools.core.compilation.machine_code import MachineCode, read_machine_code
from ttools.core.compilation.resources import Occupancy, Resources, occupancy, resources_of
from ttools.core.compilation.specialisation import Change, reason
from ttools.core.compilation.stages import Compilation, compile_for
from ttools.core.errors import TtoolsError
from ttools.core.gpus.launch_rules import Violation, broken_rules, limits_of
from ttools.core.gpus.targets import Target
from ttools.core.location import SourceLocation, shown_line, shown_path, source_line
from ttools.core.once import computed_once
from ttools.core.reports.report import counted
from ttools.core.reports.shown import Code, Part, ShowsItself, Table, Text, place_cells

#: Options that need no mention.
_USUAL = {"num_ctas": 1, "enable_fp_fusion": True}
_NARROW = "narrower than 128 bits"


@dataclass(frozen=True)
class Inspection(ShowsItself):
    """A kernel compiled for a target, and what can be read off it.

    Attributes:
        recompiled: why it was compiled although the kernel had been before; empty the first time.
    """

    compilation: Compilation
    recompiled: tuple[Change, ...] = field(default=())

    def _shown(self) -> Iterator[Part]:
        parameters = self.source.parameters().items()
        yield Table(title(self), ("parameter", "specialised as"), list(parameters))
        yield Text("\n".join(resource_lines(self)))
        rows: list[tuple[str, ...]] = [
            (
                *_cells(access.location),
                access.kind,
                str(access.bits or "a block"),
                str(access.count),
            )
            for access in self.accesses
        ]
        rows += [
            (*_cells(product.location), product.name, "", str(product.count))
            for product in self.matrix
        ]
        columns = ("line", "|source", "instruction", ">bits", ">times")
        yield Table("Accesses to global memory and matrix units", columns, rows)
        for stage in self.compilation.stages:
            if stage in ("ttir", "ttgir", "ptx", "amdgcn"):
                yield Code(
                    inspection_text(self, [stage]), summary=f"{stage}, under the lines it is of"
                )

    @property
    def source(self) -> KernelSource:
        return self.compilation.source

    @property
    def target(self) -> Target:
        return self.compilation.target

    @computed_once
    def resources(self) -> Resources:
        return resources_of(self.compilation)

    @cached_property
    def occupancy(self) -> Occupancy | None:
        """None where the limits of the target are not known."""
        limits = self.target.limits
        return occupancy(self.resources, limits) if limits else None

    @cached_property
    def broken_rules(self) -> list[Violation]:
        """The launch rules of the target that every launch of the kernel breaks."""
        metadata = self.compilation.metadata
        needs = self.resources.needs(
            cluster=metadata.get("num_ctas"), tensor_memory=metadata.get("tmem_size")
        )
        return broken_rules(needs, limits_of(self.target, self.resources.warps))

    @cached_property
    def machine_code(self) -> MachineCode | None:
        """What a GPU of NVIDIA's executes; None for others, whose code is not read.

        Raises:
            TtoolsError: NVIDIA's binary tools are not there.
        """
        return read_machine_code(self.compilation.sass) if self.target.backend == "cuda" else None

    @cached_property
    def accesses(self) -> list[GlobalAccess]:
        return global_accesses(self.compilation)

    @cached_property
    def matrix(self) -> list[MatrixInstructions]:
        return matrix_instructions(self.compilation)

    @cached_property
    def plain_dots(self) -> list[SourceLocation | None]:
        """Products that no matrix unit computes."""
        return dots_without_matrix_units(self.compilation)

    @cached_property
    def layouts(self) -> list[tuple[str, str, list[str]]]:
        """Name, parameters and explanation of each layout of TTGIR."""
        ttgir = self.compilation.texts["ttgir"]
        return [
            (
                layout.name,
                f"{layout.kind}<{layout.text}>" if layout.text else layout.kind,
                list(explain(layout, shapes_of(ttgir, layout), self.target.threads)),
            )
            for layout in layouts_of(ttgir)
        ]

    @cached_property
    def specialisations(self) -> list[str]:
        """What specialisation did for each parameter."""
        return [f"{name}: {kind}" for name, kind in self.source.parameters().items()]

    def figures(self) -> dict[str, float | int | None]:
        """The numbers that two compilations are compared by."""
        held = self.occupancy
        own = self.resources
        return {
            "registers": own.registers,
            "spilled bytes": own.spilled,
            "spill instructions": own.spill_instructions,
            "shared memory": own.shared,
            "threads": own.threads,
            "blocks per multiprocessor": held.blocks if held else None,
            "occupancy": held.share if held else None,
            "narrow accesses": sum(a.count for a in self.accesses if 0 < a.bits < WIDEST),
            "wide accesses": sum(a.count for a in self.accesses if a.bits >= WIDEST or not a.bits),
            "matrix instructions": sum(m.count for m in self.matrix),
            "dots without matrix units": len(self.plain_dots),
        }

    def as_dict(self, stages: Sequence[str] = ()) -> dict[str, Any]:
        """As JSON can hold it: schema `ttools.inspection/1`."""
        held = self.occupancy
        return {
            "kernel": self.source.name,
            "target": self.target.name,
            "parameters": self.source.parameters(),
            "options": dict(self.source.options),
            "launched": self.source.launched,
            "recompiled": [vars(change) for change in self.recompiled],
            "resources": vars(self.resources),
            "occupancy": {**vars(held), "share": held.share} if held else None,
            "accesses": [_placed(vars(access)) for access in self.accesses],
            "matrix_instructions": [_placed(vars(each)) for each in self.matrix],
            "dots_without_matrix_units": [_place(each) for each in self.plain_dots],
            "layouts": [
                {"name": name, "parameters": text, "explanation": said}
                for name, text, said in self.layouts
            ],
            "stages": {stage: self.compilation.text(stage) for stage in stages},
        }


@contextmanager
def disassembling(inspections: Sequence[Inspection]) -> Iterator[None]:
    """Disassemble kernels of NVIDIA's in other processes while the context lasts.

    NVIDIA's disassembler takes half a second to start, so that one kernel after the other takes
    longer than all else that is to be said of them. What cannot be disassembled raises its error
    where the machine code is first used.
    """
    wanted = [each.compilation for each in inspections if each.target.backend == "cuda"]

    def read(compilation: Compilation) -> None:
        with suppress(TtoolsError):
            _ = compilation.sass

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        waiting = [pool.submit(read, each) for each in wanted if "sass" not in vars(each)]
        yield
        for each in waiting:
            each.result()


def _placed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "location": _place(row["location"])}


def _place(location: SourceLocation | None) -> dict[str, Any] | None:
    return {"file": location.file, "line": location.line} if location else None


def inspect_sources(
    sources: Sequence[KernelSource], target: Target, found: list[Inspection] | None = None
) -> list[Inspection]:
    """Compiles kernels for a target, in order, and says why later ones were compiled at all.

    Args:
        found: takes each as soon as it is compiled; a new list by default.

    Raises:
        CompilationError: Triton's compiler refuses one.
    """
    found = [] if found is None else found
    for n, source in enumerate(sources):
        found.append(Inspection(compile_for(source, target), tuple(reason(sources[:n], source))))
    return found


# ---- as text


def inspection_text(inspection: Inspection, stages: Sequence[str] = ()) -> str:
    """Return one kernel as text: the given stages, or a summary if there are none."""
    body = (
        [line for stage in stages for line in _stage(inspection, stage)]
        if stages
        else list(_summary(inspection))
    )
    return "\n".join([title(inspection), *body]) + "\n"


def title(inspection: Inspection) -> str:
    """Return `softmax_kernel for sm_90, num_warps=4`."""
    given = inspection.source.options.items()
    options = "".join(f", {n}={v}" for n, v in given if _USUAL.get(n) != v)
    return f"{inspection.source.name} for {inspection.target.name}{options}"


def _summary(inspection: Inspection) -> Iterator[str]:
    source = inspection.source
    if source.launched:
        yield f"  launched from {shown_line(source.launched)}"
    if inspection.recompiled:
        why = "; ".join(map(str, inspection.recompiled))
        yield f"  compiled again because of {why}"
    yield from _listed("specialised as", inspection.specialisations)
    yield from _listed("takes", list(resource_lines(inspection)))
    yield from _listed("accesses global memory", list(access_lines(inspection)))
    yield from _listed("matrix units", list(matrix_lines(inspection)))
    layouts = [
        line
        for name, parameters, said in inspection.layouts
        for line in (f"{name} = {parameters}", *(f"  {sentence}" for sentence in said))
    ]
    yield from _listed("layouts", layouts)


def _listed(heading: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"  {heading}:"
        yield from (f"    {line}" for line in lines)


def resource_lines(inspection: Inspection) -> Iterator[str]:
    """Yield a sentence each on registers, spills, shared memory and occupancy."""
    own, held = inspection.resources, inspection.occupancy
    yield (
        f"{counted(own.registers, 'register')} per thread, "
        f"{counted(own.shared, 'byte')} of shared memory, "
        f"{counted(own.threads, 'thread')} ({counted(own.warps, 'warp')}) per block"
    )
    if own.spilled:
        yield (
            f"spills {counted(own.spilled, 'byte')} per thread "
            f"({counted(own.spill_instructions, 'instruction')})"
        )
    if own.local > own.spilled:
        yield f"{counted(own.local - own.spilled, 'byte')} of arrays per thread in local memory"
    if held is None:
        yield f"occupancy: the limits of {inspection.target.name} are not known to ttools"
    elif broken := inspection.broken_rules:
        yield f"does not fit: {broken[0].message}"
    else:
        yield (
            f"occupancy {held.share:.0%}: {counted(held.blocks, 'block')} "
            f"({held.warps} of {held.most_warps} warps) per multiprocessor, "
            f"limited by {held.limited_by}"
        )


def access_lines(inspection: Inspection) -> Iterator[str]:
    """Yield a sentence per line of source and kind of access."""
    for access in inspection.accesses:
        width = f"{access.bits} bits each" if access.bits else "by a whole block"
        narrow = f", {_NARROW}" if 0 < access.bits < WIDEST else ""
        at = _location_text(access.location)
        yield f"{at}: {access.count} x {access.kind}, {width}{narrow}"


def matrix_lines(inspection: Inspection) -> Iterator[str]:
    """Yield a sentence per line of source with a product."""
    for product in inspection.matrix:
        yield f"{_location_text(product.location)}: {product.count} x {product.name}"
    for location in inspection.plain_dots:
        yield f"{_location_text(location)}: a dot product without matrix units"


def _location_text(location: SourceLocation | None) -> str:
    return f"{shown_path(location.file)}:{location.line}" if location else "unknown location"


def _stage(inspection: Inspection, stage: str) -> Iterator[str]:
    """Yield the lines of a stage under the lines of source that they come from."""
    yield f"--- {stage}"
    lines = annotate(stage, inspection.compilation.text(stage))
    for location, group in groupby(lines, key=lambda line: line.source):
        if location is not None and location.file:
            text = source_line(location.file, location.line).strip()
            yield f"# {shown_path(location.file)}:{location.line}: {text}"
        yield from (line.text for line in group)


# ---- two kernels beside each other


def comparison_rows(base: Inspection, other: Inspection) -> list[tuple[str, str, str, str]]:
    """Return a heading, then each figure of two compilations with the factor between them."""
    second = other.figures()
    rows = [
        (name, _figure(value), _figure(second[name]), _change(value, second[name]))
        for name, value in base.figures().items()
    ]
    return [("", title(base), title(other), ""), *rows]


def comparison_text(base: Inspection, other: Inspection) -> str:
    """Return the figures of two compilations beside each other, as text."""
    rows = comparison_rows(base, other)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{name:<{widths[0]}}  {first:>{widths[1]}}  {second:>{widths[2]}}  {change}".rstrip()
        for name, first, second, change in rows
    ]
    return "\n".join(lines) + "\n"


def _figure(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:.0%}" if isinstance(value, float) else f"{value:,}"


def _change(base: float | None, other: float | None) -> str:
    if base is None or other is None or base == other:
        return ""
    return f"x{other / base:.2f}" if base else "new"


def _cells(location: SourceLocation | None) -> tuple[str, str]:
    return place_cells(location.file, location.line) if location else ("", "")
