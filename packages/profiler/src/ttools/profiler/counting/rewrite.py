"""Rewrites a kernel so that it counts its work and reads the memory that it would access.

Inserted `ttools.count` operations count the executions of each block and the lanes that each mask
enables. Stores become loads, and operations that only contribute to stored values are removed. In
place of a matrix product, a loop remains that counts and reads its tiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Literal, NamedTuple

from ttools.core.location import SourceLocation, user_location
from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import (
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
from ttools.ir.dead_code import remove_dead_code
from ttools.ir.dialects.traits import (
    ATOMIC,
    CALL,
    CONSTANT,
    READS,
    STRUCTURED,
    TERMINATOR,
    WRITES,
)
from ttools.ir.rewriting import BOOLEAN, Builder, Rewriter, with_element
from ttools.profiler.counting.costs import cost
from ttools.profiler.counting.integers import is_access, operations_behind, value_integers
from ttools.profiler.counting.mask_factors import mask_factors

CHECK, COUNT = "ttools.check", "ttools.count"
Kind = Literal["load", "store", "atomic"]


@dataclass(frozen=True, kw_only=True)
class AccessSite:
    """An access to memory.

    Attributes:
        item: Number of bytes of an element.
        lanes: Number of elements of the tile.
        block: Index of the counter of the block that contains the access.
        mask: Index of the counter of the mask; None if the access has no mask.
        parameter: Index of the parameter from which the pointer derives; -1 if it is unknown.
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
    """An arithmetic operation.

    Attributes:
        cost: Number of operations of one execution, by unit.
        block: Index of the counter of the block that contains the operation.
    """

    location: SourceLocation | None
    cost: Counter[str]
    block: int


@dataclass
class CountingPlan:
    """The meaning of the counters in a kernel.

    Attributes:
        executed: For each source line, the counters of the blocks that contain its operations.
        counters: Number of counters; the first one counts programs.
        reads: True if the rewritten kernel depends on the contents of memory.
        depends_on_writes: True if it may depend on memory that the launch itself writes, so that
            the complete kernel has to run.
        unsupported: Sentences that describe uncounted work.
    """

    executed: dict[SourceLocation, set[int]] = field(default_factory=dict)
    accesses: list[AccessSite] = field(default_factory=list)
    computes: list[ComputeSite] = field(default_factory=list)
    counters: int = 0
    reads: bool = False
    depends_on_writes: bool = False
    unsupported: list[str] = field(default_factory=list)


def plan_counting(module: Module, *, whole: bool = False) -> CountingPlan:
    """Rewrite a module in place; return the meaning of its counters.

    Args:
        module: A module without calls.
        whole: If True, no operation of the kernel is removed.
    """
    kernel = module.kernel
    counting = _Counting(kernel)
    counting.visit(kernel.regions[0].blocks)
    counting.rewriter.apply()
    if not whole:
        remove_dead_code(kernel, lambda op: op.name in (COUNT, "tt.return"))
    _classify_reads(kernel, counting.plan, counting.provenance)
    return counting.plan


def kind_of(op: Operation) -> Kind | None:
    """Return the kind of an access through pointers; None for other operations."""
    if op.operand("ptr") is None or not op.has(READS, WRITES):
        return None
    if op.has(ATOMIC) and op.has(READS) and op.has(WRITES):
        return "atomic"
    return "store" if op.has(WRITES) else "load"


class _Counting:
    """Plans the counters of a kernel, and inserts the operations that increment them."""

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
                elif operations := self._cost(op):
                    self.plan.computes.append(
                        ComputeSite(location=user_line(op.location), cost=operations, block=number)
                    )

    def _cost(self, op: Operation) -> Counter[str]:
        if op in self._integers:
            return Counter({"integer": prod(shape_of(op.results[0].type))})
        return cost(op)

    def _executed(self, op: Operation, number: int) -> None:
        # A constant is not executed, and may be placed outside the loop to which its line belongs.
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
        """Insert a new counter and return its number."""
        number = self.plan.counters
        self.plan.counters += 1
        b.operation(COUNT, conditions, attributes={"factor": factor, "number": number})
        return number


def is_mask(value: Value) -> bool:
    """Return whether an operand is a mask; an access without a mask can have others there."""
    return element_type(value.type) == BOOLEAN


def _item(pointer: Value) -> int:
    type = element_type(pointer.type)
    assert isinstance(type, PointerType)
    if isinstance(type.pointee, (IntegerType, FloatType)):
        return max(1, type.pointee.width // 8)
    return 8  # pointers


def _classify_reads(kernel: Operation, plan: CountingPlan, provenance: Provenance) -> None:
    """Set whether the rewritten kernel reads memory, and whether the launch may write it."""
    written = {a.parameter for a in plan.accesses if a.kind != "load"}
    for op in kernel.walk():
        if kind_of(op) is None:
            continue
        plan.reads = True
        sources = provenance.of(op.operands[0])
        if op.has(WRITES, ATOMIC) or None in sources or -1 in written or sources & written:
            plan.depends_on_writes = True


def user_line(location: SourceLocation | None) -> SourceLocation | None:
    """Return the line of user code that an operation is from: the innermost one outside Triton."""
    user = user_location(location) or location
    return SourceLocation(user.file, user.line, 0) if user is not None else None


# --- accesses -------------------------------------------------------------------------------------


class StandIns(NamedTuple):
    """The loads of a rewritten kernel that replace accesses, by their indices in the module.

    Attributes:
        kinds: Kinds of the original accesses, for loads that replace stores or atomics.
        following: Indices of loads whose addresses depend on loaded data.
        atomics: MLIR's names of the element types, for loads that replace atomics.
    """

    kinds: Mapping[int, Kind] = MappingProxyType({})
    following: frozenset[int] = frozenset()
    atomics: Mapping[int, str] = MappingProxyType({})


def replace_accesses(module: Module) -> StandIns:
    """Replace the accesses of a module without calls by loads, in place.

    The loads show which bytes a launch touches at least once. These bytes must cross the memory
    bus, even with perfect caches; repeated requests may hit a cache. Stores become loads of the
    same addresses, so memory stays unchanged.
    """
    kernel = module.kernel
    rewriter = Rewriter()
    stand_ins: dict[Operation, Kind] = {}
    for op in list(kernel.walk()):
        kind = kind_of(op)
        if kind is None:
            continue
        if kind == "load":
            _use(rewriter.after(op), op.result)
            continue
        b = rewriter.before(op)
        masks = [op.mask] if op.mask is not None and is_mask(op.mask) else []
        load = _load(b, op.address, masks)
        stand_ins[load] = kind
        _use(b, load.result)
    rewriter.apply()
    remove_dead_code(kernel, lambda op: op.name in (CHECK, COUNT, "tt.return"))
    numbers = {op: n for n, op in enumerate(module.walk())}
    following = (
        numbers[op]
        for op in kernel.walk()
        if is_access(op) and any(map(is_access, operations_behind([op.address])))
    )
    kinds = {numbers[op]: kind for op, kind in stand_ins.items()}
    atomics = {numbers[op]: _accessed(op) for op, kind in stand_ins.items() if kind == "atomic"}
    return StandIns(kinds, frozenset(following), atomics)


def elements_of_atomics(module: Module) -> dict[int, str]:
    """Return MLIR's element types of atomic operations, by index in the module."""
    return {n: _accessed(op) for n, op in enumerate(module.walk()) if kind_of(op) == "atomic"}


def _accessed(op: Operation) -> str:
    pointer = element_type(op.address.type)
    assert isinstance(pointer, PointerType)
    return str(pointer.pointee)


def _load(b: Builder, pointer: Value, masks: list[Value]) -> Operation:
    pointee = element_type(pointer.type)
    assert isinstance(pointee, PointerType)
    type = with_element(pointer.type, pointee.pointee)
    sizes = (1, len(masks), 0)
    return b.operation("tt.load", [pointer, *masks], [type], {"operandSegmentSizes": sizes})


#: Floats with fewer bits are compared as integers.
_NARROWEST_COMPARED = 16


def _use(b: Builder, value: Value) -> None:
    """Use a value in a check that never fails, so that it is not removed as dead code."""
    element = element_type(value.type)
    if isinstance(element, PointerType):
        value = b.cast(value, IntegerType(64), "tt.ptr_to_int")
    elif isinstance(element, FloatType) and element.width < _NARROWEST_COMPARED:
        element = IntegerType(element.width)
        value = b.cast(value, element, "tt.bitcast")
    type = with_element(value.type, BOOLEAN)
    if isinstance(element, FloatType):
        never = b.value("arith.cmpf", [value, value], type, {"predicate": "one"})
    else:
        never = b.value("arith.cmpi", [value, value], type, {"predicate": "ne"})
    b.operation(CHECK, [never], attributes={"check": "traffic", "names": (), "message": ""})
