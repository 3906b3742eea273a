"""The origins of pointers, and the memory effects of kernels.

`Provenance` maps a pointer to the kernel parameters that it may derive from: for example, the
provenance of `x_ptr + offs` is `x_ptr`. `memory_effects` collects the provenance of all stores and
atomics. Both ignore control flow, so they may return parameters that no execution uses.
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

#: Operations without any of these traits have no effect on memory and make no pointers.
_EFFECTIVE = frozenset({ATOMIC, BARRIER, CALL, CAST, READS, WRITES})


class Provenance:
    """The origins of the pointers of one function, as indices of its parameters.

    If None is among the origins of a pointer, the pointer may also have any other origin.
    """

    def __init__(self, function: Operation) -> None:
        self._parameters = {v: i for i, v in enumerate(function.regions[0].entry.arguments)}
        self._memo: dict[Value, frozenset[int | None]] = {}

    def of(self, value: Value) -> frozenset[int | None]:
        """Return the indices of the parameters into whose memory `value` may point.

        The set contains None if the pointer may have another origin.
        """
        origins = self._memo.get(value)
        if origins is None:
            start: list[Value | None] = [value]
            sources = list(reachable(start, self._sources))
            indices = {self._parameters[v] for v in sources if v in self._parameters}
            unknown = not indices or None in sources
            origins = self._memo[value] = frozenset({*indices, None} if unknown else indices)
        return origins

    def _sources(self, value: Value | None) -> Sequence[Value | None]:
        if value is None or value in self._parameters:
            return ()
        op = value.defining_op
        if op is None:
            assert isinstance(value.owner, Block)
            return block_argument_sources(value, value.owner)
        if op.has(READS, CALL):
            return [None]  # the result does not derive from the pointers among the operands
        if op.has(STRUCTURED):
            return region_result_sources(op, value.index)
        return [v for v in op.operands if isinstance(element_type(v.type), PointerType)] or [None]


def loads_unwritten(op: Operation, readonly: Collection[int], provenance: Provenance) -> bool:
    """Return whether a load only reads memory that the launch never writes.

    Such a load returns the same values whenever it runs, so it may be moved or repeated.

    Args:
        readonly: Indices of the parameters whose storages the launch never writes.
        provenance: The origins of the function's pointers.
    """
    return not synchronises(op) and all(
        root is not None and root in readonly for root in provenance.of(op.operands[0])
    )


def synchronises(op: Operation) -> bool:
    """Return whether an operation can observe effects of other programs."""
    traits = op.traits
    return BARRIER in traits or ATOMIC in traits or (READS in traits and _is_strong_load(op))


def _is_strong_load(op: Operation) -> bool:
    """Return whether an operation only reads, and sees concurrent writes of other programs."""
    if op.has(WRITES):
        return False
    return op.has(ATOMIC) or (op.has(READS) and bool(op.attributes.get("isVolatile")))


def exchanges_values(op: Operation) -> bool:
    """Return whether threads exchange values at an operation when it runs on a GPU.

    Views and `tt.cat` have the trait `CROSS_THREAD`, but need not exchange values.
    """
    return op.has(CROSS_THREAD) and not op.has(VIEW) and op.name != "tt.cat"


def waits(loop: Operation, functions: Mapping[str, Operation]) -> bool:
    """Return whether a loop seems to wait for other programs.

    A loop waits if it observes memory that other programs may write, and makes no progress itself.
    A loop makes progress if it stores, or if it claims work by an atomic addition.

    Args:
        functions: Functions that the loop may call, by name.
    """
    inner = [op for op in _executed(loop, functions) if op is not loop]
    return any(synchronises(op) for op in inner) and not any(_makes_progress(op) for op in inner)


def _executed(root: Operation, functions: Mapping[str, Operation]) -> Iterator[Operation]:
    """Yield all operations in an operation, and in the functions that it calls."""
    pending, called = [root], set()
    while pending:
        for op in pending.pop().walk():
            yield op
            name = str(op.attributes["callee"]) if op.has(CALL) else ""
            if name in functions and name not in called:
                called.add(name)
                pending.append(functions[name])


def only_reads(op: Operation) -> bool:
    """Return whether an operation that observes other programs leaves memory unchanged.

    Examples are a volatile load, `atomic_add(p, 0)` and a compare-and-swap whose new value is the
    expected one.
    """
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
    """Return whether an operation is an atomic addition of something other than zero."""
    if op.attributes.get("atomic_rmw_op") not in ("add", "fadd"):
        return False
    return not _is_zero(op.operand("val"))


def _is_zero(value: Value | None) -> bool:
    source = value.defining_op if value is not None else None
    data = source.attributes.get("value") if source is not None else None
    return isinstance(data, Constant) and not any(data.bits)


def makes_pointer(op: Operation) -> bool:
    """Return whether an operation converts integers or the contents of memory into pointers."""
    if not (op.has(READS, CAST) and op.results and _holds_address(op.results[0])):
        return False
    return not (op.name == "tt.bitcast" and _holds_address(op.operands[0]))


def memory_effects(module: Module) -> MemoryEffects:
    """Return the memory effects of the kernel of `module`, including the functions it calls."""
    written: set[int] = set()
    unknown = synchronising = indirect = False
    for function in module.functions.values():
        provenance = Provenance(function)
        public = function.attributes["visibility"] == "public"
        for op in function.walk():
            traits = op.traits
            if traits.isdisjoint(_EFFECTIVE):
                continue
            synchronising |= synchronises(op)
            indirect |= makes_pointer(op)
            if CALL in traits:
                # A callee may write through any pointer that is passed to it.
                pointers = [v for v in op.operands if _holds_address(v)]
            else:
                pointers = [op.address] if WRITES in traits else []
            for pointer in pointers:
                roots = provenance.of(pointer)
                unknown |= None in roots
                if public:  # the writes of a callee were added at its call
                    written |= {r for r in roots if r is not None}
    return MemoryEffects(frozenset(written), synchronising, unknown, indirect)


def _holds_address(value: Value) -> bool:
    return isinstance(element_type(value.type), PointerType)
