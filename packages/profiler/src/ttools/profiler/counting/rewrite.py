"""Rewrites a kernel so that it counts what it would do, and does nothing else.

Where a block of operations runs, an operation `ttools.count` counts its executions; where an access
has a mask, another counts the lanes let through. Stores and all that only they need are taken away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from ttools.core.location import SourceLocation
from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.dialects.traits import ATOMIC, READS, STRUCTURED, WRITES
from ttools.interpreter.ir import (
    Block,
    FloatType,
    IntegerType,
    Module,
    Operation,
    PointerType,
    Value,
    element_type,
    shape_of,
)
from ttools.interpreter.ir.dead_code import remove_dead_code
from ttools.interpreter.ir.rewriting import BOOLEAN, Builder, Rewriter
from ttools.profiler.counting.costs import cost
from ttools.profiler.counting.mask_factors import mask_factors

CHECK, COUNT = "ttools.check", "ttools.count"
Kind = Literal["load", "store", "atomic"]


@dataclass(frozen=True, kw_only=True)
class AccessSite:
    """An access to memory.

    Attributes:
        kind: of the access.
        location: in the source.
        item: bytes of an element.
        lanes: of the tile.
        block: number of the counter of its block.
        mask: number of the counter of its mask; None if it has none.
        parameter: it derives from; -1 if unknown.
    """

    kind: Kind
    location: SourceLocation | None
    item: int
    lanes: int
    block: int
    mask: int | None
    parameter: int


@dataclass(frozen=True, kw_only=True)
class ComputeSite:
    """An operation that computes.

    Attributes:
        location: in the source.
        cost: operations of one execution, by unit.
        block: number of the counter of its block.
    """

    location: SourceLocation | None
    cost: Counter[str]
    block: int


@dataclass
class CountingPlan:
    """What is counted in a kernel.

    Attributes:
        accesses: to memory.
        computes: operations that compute.
        counters: how many there are; the first, of the kernel's own block, counts programs.
        reads: whether what runs depends on values in memory.
        depends_on_writes: whether it may depend on what the launch itself writes there; then only
            the whole kernel shows.
        unsupported: what cannot be counted, a sentence each.
    """

    accesses: list[AccessSite] = field(default_factory=list)
    computes: list[ComputeSite] = field(default_factory=list)
    counters: int = 0
    reads: bool = False
    depends_on_writes: bool = False
    unsupported: list[str] = field(default_factory=list)


def plan_counting(module: Module, *, whole: bool = False) -> CountingPlan:
    """Rewrites a module in place; returns what its counters mean.

    Args:
        module: without calls.
        whole: keeps everything that the kernel does.
    """
    kernel = module.kernel
    plan = CountingPlan()
    provenance = Provenance(kernel)
    rewriter = Rewriter()
    masks: dict[tuple[Block, Value], int] = {}
    _visit(kernel.regions[0].blocks, plan, provenance, rewriter, masks)
    rewriter.apply()
    if not whole:
        remove_dead_code(kernel, lambda op: op.name in (COUNT, "tt.return"))
    _judge(kernel, plan, provenance)
    return plan


def kind_of(op: Operation) -> Kind | None:
    """The kind of an access through pointers; None for anything else."""
    if op.operand("ptr") is None or not op.has(READS, WRITES):
        return None
    if op.has(ATOMIC):
        return "atomic"
    return "store" if op.has(WRITES) else "load"


def _visit(
    blocks: list[Block],
    plan: CountingPlan,
    provenance: Provenance,
    rewriter: Rewriter,
    masks: dict[tuple[Block, Value], int],
) -> None:
    for block in blocks:
        number = plan.counters
        plan.counters += 1
        b = rewriter.start(block)
        _count(b, (), 1, number)
        for op in block.operations:
            if kind_of(op) is not None:
                _access(op, number, plan, provenance, rewriter, masks)
            elif op.name == "tt.call":
                plan.unsupported.append("a call that cannot be inlined is not counted")
            elif op.has(STRUCTURED):
                for region in op.regions:
                    _visit(region.blocks, plan, provenance, rewriter, masks)
            elif found := cost(op):
                plan.computes.append(
                    ComputeSite(location=user_location(op.location), cost=found, block=number)
                )


def _access(
    op: Operation,
    block: int,
    plan: CountingPlan,
    provenance: Provenance,
    rewriter: Rewriter,
    masks: dict[tuple[Block, Value], int],
) -> None:
    kind, pointer, value = kind_of(op), op.address, op.mask
    assert kind is not None
    mask: int | None = None
    if value is not None and is_mask(value):
        assert op.parent is not None
        key = (op.parent, value)
        if key not in masks:
            masks[key] = plan.counters
            plan.counters += 1
            b = rewriter.before(op)
            _count(b, *mask_factors(b, value), masks[key])
        mask = masks[key]
    sources = provenance.of(pointer)
    (source,) = sources if len(sources) == 1 else (None,)
    plan.accesses.append(
        AccessSite(
            kind=kind,
            location=user_location(op.location),
            item=_item(pointer),
            lanes=prod(shape_of(pointer.type)),
            block=block,
            mask=mask,
            parameter=-1 if source is None else source,
        )
    )


def is_mask(value: Value) -> bool:
    """Whether an operand is a mask: accesses without one have other operands in its place."""
    return element_type(value.type) == BOOLEAN


def _item(pointer: Value) -> int:
    type = element_type(pointer.type)
    assert isinstance(type, PointerType)
    if isinstance(type.pointee, (IntegerType, FloatType)):
        return max(1, type.pointee.width // 8)
    return 8  # pointers


def _count(b: Builder, conditions: Sequence[Value], factor: int, number: int) -> None:
    b.operation(COUNT, conditions, attributes={"factor": factor, "number": number})


def _judge(kernel: Operation, plan: CountingPlan, provenance: Provenance) -> None:
    """What the rewritten kernel still reads, and whether the launch would have written it."""
    written = {a.parameter for a in plan.accesses if a.kind != "load"}
    for op in kernel.walk():
        if kind_of(op) is None:
            continue
        plan.reads = True
        sources = provenance.of(op.operands[0])
        if op.name != "tt.load" or None in sources or -1 in written or sources & written:
            plan.depends_on_writes = True


def user_location(location: SourceLocation | None) -> SourceLocation | None:
    """The line of the user's that an operation belongs to: the innermost outside Triton."""
    if location is None:
        return None
    for each in (location, *location.callers):
        if "/triton/language/" not in each.file.replace("\\", "/"):
            return SourceLocation(each.file, each.line, 0)
    return SourceLocation(location.file, location.line, 0)
