"""Where pointers come from, and through which parameters a kernel writes.

`provenance` maps a pointer value to the kernel parameters it may derive from; `memory_effects`
folds that over all stores and atomics.  Both are flow-insensitive and may over-approximate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ttools.interpreter.abi.module import MemoryEffects
from ttools.ir import (
    Block,
    Constant,
    IntegerType,
    Module,
    Operation,
    PointerType,
    Value,
    element_type,
)
from ttools.ir.dataflow import block_argument_sources, reachable, region_result_sources
from ttools.ir.dialects.traits import (
    ATOMIC,
    BARRIER,
    CALL,
    CAST,
    CROSS_THREAD,
    READS,
    STRUCTURED,
    VIEW,
    WRITES,
)


class Provenance:
    """Pointer provenance within one function; `None` in a result set means "anything"."""

    def __init__(self, function: Operation) -> None:
        self._parameters = {v: i for i, v in enumerate(function.regions[0].entry.arguments)}
        self._memo: dict[Value, frozenset[int | None]] = {}

    def of(self, value: Value) -> frozenset[int | None]:
        """Return the parameters `value` may point into, by index; None among them if unknown."""
        known = self._memo.get(value)
        if known is None:
            start: list[Value | None] = [value]
            origins = list(reachable(start, self._sources))
            found = {self._parameters[each] for each in origins if each in self._parameters}
            unknown = not found or None in origins
            known = self._memo[value] = frozenset({*found, None} if unknown else found)
        return known

    def _sources(self, value: Value | None) -> Sequence[Value | None]:
        if value is None or value in self._parameters:
            return ()
        op = value.defining_op
        if op is None:
            assert isinstance(value.owner, Block)
            return block_argument_sources(value, value.owner)
        if op.has(READS, CALL):
            return [None]  # not from its pointer operands
        if op.has(STRUCTURED):
            return region_result_sources(op, value.index)
        return [v for v in op.operands if isinstance(element_type(v.type), PointerType)] or [None]


def loads_unwritten(op: Operation, readonly: Collection[int], provenance: Provenance) -> bool:
    """Whether a load reads what no program of the launch writes, so that it may run at any time.

    Args:
        readonly: the parameters whose storages the launch never writes.
    """
    return not synchronises(op) and all(
        root is not None and root in readonly for root in provenance.of(op.operands[0])
    )


def synchronises(op: Operation) -> bool:
    """Whether other programs can be observed through this operation."""
    return op.has(BARRIER, ATOMIC) or _is_strong_load(op)


def _is_strong_load(op: Operation) -> bool:
    """Whether an operation only reads, and sees what other programs write meanwhile."""
    if op.has(WRITES):
        return False
    return op.has(ATOMIC) or (op.has(READS) and bool(op.attributes.get("isVolatile")))


def exchanges_values(op: Operation) -> bool:
    """Whether threads give each other what they hold: what is only seen otherwise stays there."""
    return op.has(CROSS_THREAD) and not op.has(VIEW) and op.name != "tt.cat"


def waits(loop: Operation, functions: Mapping[str, Operation]) -> bool:
    """Whether a loop looks like waiting for other programs: it observes memory and leaves none.

    A loop that stores, or takes work with a counting atomic, makes progress of its own.

    Args:
        functions: those that it may call, by name.
    """
    inner = [op for op in _executed(loop, functions) if op is not loop]
    return any(synchronises(op) for op in inner) and not any(_makes_progress(op) for op in inner)


def _executed(root: Operation, functions: Mapping[str, Operation]) -> Iterator[Operation]:
    """All operations in an operation, and in the functions that are called there."""
    pending, called = [root], set()
    while pending:
        for op in pending.pop().walk():
            yield op
            name = str(op.attributes["callee"]) if op.has(CALL) else ""
            if name in functions and name not in called:
                called.add(name)
                pending.append(functions[name])


def only_reads(op: Operation) -> bool:
    """Whether an operation that observes other programs leaves its one word as it finds it."""
    if not op.results or op.results[0].is_tensor:
        return False
    element = op.results[0].type
    if not isinstance(element, IntegerType) or element.width < 8:
        return False
    if (expected := op.operand("cmp")) is not None:
        return expected is op.operand("val")
    if "atomic_rmw_op" in op.attributes:
        return op.attributes["atomic_rmw_op"] in ("add", "or", "xor") and _is_zero(
            op.operand("val")
        )
    return _is_strong_load(op)


def _makes_progress(op: Operation) -> bool:
    if op.has(ATOMIC) and op.has(READS) and op.has(WRITES):
        return not op.result.uses or _counts(op)
    return op.has(WRITES)


def _counts(op: Operation) -> bool:
    """An atomic addition of something other than zero."""
    if op.attributes.get("atomic_rmw_op") not in ("add", "fadd"):
        return False
    return not _is_zero(op.operand("val"))


def _is_zero(value: Value | None) -> bool:
    source = value.defining_op if value is not None else None
    data = source.attributes.get("value") if source is not None else None
    return isinstance(data, Constant) and not any(data.bits)


def makes_pointer(op: Operation) -> bool:
    """Whether an operation turns memory's contents or integers into pointers."""
    if not op.results:
        return False
    made = isinstance(element_type(op.results[0].type), PointerType) and op.has(READS, CAST)
    return made and not (op.name == "tt.bitcast" and _holds_address(op.operands[0]))


def memory_effects(module: Module) -> MemoryEffects:
    """What the kernel of `module` may write, over all functions it contains."""
    written: set[int] = set()
    unknown = synchronising = indirect = False
    for function in module.functions.values():
        provenance = Provenance(function)
        public = function.attributes["visibility"] == "public"
        for op in function.walk():
            synchronising |= synchronises(op)
            indirect |= makes_pointer(op)
            traits = op.traits
            if CALL in traits:
                # A callee may write through any pointer it is given.
                pointers = [v for v in op.operands if _holds_address(v)]
            else:
                pointers = [op.address] if WRITES in traits else []
            for pointer in pointers:
                roots = provenance.of(pointer)
                unknown |= None in roots
                if public:  # what a callee is given is its callers' affair
                    written |= {r for r in roots if r is not None}
    return MemoryEffects(frozenset(written), synchronising, unknown, indirect)


def _holds_address(value: Value) -> bool:
    return isinstance(element_type(value.type), PointerType)
