"""What there is to say of a compiled kernel, collected; and two of them beside each other.

Owns the facts that every way of showing them needs. Must not know how they are shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

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
from ttools.core.location import SourceLocation
from ttools.core.once import computed_once
from ttools.core.reports.shown import Part, ShowsItself


@dataclass(frozen=True)
class Inspection(ShowsItself):
    """A kernel compiled for a target, and what can be read off it.

    Attributes:
        recompiled: why it was compiled although the kernel had been before; empty the first time.
    """

    compilation: Compilation
    recompiled: tuple[Change, ...] = field(default=())

    def _shown(self) -> Iterator[Part]:
        from ttools.core.compilation.shown import shown_inspection

        return shown_inspection(self)

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
