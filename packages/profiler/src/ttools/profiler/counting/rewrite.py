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

from ttools.core.location import SourceLocation, user_location
from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.dialects.traits import (
    ATOMIC,
    CALL,
    CONSTANT,
    READS,
    STRUCTURED,
    TERMINATOR,
    WRITES,
)
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
from ttools.profiler.counting.integers import value_integers
from ttools.profiler.counting.mask_factors import mask_factors

CHECK, COUNT = "ttools.check", "ttools.count"
Kind = Literal["load", "store", "atomic"]


@dataclass(frozen=True, kw_only=True)
class AccessSite:
    """An access to memory.

    Attributes:
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
        executed: numbers of the counters of the blocks that have operations of a line, by line.
        counters: how many there are; the first, of the kernel's own block, counts programs.
        reads: whether what runs depends on values in memory.
        depends_on_writes: whether it may depend on what the launch itself writes there; then only
            the whole kernel shows.
        unsupported: what cannot be counted, a sentence each.
    """

    executed: dict[SourceLocation, set[int]] = field(default_factory=dict)
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
    counting = _Counting(kernel)
    counting.visit(kernel.regions[0].blocks)
    counting.rewriter.apply()
    if not whole:
        remove_dead_code(kernel, lambda op: op.name in (COUNT, "tt.return"))
    _judge(kernel, counting.plan, counting.provenance)
    return counting.plan


def kind_of(op: Operation) -> Kind | None:
    """The kind of an access through pointers; None for anything else."""
    if op.operand("ptr") is None or not op.has(READS, WRITES):
        return None
    if op.has(ATOMIC) and op.has(READS) and op.has(WRITES):
        return "atomic"
    return "store" if op.has(WRITES) else "load"


class _Counting:
    """Finds what is to be counted in a kernel, and inserts the operations that count it."""

    def __init__(self, kernel: Operation) -> None:
        self.plan, self.provenance, self.rewriter = CountingPlan(), Provenance(kernel), Rewriter()
        self._masks: dict[tuple[Block | None, Value], int] = {}
        self._integers = value_integers(kernel)

    def visit(self, blocks: list[Block]) -> None:
        for block in blocks:
            number = self._count(self.rewriter.start(block), (), 1)
            for op in block.operations:
                self._executed(op, number)
                if (kind := kind_of(op)) is not None:
                    self._access(op, kind, number)
                elif op.has(CALL):
                    self.plan.unsupported.append("a call that cannot be inlined is not counted")
                elif op.has(STRUCTURED):
                    for region in op.regions:
                        self.visit(region.blocks)
                elif found := self._cost(op):
                    self.plan.computes.append(
                        ComputeSite(location=user_line(op.location), cost=found, block=number)
                    )

    def _cost(self, op: Operation) -> Counter[str]:
        if op in self._integers:
            return Counter({"integer": prod(shape_of(op.results[0].type))})
        return cost(op)

    def _executed(self, op: Operation, number: int) -> None:
        # A constant is no step of the program, and may lie outside of the loop that has its line.
        location = user_line(op.location)
        if location is not None and not op.has(CONSTANT) and not op.has(TERMINATOR):
            self.plan.executed.setdefault(location, set()).add(number)

    def _access(self, op: Operation, kind: Kind, block: int) -> None:
        pointer, value, mask = op.address, op.mask, None
        if value is not None and is_mask(value):
            mask = self._masks.get((op.parent, value))
            if mask is None:
                b = self.rewriter.before(op)
                mask = self._masks[op.parent, value] = self._count(b, *mask_factors(b, value))
        sources = self.provenance.of(pointer)
        (source,) = sources if len(sources) == 1 else (None,)
        self.plan.accesses.append(
            AccessSite(
                kind=kind,
                location=user_line(op.location),
                item=_item(pointer),
                lanes=prod(shape_of(pointer.type)),
                block=block,
                mask=mask,
                parameter=-1 if source is None else source,
            )
        )

    def _count(self, b: Builder, conditions: Sequence[Value], factor: int) -> int:
        """Has a new counter count; returns its number."""
        number = self.plan.counters
        self.plan.counters += 1
        b.operation(COUNT, conditions, attributes={"factor": factor, "number": number})
        return number


def is_mask(value: Value) -> bool:
    """Whether an operand is a mask: accesses without one have other operands in its place."""
    return element_type(value.type) == BOOLEAN


def _item(pointer: Value) -> int:
    type = element_type(pointer.type)
    assert isinstance(type, PointerType)
    if isinstance(type.pointee, (IntegerType, FloatType)):
        return max(1, type.pointee.width // 8)
    return 8  # pointers


def _judge(kernel: Operation, plan: CountingPlan, provenance: Provenance) -> None:
    """What the rewritten kernel still reads, and whether the launch would have written it."""
    written = {a.parameter for a in plan.accesses if a.kind != "load"}
    for op in kernel.walk():
        if kind_of(op) is None:
            continue
        plan.reads = True
        sources = provenance.of(op.operands[0])
        if op.has(WRITES, ATOMIC) or None in sources or -1 in written or sources & written:
            plan.depends_on_writes = True


def user_line(location: SourceLocation | None) -> SourceLocation | None:
    """The line of the user's that an operation belongs to: the innermost outside Triton."""
    found = user_location(location) or location
    return SourceLocation(found.file, found.line, 0) if found is not None else None
