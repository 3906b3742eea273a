"""Inspections of compiled kernels: their resources and code, as data, as text and in notebooks.

Two kernels can be compared figure by figure. `html.py` generates HTML pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from ttools.core.compilation.layouts.accesses import AccessLayout, access_layouts
from ttools.core.compilation.layouts.ttgir import explain, layouts_of, shapes_of
from ttools.core.compilation.machine_code import MachineCode, read_machine_code
from ttools.core.compilation.resources import Occupancy, Resources, occupancy, resources_of
from ttools.core.compilation.specialisation import Change, reason
from ttools.core.compilation.stages import Compilation, compile_for
from ttools.core.gpus.launch_rules import Violation, broken_rules, limits_of
from ttools.core.gpus.targets import Target
from ttools.core.lazy_values import computed_once
from ttools.core.location import SourceLocation, shown_line, shown_place, source_line
from ttools.core.reports.notebook import Code, Part, ShowsItself, Table, Text, place_cells
from ttools.core.reports.report import counted

#: Default values of options; options with these values are omitted from the text.
_USUAL = {"num_ctas": 1, "enable_fp_fusion": True}
_NARROW = "narrower than 128 bits"


@dataclass(frozen=True, kw_only=True)
class Readings:
    """The properties of a compiled kernel that are slow to determine, as plain data.

    NVIDIA's disassembler takes a quarter of a second of CPU time to start. Other processes
    therefore determine these properties while the program that launches the kernel runs.

    Attributes:
        sass: Disassembled NVIDIA machine code; None for other targets.
        resources: Resources of the kernel. This and the remaining attributes have the same meaning
            as in `Inspection`.
    """

    sass: str | None
    resources: Resources
    machine_code: MachineCode | None
    accesses: list[GlobalAccess]
    plain_dots: list[SourceLocation | None]


@dataclass(frozen=True)
class Inspection(ShowsItself):
    """A kernel compiled for a target, with the properties of the compiled code.

    Attributes:
        recompiled: The changes that made another compilation necessary; empty for the first
            compilation.
        gpu: The GPU as the user names it, such as `h100 (sm_90)`; if empty, the target's name is
            used.
    """

    compilation: Compilation
    recompiled: tuple[Change, ...] = field(default=())
    gpu: str = ""

    @property
    def gpu_name(self) -> str:
        """The GPU in words, such as `h100 (sm_90)`."""
        return self.gpu or self.target.name

    @classmethod
    def of_readings(cls, compilation: Compilation, readings: Readings) -> Inspection:
        """Return the inspection of a kernel whose properties another process has determined."""
        inspection = cls(compilation)
        facts = dict(vars(readings))
        sass = facts.pop("sass")
        if sass is not None:
            vars(compilation)["sass"] = sass
        vars(inspection).update(facts)
        return inspection

    def readings(self) -> Readings:
        """Determine the properties that are slow to compute.

        Raises:
            TtoolsError: NVIDIA's binary tools are missing.
        """
        return Readings(
            sass=self.compilation.sass if self.target.backend == "cuda" else None,
            resources=self.resources,
            machine_code=self.machine_code,
            accesses=self.accesses,
            plain_dots=self.plain_dots,
        )

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
                yield Code(inspection_text(self, [stage]), summary=f"{stage} by source line")

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
        """Return the occupancy, or None if the limits of the target are unknown."""
        limits = self.target.limits
        return occupancy(self.resources, limits) if limits else None

    @cached_property
    def broken_rules(self) -> list[Violation]:
        """Return the launch rules of the target that every launch of the kernel breaks."""
        metadata = self.compilation.metadata
        needs = self.resources.needs(
            cluster=metadata.get("num_ctas"), tensor_memory=metadata.get("tmem_size")
        )
        return broken_rules(needs, limits_of(self.target, self.resources.warps))

    @cached_property
    def machine_code(self) -> MachineCode | None:
        """Return the instructions for an NVIDIA GPU; None for other targets.

        Raises:
            TtoolsError: NVIDIA's binary tools are missing.
        """
        return read_machine_code(self.compilation.sass) if self.target.backend == "cuda" else None

    @cached_property
    def accesses(self) -> list[GlobalAccess]:
        return global_accesses(self.compilation)

    @cached_property
    def access_layouts(self) -> list[AccessLayout]:
        """Return the accesses to tiles with known layouts."""
        return access_layouts(self.compilation)

    @cached_property
    def matrix(self) -> list[MatrixInstructions]:
        return matrix_instructions(self.compilation)

    @cached_property
    def plain_dots(self) -> list[SourceLocation | None]:
        """Return the locations of dot products that use no matrix units."""
        return dots_without_matrix_units(self.compilation)

    @cached_property
    def layouts(self) -> list[tuple[str, str, list[str]]]:
        """Return name, parameters and explanation of each layout in TTGIR."""
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
        """Describe the specialisation of each parameter."""
        return [f"{name}: {kind}" for name, kind in self.source.parameters().items()]

    def figures(self) -> dict[str, float | int | None]:
        """Return the figures that are compared between two compilations."""
        occupancy = self.occupancy
        resources = self.resources
        return {
            "registers": resources.registers,
            "spilled bytes": resources.spilled,
            "spill instructions": resources.spill_instructions,
            "shared memory": resources.shared,
            "threads": resources.threads,
            "blocks per multiprocessor": occupancy.blocks if occupancy else None,
            "occupancy": occupancy.share if occupancy else None,
            "narrow accesses": sum(a.count for a in self.accesses if 0 < a.bits < WIDEST),
            "wide accesses": sum(a.count for a in self.accesses if a.bits >= WIDEST or not a.bits),
            "matrix instructions": sum(m.count for m in self.matrix),
            "dots without matrix units": len(self.plain_dots),
        }

    def as_dict(self, stages: Sequence[str] = ()) -> dict[str, Any]:
        """Return JSON-compatible data with schema `ttools.inspection/1`."""
        occupancy = self.occupancy
        return {
            "kernel": self.source.name,
            "target": self.target.name,
            "parameters": self.source.parameters(),
            "options": dict(self.source.options),
            "launched": self.source.launched,
            "recompiled": [vars(change) for change in self.recompiled],
            "resources": vars(self.resources),
            "occupancy": {**vars(occupancy), "share": occupancy.share} if occupancy else None,
            "accesses": [_placed(vars(access)) for access in self.accesses],
            "matrix_instructions": [_placed(vars(item)) for item in self.matrix],
            "dots_without_matrix_units": [_place(item) for item in self.plain_dots],
            "layouts": [
                {"name": name, "parameters": text, "explanation": explanation}
                for name, text, explanation in self.layouts
            ],
            "stages": {stage: self.compilation.text(stage) for stage in stages},
        }


def _placed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "location": _place(row["location"])}


def _place(location: SourceLocation | None) -> dict[str, Any] | None:
    return {"file": location.file, "line": location.line} if location else None


def inspect_sources(
    sources: Sequence[KernelSource],
    target: Target,
    inspections: list[Inspection] | None = None,
    gpu: str = "",
) -> list[Inspection]:
    """Compile kernels for a target in order, and record why a kernel is compiled more than once.

    Args:
        inspections: A list to which each result is added as soon as it exists; a new list by
            default.
        gpu: The GPU as the user names it, see `Inspection`.

    Raises:
        CompilationError: Triton's compiler rejects a kernel.
    """
    inspections = [] if inspections is None else inspections
    for n, source in enumerate(sources):
        inspections.append(
            Inspection(compile_for(source, target), tuple(reason(sources[:n], source)), gpu)
        )
    return inspections


# ---- as text


def inspection_text(inspection: Inspection, stages: Sequence[str] = ()) -> str:
    """Return an inspection as text: a summary, or the given stages if there are any."""
    body = (
        [line for stage in stages for line in _stage(inspection, stage)]
        if stages
        else list(_summary(inspection))
    )
    return "\n".join([title(inspection), *body]) + "\n"


def title(inspection: Inspection) -> str:
    """Return a title such as `softmax_kernel for sm_90, num_warps=4`."""
    options = inspection.source.options.items()
    text = "".join(f", {n}={v}" for n, v in options if _USUAL.get(n) != v)
    return f"{inspection.source.name} for {inspection.gpu_name}{text}"


def _summary(inspection: Inspection) -> Iterator[str]:
    for heading, lines in (*summary_sections(inspection), ("layouts", layout_lines(inspection))):
        if heading and lines:
            yield f"  {heading}:"
        yield from (f"    {line}" if heading else f"  {line}" for line in lines)


def summary_sections(inspection: Inspection) -> list[tuple[str, list[str]]]:
    """Return headings and lines of the summary, without the layouts; the first heading is empty."""
    source = inspection.source
    origin = [f"launched from {shown_line(source.launched)}"] if source.launched else []
    if inspection.recompiled:
        changes = "; ".join(map(str, inspection.recompiled))
        origin.append(f"compiled again because of {changes}")
    return [
        ("", origin),
        ("specialised as", list(inspection.specialisations)),
        ("takes", list(resource_lines(inspection))),
        ("accesses global memory", list(access_lines(inspection))),
        ("matrix units", list(matrix_lines(inspection))),
    ]


def layout_lines(inspection: Inspection) -> list[str]:
    """Return each layout with its parameters and, indented, its description in words."""
    return [
        line
        for name, parameters, sentences in inspection.layouts
        for line in (f"{name} = {parameters}", *(f"  {sentence}" for sentence in sentences))
    ]


def resource_lines(inspection: Inspection) -> Iterator[str]:
    """Yield sentences about registers, spills, shared memory and occupancy."""
    resources, occupancy = inspection.resources, inspection.occupancy
    yield (
        f"{counted(resources.registers, 'register')} per thread, "
        f"{counted(resources.shared, 'byte')} of shared memory, "
        f"{counted(resources.threads, 'thread')} ({counted(resources.warps, 'warp')}) per block"
    )
    if resources.spilled:
        yield (
            f"spills {counted(resources.spilled, 'byte')} per thread "
            f"({counted(resources.spill_instructions, 'instruction')})"
        )
    if resources.local > resources.spilled:
        arrays = counted(resources.local - resources.spilled, "byte")
        yield f"{arrays} of arrays per thread in local memory"
    if occupancy is None:
        yield f"occupancy: unknown, because ttools has no limits for {inspection.target.name}"
    elif broken := inspection.broken_rules:
        yield f"does not fit: {broken[0].message}"
    else:
        yield (
            f"occupancy {occupancy.share:.0%}: {counted(occupancy.blocks, 'block')} "
            f"({occupancy.warps} of {occupancy.most_warps} warps) per multiprocessor, "
            f"limited by {occupancy.limited_by}"
        )


def access_lines(inspection: Inspection) -> Iterator[str]:
    """Yield one sentence per source line and kind of access."""
    for access in inspection.accesses:
        width = f"{access.bits} bits each" if access.bits else "a whole block each"
        narrow = f", {_NARROW}" if 0 < access.bits < WIDEST else ""
        at = _location_text(access.location)
        yield f"{at}: {access.count} x {access.kind}, {width}{narrow}"


def matrix_lines(inspection: Inspection) -> Iterator[str]:
    """Yield one sentence per source line with a dot product."""
    for product in inspection.matrix:
        yield f"{_location_text(product.location)}: {product.count} x {product.name}"
    for location in inspection.plain_dots:
        yield f"{_location_text(location)}: a dot product without matrix units"


def _location_text(location: SourceLocation | None) -> str:
    return shown_place(location.file, location.line) if location else "unknown location"


def _stage(inspection: Inspection, stage: str) -> Iterator[str]:
    """Yield the lines of a stage, each group preceded by the source line that it comes from."""
    yield f"--- {stage}"
    lines = annotate(stage, inspection.compilation.text(stage))
    for location, group in groupby(lines, key=lambda line: line.source):
        if location is not None and location.file:
            text = source_line(location.file, location.line).strip()
            yield f"# {shown_place(location.file, location.line)}: {text}"
        yield from (line.text for line in group)


# ---- two kernels side by side


def comparison_rows(base: Inspection, other: Inspection) -> list[tuple[str, str, str, str]]:
    """Return a table's rows: a heading row, then for each figure both values and their ratio."""
    second = other.figures()
    rows = [
        (name, _figure(value), _figure(second[name]), _change(value, second[name]))
        for name, value in base.figures().items()
    ]
    return [("", title(base), title(other), ""), *rows]


def comparison_text(base: Inspection, other: Inspection) -> str:
    """Return a text table with the figures of two compilations side by side."""
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
