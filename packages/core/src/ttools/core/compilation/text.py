"""An inspection as plain text: what specialisation did, what the kernel takes, its stages by line.

Owns the words. Colours and where it is written belong to the command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ttools.core.compilation.annotation import annotate
from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.instructions import WIDEST
from ttools.core.location import SourceLocation, source_line
from ttools.core.reports.report import counted, shown_line, shown_path

#: Options that need no mention.
_USUAL = {"num_ctas": 1, "enable_fp_fusion": True}
_NARROW = "narrower than 128 bits"


def write(inspection: Inspection, stages: Sequence[str] = ()) -> str:
    """The inspection of one kernel; with stages, these instead of the summary."""
    body = (
        [line for stage in stages for line in _stage(inspection, stage)]
        if stages
        else list(_summary(inspection))
    )
    return "\n".join([title(inspection), *body]) + "\n"


def title(inspection: Inspection) -> str:
    """`softmax_kernel for sm_90, num_warps=4`."""
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
    """Registers, spills, shared memory, occupancy; a sentence each."""
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
    """One sentence per line of source and kind of access."""
    for access in inspection.accesses:
        width = f"{access.bits} bits each" if access.bits else "by a whole block"
        narrow = f", {_NARROW}" if 0 < access.bits < WIDEST else ""
        at = _location_text(access.location)
        yield f"{at}: {access.count} x {access.kind}, {width}{narrow}"


def matrix_lines(inspection: Inspection) -> Iterator[str]:
    """One sentence per line of source with a product."""
    for each in inspection.matrix:
        yield f"{_location_text(each.location)}: {each.count} x {each.name}"
    for location in inspection.plain_dots:
        yield f"{_location_text(location)}: a dot product without matrix units"


def _location_text(location: SourceLocation | None) -> str:
    return f"{shown_path(location.file)}:{location.line}" if location else "unknown location"


# ---- stages


def _stage(inspection: Inspection, stage: str) -> Iterator[str]:
    """The lines of a stage under the lines of source that they come from."""
    yield f"--- {stage}"
    lines = annotate(stage, inspection.compilation.text(stage))
    for location, group in groupby(lines, key=lambda line: line.source):
        if location is not None and location.file:
            text = source_line(location.file, location.line).strip()
            yield f"# {shown_path(location.file)}:{location.line}: {text}"
        yield from (line.text for line in group)


# ---- two of them


def comparison_rows(base: Inspection, other: Inspection) -> list[tuple[str, str, str, str]]:
    """A heading, then each figure of two compilations with the factor between them."""
    second = other.figures()
    rows = [
        (name, _figure(value), _figure(second[name]), _change(value, second[name]))
        for name, value in base.figures().items()
    ]
    return [("", title(base), title(other), ""), *rows]


def write_comparison(base: Inspection, other: Inspection) -> str:
    """The figures of two compilations beside each other."""
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
