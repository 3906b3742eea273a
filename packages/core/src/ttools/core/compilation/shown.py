"""An inspection as a notebook shows it: parameters, resources, and what its lines became."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ttools.core.compilation.text import resource_lines, title, write
from ttools.core.location import SourceLocation
from ttools.core.reports.shown import Code, Part, Table, Text, place_cells

if TYPE_CHECKING:
    from ttools.core.compilation.inspection import Inspection


def shown_inspection(inspection: Inspection) -> Iterator[Part]:
    """The parts, its stages folded."""
    parameters = inspection.source.parameters().items()
    yield Table(title(inspection), ("parameter", "specialised as"), list(parameters))
    yield Text("\n".join(resource_lines(inspection)))
    rows: list[tuple[str, ...]] = [
        (*_place(access.location), access.kind, str(access.bits or "a block"), str(access.count))
        for access in inspection.accesses
    ]
    rows += [(*_place(each.location), each.name, "", str(each.count)) for each in inspection.matrix]
    columns = ("line", "|source", "instruction", ">bits", ">times")
    yield Table("Accesses to global memory and matrix units", columns, rows)
    for stage in inspection.compilation.stages:
        if stage in ("ttir", "ttgir", "ptx", "amdgcn"):
            yield Code(write(inspection, [stage]), summary=f"{stage}, under the lines it is of")


def _place(location: SourceLocation | None) -> tuple[str, str]:
    return place_cells(location.file, location.line) if location else ("", "")
