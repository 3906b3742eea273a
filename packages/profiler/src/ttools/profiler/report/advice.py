"""Advice on the costs of a kernel on a GPU, with the figure that shows each cost.

For each rule, `benchmarks/advice_pairs.py` has one version of a kernel before and one after
following the advice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from ttools.core.location import SourceLocation, shown_path
from ttools.profiler.access.requests import SECTOR, AccessQuality
from ttools.profiler.counting.counts import LineCounts
from ttools.profiler.gpu_time.instruction_mix import executed_by
from ttools.profiler.report.changed_kernels import saved_share
from ttools.profiler.report.idle_masks import masked_loads_in_loops, share_of_masks
from ttools.profiler.report.index_divisions import index_divisions, with_constant_divisors
from ttools.profiler.report.product_operands import product_operands
from ttools.profiler.report.repeated_divisions import repeated_divisions
from ttools.profiler.report.signatures import Evidence

Kind = Literal[
    "uncoalesced_access",
    "narrow_access",
    "spilling",
    "occupancy_by_shared_memory",
    "matrix_units_unused",
    "mask_overhead",
    "loaded_again",
    "contended_atomic",
    "bank_conflicts",
    "repeated_division",
    "idle_mask",
    "index_division",
]
#: An access is reported if it moves at least this many times the necessary number of sectors.
_WASTE = 2.0
#: The smallest ratio of L1 to memory bandwidth per multiprocessor, which is that of a B200: 128 to
#: 29 bytes per clock cycle. By the datasheets, memory moves 18 bytes per cycle on an H200 and 5 on
#: an A40.
_L1_PER_MEMORY = 128 / 29
#: A line is reported if masks disable at least this share of its lanes.
_MASKED = 0.25
#: Occupancy is reported if it is below this share and limited by shared memory.
_OCCUPANCY = 0.25
#: Repeated accesses are reported if a program loads or updates a byte at least this many times.
_AGAIN = 2.0
#: A tile is reported if its bank conflicts cause at least this share of the wavefronts.
_CONFLICTS = 0.25
#: A division is reported if a program repeats it at least this many times with the same divisor,
#: and if its line executes at least this share of the kernel's instructions.
_DIVISIONS, _DIVIDING = 4, 0.25
#: The mask of a load in a loop is reported if a program executes the load at least this many times,
#: if the mask disables no lane, and if the kernel executes at least this share fewer instructions
#: without such masks.
_IDLE, _IDLE_SHARE = 4, 0.1
#: Divisions of indices are reported if constant divisors save this share of the kernel's
#: instructions.
_INDEX_SHARE = 0.1
#: No hint is given for an access that moves less than this share of a launch's bytes.
MATTERS = 0.05


@dataclass(frozen=True, kw_only=True)
class Hint:
    """A piece of advice.

    Attributes:
        kind: Kind of the cost, such as `spilling`.
        kernel: Name of the kernel.
        config: Configuration of the autotuner, as text; empty without one.
        location: Position in the source; None if the advice concerns the whole kernel.
        number: The figure that `evidence` states.
        evidence: Sentence that states the cost with its figure.
        advice: Change to the kernel or its launch that may reduce the cost.
    """

    kind: Kind
    kernel: str
    config: str
    location: SourceLocation | None
    number: float
    evidence: str
    advice: str


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Hints that give the same advice on one kernel.

    Attributes:
        kind: Kind of the cost.
        kernel: Name of the kernel.
        config: Configuration of the autotuner, as text; empty without one.
        text: What to change, as a phrase.
        evidence: Sentences that state the costs, each with the source lines that it applies to.
    """

    kind: Kind
    kernel: str
    config: str
    text: str
    evidence: Mapping[str, Sequence[SourceLocation]]


def grouped_advice(hints: Iterable[Hint]) -> list[Advice]:
    """Group hints so that each piece of advice appears only once per kernel.

    Each piece of evidence appears once, with all the source lines that it applies to.
    """
    together: dict[tuple[Kind, str, str, str], dict[str, list[SourceLocation]]] = {}
    for hint in hints:
        evidence = together.setdefault((hint.kind, hint.kernel, hint.config, hint.advice), {})
        lines = evidence.setdefault(hint.evidence, [])
        lines += [hint.location] if hint.location else []
    return [
        Advice(kind=kind, kernel=kernel, config=config, text=advice, evidence=evidence)
        for (kind, kernel, config, advice), evidence in together.items()
    ]


def lines_text(locations: Iterable[SourceLocation]) -> str:
    """Return the line numbers in one or several files as text, such as `kernel.py:12, 14`."""
    by_file: dict[str, list[str]] = {}
    for location in locations:
        by_file.setdefault(shown_path(location.file), []).append(str(location.line))
    return "; ".join(f"{file}:{', '.join(lines)}" for file, lines in by_file.items())


def advise(
    evidence: Evidence, alike: Sequence[Evidence] = (), *, line_costs: bool = False
) -> list[Hint]:
    """Return the hints for a kernel, in the order of the rules.

    Args:
        evidence: Facts about the launches of one signature.
        alike: The facts about all signatures of the kernel.
        line_costs: If True, the kernel may be compiled again to determine the cost of masks and of
            divisions of indices.
    """
    rules = dict(_RULES)
    if line_costs:
        rules["idle_mask"] = partial(_idle_masks, alike=alike)
        rules["index_division"] = _index_divisions
    hints = [
        Hint(
            kind=kind,
            kernel=evidence.kernel,
            config=evidence.config,
            location=location,
            number=number,
            evidence=sentence,
            advice=advice,
        )
        for kind, rule in rules.items()
        for location, number, sentence, advice in rule(evidence)
    ]
    if all(hint.kind != "bank_conflicts" for hint in hints):
        return hints
    # The transposition also narrows the accesses to operands of products, so hints on alignment do
    # not help there.
    operands = product_operands(evidence.inspection.compilation.texts["ttir"])
    return [hint for hint in hints if hint.kind != "narrow_access" or hint.location not in operands]


#: For each hint, its location, figure, evidence and advice.
Hints = Iterator[tuple[SourceLocation | None, float, str, str]]


def _matters(evidence: Evidence, moved: float) -> bool:
    """Return whether an access that moves this many bytes of a launch is worth a hint."""
    total = evidence.counts.total.bytes if evidence.counts else 0
    return moved >= MATTERS * total


def _uncoalesced(evidence: Evidence) -> Hints:
    for access in evidence.accesses:
        # Waste that narrow accesses to adjacent groups cause is reported as `narrow_access`.
        waste = access.sectors / access.ideal if access.bits == access.possible_bits else 1.0
        if waste < _WASTE or not _matters(evidence, access.trace.requested * waste):
            continue
        # The following instructions may find the rest of a sector in the L1 cache.
        parts = _parts(access, evidence.accesses)
        cached = access.tile_sectors < _WASTE * access.tile_ideal or _filled(access, parts)
        if cached and waste <= _L1_PER_MEMORY:
            continue
        sentence = (
            f"{_named(access.trace.kind)} moves {access.sectors_per_request:.1f} sectors of 32 "
            f"bytes per warp request, where {access.ideal_per_request:.1f} would suffice: only "
            f"{1 / waste:.0%} of the bytes moved are requested"
        )
        if cached:
            sentence += "; the following requests get most of the others from the L1 cache"
        yield access.location, access.sectors_per_request, sentence, _coalescing(access, parts)


def _named(kind: str) -> str:
    return f"an {kind}" if kind == "atomic" else f"a {kind}"


def _parts(access: AccessQuality, others: Sequence[AccessQuality]) -> int:
    """Return the number of accesses, including this one, to different elements of the same sectors.

    For example, one load reads the even elements of a tensor of pairs, and another load reads the
    odd elements.
    """
    own = access.trace
    parts = [
        other.trace.addresses
        for other in others
        if other.trace.kind == own.kind
        and other.trace.addresses.shape == own.addresses.shape
        and np.array_equal(other.trace.addresses // SECTOR, own.addresses // SECTOR)
    ]
    return len({part.tobytes() for part in parts})


def _filled(access: AccessQuality, parts: int) -> bool:
    """Return whether other accesses use the remaining bytes of an access's sectors.

    Args:
        parts: Number of accesses to these sectors, see `_parts`.
    """
    return parts * access.tile_ideal * _WASTE > access.tile_sectors and parts > 1


def _coalescing(access: AccessQuality, parts: int) -> str:
    """Return advice on how to give adjacent addresses to the threads of a warp.

    Args:
        parts: Number of accesses to the sectors of this access, see `_parts`.
    """
    if access.trace.kind == "atomic" and not access.regular:
        return (
            "update scattered elements less often: add up the values for each element within a "
            "program (tl.histogram, a reduction), then update each element once"
        )
    if not access.regular:
        return (
            "the addresses depend on loaded data: access several adjacent elements at each address "
            "or sort the data, so that neighbouring lanes access neighbouring elements"
        )
    axis = access.adjacent_axis
    if axis is None and parts > 1 and access.trace.kind != "atomic":
        verb, how = ("load", "split") if access.trace.kind == "load" else ("store", "join")
        extent = 1 << (parts - 1).bit_length()
        masked = "" if extent == parts else " and a mask"
        return (
            f"{parts} {verb}s access the same sectors, each another column: {verb} the columns "
            f"together, as one tile whose last axis has {extent} elements{masked}, and {how} them "
            f"(tl.{how}), so that each request uses whole sectors"
        )
    if axis is None:
        return (
            "no axis of the tile has stride 1 in memory: give the tile such an axis (several "
            "columns per program), or store the tensor transposed; if that leaves too few programs "
            "for the GPU, divide the other axis among programs, too"
        )
    extent, size = access.trace.shape[axis], access.trace.size
    if extent * size < SECTOR:
        return (
            f"give the tile at least {SECTOR // size} elements along axis {axis}, whose elements "
            f"are adjacent in memory: its {extent} elements fill only {extent * size} of the "
            f"{SECTOR} bytes of a sector"
        )
    if access.next_thread[axis] > 1:
        return (
            f"let neighbouring threads access neighbouring elements: each thread holds "
            f"{access.next_thread[axis]} consecutive elements along axis {axis}; a smaller tile or "
            "a larger num_warps reduces this number"
        )
    return (
        f"let Triton know that elements are adjacent along axis {axis}: pass its stride as 1 or "
        "leave the stride out, so that the threads of a warp are arranged along this axis"
    )


def _narrow(evidence: Evidence) -> Hints:
    for access in evidence.accesses:
        if access.bits < access.possible_bits and _matters(evidence, access.trace.requested):
            sentence = (
                f"{_named(access.trace.kind)} accesses {access.bits} bits per thread at once, "
                f"though its addresses allow {access.possible_bits}"
            )
            yield access.location, access.bits, sentence, _promise(access)


def _promise(access: AccessQuality) -> str:
    """Return advice on compiler hints that hold for the sampled tiles, and their conditions."""
    wide = max(access.group)
    group = f"[{', '.join(map(str, access.group))}]"
    return (
        f"declare alignment: tl.multiple_of(row * stride, {wide}) on computed offsets (on a "
        f"parameter alone it has no effect) and tl.max_constancy(mask, {group}) on the mask, if "
        f"there is one; both are valid only while row * stride and the mask's bound are multiples "
        f"of {wide}. Or pad rows to a multiple of 16 elements, which needs no such hint"
    )


_HOLD_LESS = (
    "let each thread hold less data: smaller tiles, a larger num_warps, fewer tiles live at once"
)


def _spilling(evidence: Evidence) -> Hints:
    own = evidence.inspection.resources
    if own.spilled:
        sentence = (
            f"{own.spilled:,} bytes of each thread do not fit in its {own.registers} registers; "
            f"{own.spill_instructions} instructions move them to memory and back"
        )
        yield None, own.spilled, sentence, _HOLD_LESS


_SHARE_LESS = (
    "use less shared memory: a smaller num_stages, or a smaller tile along the inner axis of the "
    "product"
)


def _occupancy(evidence: Evidence) -> Hints:
    occupancy = evidence.inspection.occupancy
    if occupancy and occupancy.limited_by == "shared memory" and occupancy.share < _OCCUPANCY:
        shared = evidence.inspection.resources.shared
        sentence = (
            f"{shared:,} bytes of shared memory allow {occupancy.blocks} "
            f"{'block' if occupancy.blocks == 1 else 'blocks'} per multiprocessor, "
            f"{occupancy.warps} of {occupancy.most_warps} warps ({occupancy.share:.1%})"
        )
        yield None, occupancy.share, sentence, _SHARE_LESS


_ALLOW_MATRIX_UNITS = (
    "allow tensor cores: input_precision='tf32' instead of 'ieee' for "
    "float32, or float16 and bfloat16 operands, with tiles of at least 16 along each axis"
)


def _matrix_units(evidence: Evidence) -> Hints:
    products = evidence.counts.total.operations if evidence.counts else {}
    flops = max((n for unit, n in products.items() if not unit.startswith("dot ")), default=0)
    for location in dict.fromkeys(evidence.inspection.plain_dots):
        sentence = "ordinary multiplications compute a matrix product, without matrix units"
        yield location, float(flops), sentence, _ALLOW_MATRIX_UNITS


_FIT_TILES = (
    "fit the tiles to the data: a block size closer to the length, a loop over smaller blocks, "
    "several rows per program, or one flat range over contiguous tensors"
)


def _masks(evidence: Evidence) -> Hints:
    for line in evidence.counts.lines if evidence.counts else ():
        lost = line.masked_share
        if lost >= _MASKED and _matters(evidence, _requested(line)):
            sentence = (
                f"masks disable {lost:.0%} of the lanes of its accesses: "
                f"{line.masked_off:,} of {line.lanes:,}"
            )
            yield line.location, lost, sentence, _FIT_TILES


def _requested(line: LineCounts) -> float:
    """Return how many bytes a line would access without its mask."""
    return line.bytes / (1 - line.masked_share) if line.masked_share < 1 else 0.0


#: Total size in bytes of the tiles that a program can keep in registers, besides its results.
_KEPT = 64 * 1024
_KEEP = "load the tile once before the loop and keep it in registers, or interchange the loops"


def _again(evidence: Evidence) -> Hints:
    for access in evidence.accesses:
        trace, reuse = access.trace, access.trace.reuse
        # The compiler may have hoisted the load out of its loop.
        again = trace.again if access.nested and trace.kind == "load" else 0.0
        # A program can keep only whole tiles, so parts shared by several tiles are loaded several
        # times.
        again = min(again, reuse.again)
        if again < _AGAIN or not _matters(evidence, trace.requested):
            continue
        sentence = f"each program loads the same byte {again:.1f} times"
        if reuse.in_a_row >= _AGAIN:
            yield access.location, again, sentence, _KEEP
        elif reuse.bytes <= _KEPT:
            # Larger sets of tiles, as in persistent matrix products, do not fit into registers.
            together = f"load these {reuse.bytes:,.0f} bytes as one tile before the outer loop"
            sentence += ", with other loads in between"
            yield access.location, again, sentence, f"{together}, or interchange the loops"


_ADD_UP = (
    "add up the values for each element within a program (tl.histogram, a reduction), then update "
    "each element once: atomics on one address run one after the other"
)


def _contended(evidence: Evidence) -> Hints:
    for access in evidence.accesses:
        again = access.trace.again
        if (
            access.trace.kind == "atomic"
            and again >= _AGAIN
            and _matters(evidence, access.trace.requested)
        ):
            shared = access.trace.shared_by
            others = f", and {shared:.0f} programs update it" if shared and shared >= _AGAIN else ""
            sentence = f"each program updates the same element {again:.1f} times{others}"
            yield access.location, again, sentence, _ADD_UP


def _bank_conflicts(evidence: Evidence) -> Hints:
    """Yield operands of products that the compiler has to transpose in shared memory."""
    own, code = evidence.inspection, evidence.inspection.machine_code
    if code is None or evidence.counts is None or own.plain_dots:
        return
    executed = executed_by(code, evidence.counts, own.resources.warps)
    operands = product_operands(own.compilation.texts["ttir"]) if executed.conflicts else {}
    for access in evidence.accesses:
        place = access.location
        operand = None if place is None else operands.get(place)
        if place is None or operand is None or access.adjacent_axis in (None, operand.inner):
            continue
        # Machine code contains file names without their directories.
        conflicts = executed.conflicts.get((Path(place.file).name, place.line), 0.0)
        share = conflicts / executed.shared if executed.shared else 0.0
        if share >= _CONFLICTS and operand.bits != _TRANSPOSED_BITS:
            sentence = (
                f"{share:.0%} of the wavefronts of shared memory are bank conflicts, because the "
                "compiler transposes this tile for the product"
            )
            advice = (
                f"store the tensor so that elements along axis {operand.inner} of the tile, over "
                "which the product sums, are adjacent in memory: matrix units read operands of "
                f"{operand.bits} bits in this order, and transpose only those of "
                f"{_TRANSPOSED_BITS} bits"
            )
            yield place, share, sentence, advice


def _divisions(evidence: Evidence) -> Hints:
    """Yield divisions that are repeated with the same divisor and take many instructions."""
    code, counts = evidence.inspection.machine_code, evidence.counts
    if code is None or counts is None:
        return
    divisions = repeated_divisions(evidence.inspection.compilation.texts["ttir"])
    if not divisions:
        return
    executed = executed_by(code, counts, evidence.inspection.resources.warps)
    for division in divisions:
        place = division.location
        line = _line(evidence, place)
        share = sum(executed.mix_of_line((Path(place.file).name, place.line)).values())
        if line is None or share < _DIVIDING:
            continue
        times = max(division.copies, line.executions / counts.programs if division.in_loop else 0)
        if times >= _DIVISIONS:
            divisor = f"`{division.divisor}`" if division.divisor else "the same number"
            sentence = (
                f"each program executes {times:.3g} divisions of a tile by {divisor}; this line "
                f"takes {share:.0%} of the instructions"
            )
            yield place, share, sentence, _RECIPROCAL


_RECIPROCAL = (
    "compute the reciprocal of the divisor once, before the loop, and multiply by it (results may "
    "differ in the last bit), or divide the sum after the loop"
)


def _idle_masks(evidence: Evidence, alike: Sequence[Evidence]) -> Hints:
    """Yield loads in loops whose masks disable no lane and cost many instructions.

    Args:
        evidence: Facts about the launches of one signature.
        alike: The facts about all signatures of the kernel.
    """
    counts = evidence.counts
    if counts is None or evidence.inspection.machine_code is None:
        return
    loads = masked_loads_in_loops(evidence.inspection.compilation.texts["ttir"])
    idle = {
        place: numbers
        for place, numbers in loads.items()
        if (line := _line(evidence, place)) is not None
        and line.lanes
        and not line.masked_off
        and line.executions >= _IDLE * counts.programs
        and _matters(evidence, line.bytes)
    }
    if not idle:
        return
    numbers = [number for own in idle.values() for number in own]
    share = share_of_masks(evidence.inspection, counts, numbers)
    if share is None or share < _IDLE_SHARE:
        return
    lines = "this line" if len(idle) == 1 else "these lines"
    for place in idle:
        used = [line for other in alike if (line := _line(other, place)) is not None]
        idle_count = sum(not line.masked_off for line in used)
        where = (
            "in this launch"
            if len(used) < 2
            else f"in {idle_count} of {len(used)} launch signatures"
        )
        sentence = (
            f"the mask holds back no lane {where}; without masks in {lines}, the kernel executes "
            f"{share:.0%} fewer instructions"
        )
        yield place, share, sentence, _SPECIALISE


def _index_divisions(evidence: Evidence) -> Hints:
    """Yield divisions of indices by parameters if these divisions cost many instructions."""
    counts = evidence.counts
    if counts is None or evidence.inspection.machine_code is None:
        return
    ttir = evidence.inspection.compilation.texts["ttir"]
    divisions = index_divisions(ttir)
    if not divisions:
        return
    numbers = [number for division in divisions for number in division.numbers]
    share = saved_share(evidence.inspection, counts, with_constant_divisors(ttir, numbers))
    if share is None or share < _INDEX_SHARE:
        return
    names = dict.fromkeys(name for division in divisions for name in division.parameters)
    by = " and ".join(f"`{name}`" for name in names)
    lines = "this line" if len(divisions) == 1 else "these lines"
    sentence = (
        f"indices are divided by {by}; with constant divisors in {lines}, the kernel executes "
        f"{share:.0%} fewer instructions"
    )
    advice = (
        f"declare {by} as `tl.constexpr` if a few values occur, because the kernel is compiled for "
        "each of them; or use one axis of the grid or of the tile for each dimension, so that no "
        "index must be divided"
    )
    for division in divisions:
        yield division.location, share, sentence, advice


def _line(evidence: Evidence, place: SourceLocation) -> LineCounts | None:
    """Return the work of a line in a launch; None if it is unknown."""
    lines = evidence.counts.lines if evidence.counts else ()
    own = ((line, line.location) for line in lines)
    return next((x for x, at in own if at and (at.file, at.line) == (place.file, place.line)), None)


_SPECIALISE = (
    "specialise the kernel: pass `EVEN: tl.constexpr`, which is true if the length is a multiple "
    "of the block, and leave the mask out then; or mask only the last iteration"
)

#: Width in bits of the elements that a GPU can transpose when it loads operands of products.
_TRANSPOSED_BITS = 16

_RULES: dict[Kind, Callable[[Evidence], Hints]] = {
    "uncoalesced_access": _uncoalesced,
    "narrow_access": _narrow,
    "spilling": _spilling,
    "occupancy_by_shared_memory": _occupancy,
    "matrix_units_unused": _matrix_units,
    "mask_overhead": _masks,
    "loaded_again": _again,
    "contended_atomic": _contended,
    "bank_conflicts": _bank_conflicts,
    "repeated_division": _divisions,
}
