"""Advice with evidence: what in a kernel costs time on a GPU, the number that says so, what to try.

Each rule has a pair of kernels that it helps (`benchmarks/advice_pairs.py`). Owns the rules and
their thresholds. Must not know how anything was counted, traced or compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ttools.core.compilation.inspection import Inspection
from ttools.core.location import SourceLocation
from ttools.profiler.access.requests import AccessQuality
from ttools.profiler.counting.counts import LaunchCounts, LineCounts

Kind = Literal[
    "uncoalesced_access",
    "narrow_access",
    "spilling",
    "occupancy_by_shared_memory",
    "matrix_units_unused",
    "mask_overhead",
    "loaded_again",
]
#: An access that moves more than so many times the sectors it needs is reported.
_WASTE = 2.0
#: Lanes that masks hold back, of the accesses of a line.
_MASKED = 0.25
#: Occupancies below this are reported, where shared memory is what limits them.
_OCCUPANCY = 0.25
#: How often a program must load a byte.
_AGAIN = 2.0
#: What moves less than this share of a launch's bytes is not worth a hint.
_MATTERS = 0.05


@dataclass(frozen=True, kw_only=True)
class Hint:
    """A piece of advice.

    Attributes:
        kind: of the cost.
        kernel: its name.
        config: of the autotuner.
        location: in the source; None where it is the kernel's as a whole.
        number: the evidence, see `evidence` for what it counts.
        evidence: a sentence with the number.
        advice: what to try.
    """

    kind: Kind
    kernel: str
    config: str
    location: SourceLocation | None
    number: float
    evidence: str
    advice: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of a kernel.

    Attributes:
        kernel: its name.
        config: of the autotuner.
        inspection: what the target's compiler made of it.
        accesses: to memory, by a launch.
        counts: of that launch; None where they are unknown.
    """

    kernel: str
    config: str
    inspection: Inspection
    accesses: Sequence[AccessQuality]
    counts: LaunchCounts | None

    def matters(self, moved: float) -> bool:
        """Whether so many bytes are worth a hint."""
        total = self.counts.total.bytes if self.counts else 0
        return moved >= _MATTERS * total


def advise(evidence: Evidence) -> list[Hint]:
    """The hints for a kernel, in the order of the rules."""
    return [
        Hint(
            kind=kind,
            kernel=evidence.kernel,
            config=evidence.config,
            location=location,
            number=number,
            evidence=sentence,
            advice=_ADVICE[kind],
        )
        for kind, rule in _RULES.items()
        for location, number, sentence in rule(evidence)
    ]


Found = Iterator[tuple[SourceLocation | None, float, str]]


def _uncoalesced(evidence: Evidence) -> Found:
    for each in evidence.accesses:
        # What is wasted by narrow accesses of groups side by side is reported as that.
        waste = each.sectors / each.ideal if each.bits == each.possible_bits else 1.0
        if waste >= _WASTE and evidence.matters(each.trace.requested * waste):
            said = (
                f"a {each.trace.kind} moves {each.sectors_per_request:.1f} sectors of 32 bytes per "
                f"request of a warp, where {each.ideal_per_request:.1f} would do: "
                f"{1 / waste:.0%} of the bytes moved are asked for"
            )
            yield each.location, each.sectors_per_request, said


def _narrow(evidence: Evidence) -> Found:
    for each in evidence.accesses:
        if each.bits < each.possible_bits and evidence.matters(each.trace.requested):
            said = (
                f"a {each.trace.kind} accesses {each.bits} bits per thread at once, though its "
                f"addresses allow {each.possible_bits}"
            )
            yield each.location, each.bits, said


def _spilling(evidence: Evidence) -> Found:
    own = evidence.inspection.resources
    if own.spilled:
        said = (
            f"{own.spilled:,} bytes of each thread do not fit into its {own.registers} registers; "
            f"{own.spill_instructions} instructions move them to memory and back"
        )
        yield None, own.spilled, said


def _occupancy(evidence: Evidence) -> Found:
    held = evidence.inspection.occupancy
    if held and held.limited_by == "shared memory" and held.share < _OCCUPANCY:
        shared = evidence.inspection.resources.shared
        said = (
            f"{shared:,} bytes of shared memory allow {held.blocks} "
            f"{'block' if held.blocks == 1 else 'blocks'} per multiprocessor, "
            f"{held.warps} of {held.most_warps} warps ({held.share:.1%})"
        )
        yield None, held.share, said


def _matrix_units(evidence: Evidence) -> Found:
    products = evidence.counts.total.operations if evidence.counts else {}
    flops = max((n for unit, n in products.items() if not unit.startswith("dot ")), default=0)
    for location in dict.fromkeys(evidence.inspection.plain_dots):
        yield location, float(flops), "ordinary multiplications compute a product, no matrix unit"


def _masks(evidence: Evidence) -> Found:
    for line in evidence.counts.lines if evidence.counts else ():
        lost = line.masked_share
        if lost >= _MASKED and evidence.matters(_requested(line)):
            said = (
                f"masks hold back {lost:.0%} of the lanes of its accesses: "
                f"{line.masked_off:,} of {line.lanes:,}"
            )
            yield line.location, lost, said


def _requested(line: LineCounts) -> float:
    """Bytes that a line would access without its mask."""
    return line.bytes / (1 - line.masked_share) if line.masked_share < 1 else 0.0


def _again(evidence: Evidence) -> Found:
    for each in evidence.accesses:
        trace = each.trace
        # What the compiler takes out of its loop is loaded once.
        again = trace.again if each.nested and trace.kind == "load" else 0.0
        if again >= _AGAIN and evidence.matters(trace.requested):
            said = f"each program loads the same byte {again:.1f} times"
            yield each.location, again, said


_RULES: dict[Kind, Callable[[Evidence], Found]] = {
    "uncoalesced_access": _uncoalesced,
    "narrow_access": _narrow,
    "spilling": _spilling,
    "occupancy_by_shared_memory": _occupancy,
    "matrix_units_unused": _matrix_units,
    "mask_overhead": _masks,
    "loaded_again": _again,
}

_ADVICE: dict[Kind, str] = {
    "uncoalesced_access": "let neighbouring elements of the tile lie side by side in memory: give "
    "the tile an axis of stride 1 (several columns per program), or store the tensor transposed",
    "narrow_access": "promise alignment: tl.multiple_of(row * stride, 8) on computed offsets (on a "
    "parameter alone it has no effect) and tl.max_constancy(mask, [8]) on masks, or pad rows to a "
    "multiple of 16 elements",
    "spilling": "let threads hold less: smaller tiles, more num_warps, fewer tiles alive at once",
    "occupancy_by_shared_memory": "take less shared memory: fewer num_stages, or a smaller tile "
    "along the inner axis of the product",
    "matrix_units_unused": "allow tensor cores: input_precision='tf32' instead of 'ieee' for "
    "float32, or float16 and bfloat16 operands, with tiles of at least 16 along each axis",
    "mask_overhead": "let tiles fit the data: a block size nearer to the length, a loop over "
    "smaller blocks, several rows per program, or one flat range over contiguous tensors",
    "loaded_again": "load it once before the loop and keep it in registers, or exchange the loops",
}
