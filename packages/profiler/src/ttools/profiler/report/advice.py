"""Advice on costs of a kernel on a GPU, each with the figure that proves the cost.

Each rule has a pair of kernels that it improves (`benchmarks/advice_pairs.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ttools.core.location import SourceLocation
from ttools.profiler.access.requests import SECTOR, AccessQuality
from ttools.profiler.counting.counts import LineCounts
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
]
#: An access that moves more than this multiple of the necessary sectors is reported.
_WASTE = 2.0
#: The smallest ratio of L1 to memory bandwidth: 128 bytes a clock to a multiprocessor's share of 29
#: on a B200; the share is 18 on an H200 and 5 on an A40, by their datasheets.
_L1_PER_MEMORY = 128 / 29
#: The share of disabled lanes of a line from which on it is reported.
_MASKED = 0.25
#: Occupancies below this are reported if shared memory limits them.
_OCCUPANCY = 0.25
#: The number of loads or updates of a byte by a program from which on it is reported.
_AGAIN = 2.0
#: Accesses that move less than this share of a launch's bytes get no hint.
MATTERS = 0.05


@dataclass(frozen=True, kw_only=True)
class Hint:
    """A piece of advice.

    Attributes:
        kind: Kind of the cost.
        kernel: Name of the kernel.
        config: Configuration of the autotuner.
        location: Position in the source; None if it concerns the whole kernel.
        number: The figure in `evidence`.
        evidence: A sentence with the figure.
        advice: What to try.
    """

    kind: Kind
    kernel: str
    config: str
    location: SourceLocation | None
    number: float
    evidence: str
    advice: str


def advise(evidence: Evidence) -> list[Hint]:
    """Return the hints for a kernel, in the order of the rules."""
    return [
        Hint(
            kind=kind,
            kernel=evidence.kernel,
            config=evidence.config,
            location=location,
            number=number,
            evidence=sentence,
            advice=advice,
        )
        for kind, rule in _RULES.items()
        for location, number, sentence, advice in rule(evidence)
    ]


#: The location, figure, evidence and advice of each hint.
Found = Iterator[tuple[SourceLocation | None, float, str, str]]


def _matters(evidence: Evidence, moved: float) -> bool:
    """Return whether so many bytes of a launch are worth a hint."""
    total = evidence.counts.total.bytes if evidence.counts else 0
    return moved >= MATTERS * total


def _uncoalesced(evidence: Evidence) -> Found:
    for access in evidence.accesses:
        # Waste due to narrow accesses of adjacent groups is reported as `narrow_access`.
        waste = access.sectors / access.ideal if access.bits == access.possible_bits else 1.0
        if waste < _WASTE or not _matters(evidence, access.trace.requested * waste):
            continue
        # The rest of a sector may be in the cache for the next instructions.
        cached = access.tile_sectors < _WASTE * access.tile_ideal or _filled(
            access, evidence.accesses
        )
        if cached and waste <= _L1_PER_MEMORY:
            continue
        said = (
            f"{_named(access.trace.kind)} moves {access.sectors_per_request:.1f} sectors of 32 "
            f"bytes per request of a warp, where {access.ideal_per_request:.1f} would do: "
            f"{1 / waste:.0%} of the bytes moved are asked for"
        )
        if cached:
            said += ", most of the others by the next requests, from the L1 cache"
        yield access.location, access.sectors_per_request, said, _coalescing(access)


def _named(kind: str) -> str:
    return f"an {kind}" if kind == "atomic" else f"a {kind}"


def _filled(access: AccessQuality, others: Sequence[AccessQuality]) -> bool:
    """Return whether other accesses use the rest of this one's sectors, as those of pairs do."""
    own = access.trace
    parts = [
        other.trace.addresses
        for other in others
        if other.trace.kind == own.kind
        and other.trace.addresses.shape == own.addresses.shape
        and np.array_equal(other.trace.addresses // SECTOR, own.addresses // SECTOR)
    ]
    different = len({part.tobytes() for part in parts})
    return different * access.tile_ideal * _WASTE > access.tile_sectors and different > 1


def _coalescing(access: AccessQuality) -> str:
    """Return advice that gives the threads of a warp adjacent addresses."""
    if access.trace.kind == "atomic" and not access.regular:
        return (
            "update scattered elements less often: let a program add up what it has for each "
            "element (tl.histogram, a reduction) and update each once"
        )
    if not access.regular:
        return (
            "addresses follow the data: let a program access several neighbours from each of them, "
            "or sort what they come from, so that neighbouring lanes access neighbours"
        )
    axis = access.adjacent_axis
    if axis is None:
        return (
            "let neighbouring elements of the tile lie side by side in memory: give the tile an "
            "axis of stride 1 (several columns per program), or store the tensor transposed; where "
            "that leaves too few programs for the GPU, divide the other axis among programs, too"
        )
    extent, size = access.trace.shape[axis], access.trace.size
    if extent * size < SECTOR:
        return (
            f"let the tile have at least {SECTOR // size} elements along axis {axis}, along which "
            f"they lie side by side: its {extent} are {extent * size} of a sector's {SECTOR} bytes"
        )
    if access.next_thread[axis] > 1:
        return (
            f"let neighbouring threads access neighbours: each holds {access.next_thread[axis]} "
            f"elements in a row along axis {axis}, which are fewer with a smaller tile or more "
            "num_warps"
        )
    return (
        f"let Triton see that elements lie side by side along axis {axis}: pass its stride as 1 or "
        "leave it out, so that the threads of a warp are laid along this axis"
    )


def _narrow(evidence: Evidence) -> Found:
    for access in evidence.accesses:
        if access.bits < access.possible_bits and _matters(evidence, access.trace.requested):
            said = (
                f"{_named(access.trace.kind)} accesses {access.bits} bits per thread at once, "
                f"though its addresses allow {access.possible_bits}"
            )
            yield access.location, access.bits, said, _promise(access)


def _promise(access: AccessQuality) -> str:
    """Return the hints to the compiler that hold in the sampled tiles, and their conditions."""
    wide = max(access.group)
    group = f"[{', '.join(map(str, access.group))}]"
    return (
        f"promise alignment: tl.multiple_of(row * stride, {wide}) on computed offsets (on a "
        f"parameter alone it has no effect) and tl.max_constancy(mask, {group}) on the mask, if "
        f"there is one; both hold only while row * stride and the mask's bound are multiples of "
        f"{wide}. Or pad rows to a multiple of 16 elements, which needs no promise"
    )


_HOLD_LESS = "let threads hold less: smaller tiles, more num_warps, fewer tiles alive at once"


def _spilling(evidence: Evidence) -> Found:
    own = evidence.inspection.resources
    if own.spilled:
        sentence = (
            f"{own.spilled:,} bytes of each thread do not fit into its {own.registers} registers; "
            f"{own.spill_instructions} instructions move them to memory and back"
        )
        yield None, own.spilled, sentence, _HOLD_LESS


_SHARE_LESS = (
    "take less shared memory: fewer num_stages, or a smaller tile "
    "along the inner axis of the product"
)


def _occupancy(evidence: Evidence) -> Found:
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


def _matrix_units(evidence: Evidence) -> Found:
    products = evidence.counts.total.operations if evidence.counts else {}
    flops = max((n for unit, n in products.items() if not unit.startswith("dot ")), default=0)
    for location in dict.fromkeys(evidence.inspection.plain_dots):
        sentence = "ordinary multiplications compute a product, no matrix unit"
        yield location, float(flops), sentence, _ALLOW_MATRIX_UNITS


_FIT_TILES = (
    "let tiles fit the data: a block size nearer to the length, a loop over "
    "smaller blocks, several rows per program, or one flat range over contiguous tensors"
)


def _masks(evidence: Evidence) -> Found:
    for line in evidence.counts.lines if evidence.counts else ():
        lost = line.masked_share
        if lost >= _MASKED and _matters(evidence, _requested(line)):
            sentence = (
                f"masks hold back {lost:.0%} of the lanes of its accesses: "
                f"{line.masked_off:,} of {line.lanes:,}"
            )
            yield line.location, lost, sentence, _FIT_TILES


def _requested(line: LineCounts) -> float:
    """Return the bytes that a line would access without its mask."""
    return line.bytes / (1 - line.masked_share) if line.masked_share < 1 else 0.0


#: Bytes of tiles that a program can keep in registers besides its results.
_KEPT = 64 * 1024
_KEEP = "load it once before the loop and keep it in registers, or exchange the loops"


def _again(evidence: Evidence) -> Found:
    for access in evidence.accesses:
        trace, reuse = access.trace, access.trace.reuse
        # The compiler may have hoisted the load out of its loop.
        again = trace.again if access.nested and trace.kind == "load" else 0.0
        # A program can only keep whole tiles, so parts that tiles share are loaded again.
        again = min(again, reuse.again)
        if again < _AGAIN or not _matters(evidence, trace.requested):
            continue
        sentence = f"each program loads the same byte {again:.1f} times"
        if reuse.in_a_row >= _AGAIN:
            yield access.location, again, sentence, _KEEP
        elif reuse.bytes <= _KEPT:
            # Larger sets, as in persistent products, cannot be kept.
            together = f"load these {reuse.bytes:,.0f} bytes as one tile before the outer loop"
            sentence += ", and others in between"
            yield access.location, again, sentence, f"{together}, or exchange the loops"


_ADD_UP = (
    "let a program add up what it has for an element (tl.histogram, a reduction) and update each "
    "element once: atomics on one address take turns"
)


def _contended(evidence: Evidence) -> Found:
    for access in evidence.accesses:
        again = access.trace.again
        if (
            access.trace.kind == "atomic"
            and again >= _AGAIN
            and _matters(evidence, access.trace.requested)
        ):
            shared = access.trace.shared_by
            others = f", and {shared:.0f} programs do" if shared and shared >= _AGAIN else ""
            sentence = f"each program updates the same element {again:.1f} times{others}"
            yield access.location, again, sentence, _ADD_UP


_RULES: dict[Kind, Callable[[Evidence], Found]] = {
    "uncoalesced_access": _uncoalesced,
    "narrow_access": _narrow,
    "spilling": _spilling,
    "occupancy_by_shared_memory": _occupancy,
    "matrix_units_unused": _matrix_units,
    "mask_overhead": _masks,
    "loaded_again": _again,
    "contended_atomic": _contended,
}
