"""int_overflow: narrow integers that wrap around on their way into an address.

`find` says, from intervals of one launch, which operations may do that; mostly none, and then there
is no code. `apply` gives what those make 64-bit twins. Where twin and value of an offset differ at
an access, its address is wrong, and the first operation that lost bits is named.

MLIR's integers have no sign. An integer is read as signed unless an unsigned extension says
otherwise, so what reaches one has a second twin, of its unsigned reading.

A twin ends where bits are meant to be lost, as in hashes: remainder, bit operations, shift right;
and in comparisons, floats and memory. What 64 bits cannot hold either is lost: an offset that is
wrong by a multiple of 2**64 is not found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ttools.interpreter.emit.effects import Provenance
from ttools.interpreter.ir import (
    IntegerType,
    Module,
    Operation,
    PointerType,
    Type,
    Value,
    element_type,
)
from ttools.interpreter.rewriting import Builder, Rewriter, with_element
from ttools.sanitizer.passes.check import Defect, Note, insert_check
from ttools.sanitizer.passes.intervals import Intervals, bits_for, width_of
from ttools.sanitizer.passes.lanes import MOVES, lane_builder, lane_type, unmarked
from ttools.sanitizer.passes.tracking import (
    CONTROL,
    Demand,
    Key,
    Known,
    State,
    Tracking,
    operations,
)
from ttools.sanitizer.passes.undefined_lanes import ACCESSES, mask_of
from ttools.sanitizer.passes.witnesses import operands_shown

_LONG = IntegerType(64)
#: Operations that lose bits where the exact result does not fit, and what to call that result.
_NARROWING = {
    "arith.addi": "sum",
    "arith.subi": "difference",
    "arith.muli": "product",
    "arith.shli": "shifted value",
    "arith.trunci": "converted value",
}
#: Operations whose twin is the same operation on twins.
_SAME_ON_TWINS = MOVES | {
    *("arith.addi", "arith.subi", "arith.muli", "arith.shli", "arith.select"),
    *("arith.divsi", "arith.floordivsi", "arith.ceildivsi", "arith.minsi", "arith.maxsi"),
}
#: Operations whose twin is that of their operand.
_TRANSPARENT = {"arith.trunci", "arith.extsi", "arith.index_cast"}
_EXTENSION = "arith.extui"
#: The keys of an integer's twins.
_TWIN, _UNSIGNED_TWIN = "twin", "unsigned twin"
_TWINS = (_TWIN, _UNSIGNED_TWIN)


_Reading: TypeAlias = Literal["signed", "unsigned", "extended"]


@dataclass(frozen=True)
class _Wrapped:
    """The key of lanes in which an operation has wrapped.

    Attributes:
        op: the operation.
        reading: of its result; `extended` once an unsigned extension has settled it.
    """

    op: Operation
    reading: _Reading

    @property
    def twin(self) -> str:
        """Which twin of the operation's result tells."""
        return _TWIN if self.reading == "signed" else _UNSIGNED_TWIN

    @property
    def counts(self) -> bool:
        """Whether an address that it reaches is wrong."""
        return self.reading != "unsigned"


_EXTENDED: dict[_Reading, _Reading] = {"unsigned": "extended", "extended": "extended"}

#: Position of an operation in `Operation.walk()` of the kernel, and the bits its result needs.
Candidate = tuple[int, int]


def find(module: Module, scalars: Mapping[int, int], grid: Sequence[int]) -> frozenset[Candidate]:
    """The operations that may wrap around on the way into an address, in one launch.

    Args:
        module: a module without calls, before any pass.
        scalars: values of integer parameters by index, as the kernel sees them (signed).
        grid: how many programs there are along each axis.
    """
    kernel = module.kernel
    exact = Intervals(kernel, scalars, grid).exact
    if not exact:
        return frozenset()
    wanted = _reaching_addresses(kernel)
    return frozenset(
        (position, bits_for(exact[op]))
        for position, op in enumerate(kernel.walk())
        if op in exact and op.name in _NARROWING and op.results[0] in wanted and _is_narrow(op)
    )


def _is_narrow(op: Operation) -> bool:
    return 1 < width_of(op.results[0]) < 64


def _reaching_addresses(kernel: Operation) -> set[Value]:
    """Integers that reach an address with all their bits."""
    rules = _Twins(frozenset())
    pending = []
    for op in operations(kernel):
        if op.name == "tt.addptr":
            pending.append(op.operands[1])
        elif op.name == "tt.int_to_ptr":
            pending.append(op.operands[0])
    found: set[Value] = set()
    while pending:
        value = pending.pop()
        if value in found or not width_of(value):
            continue
        found.add(value)
        definition = value.defining_op
        if definition is None or definition.name in CONTROL:
            pending += Tracking.sources(value)
        else:
            pending += rules.flowing(definition)
    return found


def apply(module: Module, candidates: Collection[Candidate]) -> list[Note]:
    """Adds the checks of wrapped offsets to a kernel.

    Args:
        module: the module that `find` was given, or an equal one; rewritten in place.
        candidates: what `find` found.

    Returns:
        What could not be judged: nothing so far.
    """
    if not candidates:
        return []
    kernel = module.kernel
    ops = list(kernel.walk())
    needed = {ops[position]: bits for position, bits in candidates}
    order = [ops[position] for position, _ in sorted(candidates)]
    provenance = Provenance(kernel)
    accesses = [op for op in operations(kernel) if op.name in (*ACCESSES, "tt.store")]
    roots = {op: provenance.of(op.operands[0]) for op in accesses}
    rewriter = Rewriter()
    tracking = Tracking(kernel, _Twins(frozenset(needed), order), rewriter)
    for op in accesses:
        for key in _counting(tracking.state(op.operands[0])):
            tracking.demand(op.operands[0], key)
    tracking.build()
    for op in accesses:
        for key in _counting(tracking.state(op.operands[0])):
            (root,) = roots[op] if len(roots[op]) == 1 else (None,)
            argument = -1 if root is None else root
            _check(rewriter, tracking, op, key, needed[key.op], argument)
    rewriter.apply()
    return []


def _counting(state: State) -> list[_Wrapped]:
    return [key for key in state if isinstance(key, _Wrapped) and key.counts]


def _check(
    rewriter: Rewriter,
    tracking: Tracking,
    access: Operation,
    key: _Wrapped,
    bits: int,
    argument: int,
) -> None:
    culprit, article = key.op, "an " if key.reading == "signed" else "a u"
    condition = tracking.shadow(access.operands[0], key)
    assert condition is not None
    b = rewriter.before(access)
    mask = mask_of(access)
    if mask is not None:
        condition = b.binary("andi", condition, mask)
    width = width_of(culprit.results[0])
    message = (
        f"{article}int{width} {_NARROWING[culprit.name]} wraps around and reaches an address; "
        f"int{max(bits, 2 * width)} would do"
    )
    insert_check(
        b,
        condition,
        Defect(
            check="overflow",
            kind="int_overflow",
            message=message,
            location=culprit.location,
            argument=argument,
        ),
        list(operands_shown(culprit, access, condition)),
    )


class _Twins:
    """The rules of tracking wrapped integers.

    An integer has the keys of its twins, and keys for each operation that may have wrapped before;
    a pointer only the latter, which then mark the lanes whose address is wrong because of it.
    """

    def __init__(self, culprits: frozenset[Operation], order: Sequence[Operation] = ()) -> None:
        self._culprits = culprits
        self._order = {op: n for n, op in enumerate(order)}

    def flowing(self, op: Operation) -> list[Value]:
        """The operands that reach the result with all their bits."""
        if op.name == "arith.select":
            return op.operands[1:]
        if op.name in ("tt.gather", "tt.addptr", "tt.int_to_ptr", "tt.bitcast", _EXTENSION):
            return op.operands if op.name == "tt.addptr" else op.operands[:1]
        return op.operands if op.name in _SAME_ON_TWINS | _TRANSPARENT else []

    def transfer(self, op: Operation, index: int, known: Known) -> State:
        found: dict[Key, None] = {}
        if op in self._culprits:
            found = dict.fromkeys((*_TWINS, _Wrapped(op, "signed"), _Wrapped(op, "unsigned")))
        for value in self.flowing(op):
            found |= dict.fromkeys(_handed_on(op, known.state(value)))
        if _is_pointer(op.results[index]):
            return {key: None for key in found if isinstance(key, _Wrapped) and key.counts}
        return found if width_of(op.results[index]) else {}

    def join(self, first: object, second: object) -> None:
        return None

    def moved(self, target: Value, state: State) -> State:
        return state

    def depends(self, op: Operation, index: int, key: Key, known: Known) -> Iterator[Demand]:
        if isinstance(key, _Wrapped) and key.op is op:
            yield op.results[index], key.twin
            return
        makes_pointer = _is_pointer(op.results[index])
        for value in self.flowing(op):
            if makes_pointer and width_of(value):
                yield value, _TWIN
                yield from ((value, other) for other in self._before(value, key, known))
            else:
                yield from ((value, before) for before in _origins(op, key, known.state(value)))

    def _before(self, value: Value, key: Key, known: Known) -> list[_Wrapped]:
        """The culprits up to `key` in an offset that has several; none if it is the only one."""
        state = _counting(known.state(value))
        if key not in state or len(state) == 1:
            return []
        assert isinstance(key, _Wrapped)
        return [k for k in state if self._order[k.op] <= self._order[key.op]]

    def build(self, b: Builder, op: Operation, index: int, key: Key, known: Known) -> Value:
        result = op.results[index]
        if key in _TWINS:
            return self._build_twin(b, op, index, str(key), known)
        assert isinstance(key, _Wrapped)
        if key.op is op:
            return _differs(b, result, key.twin, known)
        if _is_pointer(result) and op.name in ("tt.addptr", "tt.int_to_ptr"):
            return self._build_address(b, op, key, known)
        if op.name == _EXTENSION:
            (value,) = self.flowing(op)
            origins = _origins(op, key, known.state(value))
            marks = [known.shadow(value, before) for before in origins]
            return b.any_of([mark for mark in marks if mark is not None])
        make = lane_builder(op)
        assert make is not None
        flowing = self.flowing(op)
        parts = [known.shadow(v, key) if v in flowing else None for v in op.operands]
        return make(b, op, index, parts)

    def _build_twin(self, b: Builder, op: Operation, index: int, key: str, known: Known) -> Value:
        flowing = self.flowing(op)
        wanted = _UNSIGNED_TWIN if op.name == _EXTENSION else key
        operands = [
            (known.shadow(v, wanted) or self.default(b, v, wanted)) if v in flowing else v
            for v in op.operands
        ]
        if op.name in _TRANSPARENT or op.name == _EXTENSION:
            return operands[0]
        types = [with_element(result.type, _LONG) for result in op.results]
        attributes = {k: v for k, v in op.attributes.items() if k not in _NOT_OF_TWINS}
        return b.operation(op.name, operands, types, attributes).results[index]

    def _build_address(self, b: Builder, op: Operation, key: _Wrapped, known: Known) -> Value:
        """Lanes whose offset differs from its twin and was first wrong because of `key`."""
        found = []
        for value in self.flowing(op):
            if _is_pointer(value):
                marked = known.shadow(value, key)
                found += [] if marked is None else [marked]
            elif key in known.state(value):
                wrong = _differs(b, value, _TWIN, known)
                for culprit in self._before(value, key, known):
                    marked = known.shadow(value, culprit)
                    if marked is not None:
                        marked = marked if culprit == key else b.negate(marked)
                        wrong = b.binary("andi", wrong, marked)
                found.append(wrong)
        return b.any_of([b.spread(part, op.result.type) for part in found])

    def shadow_type(self, value: Value, key: Key) -> Type:
        return with_element(value.type, _LONG) if key in _TWINS else lane_type(value)

    def default(self, b: Builder, value: Value, key: Key) -> Value:
        if key not in _TWINS:
            return unmarked(b, value)
        return b.signed(value, 64) if key == _TWIN else _unsigned(b, value)


def _handed_on(op: Operation, state: State) -> Iterator[Key]:
    """The keys of a result by those of an operand: an extension settles how it is read."""
    if op.name == _EXTENSION:
        yield from _extended(state)
    elif op.name == "arith.extsi":
        yield from (key for key in state if key == _TWIN or key in _counting(state))
    else:
        yield from state


def _extended(state: State) -> Iterator[Key]:
    for key in state:
        if key == _UNSIGNED_TWIN:
            yield from _TWINS
        elif isinstance(key, _Wrapped) and key.reading in _EXTENDED:
            yield _Wrapped(key.op, _EXTENDED[key.reading])


def _origins(op: Operation, key: Key, state: State) -> list[Key]:
    """The keys of an operand that `key` of the result comes from."""
    if op.name != _EXTENSION:
        return [key] if key in state else []
    if key in _TWINS:
        return [_UNSIGNED_TWIN] if _UNSIGNED_TWIN in state else []
    return [before for before in state if key in _extended({before: None})]


#: Promises about the narrow operation; and hints, which the twin would have to keep too.
_NOT_OF_TWINS = {
    *("overflowFlags", "isExact", "nonNeg"),
    *("tt.divisibility", "tt.contiguity", "tt.constancy"),
}


def _differs(b: Builder, value: Value, key: str, known: Known) -> Value:
    twin = known.shadow(value, key)
    if twin is None:
        return unmarked(b, value)
    real = b.signed(value, 64) if key == _TWIN else _unsigned(b, value)
    return b.compare("ne", twin, real)


def _unsigned(b: Builder, value: Value) -> Value:
    element = element_type(value.type)
    assert isinstance(element, IntegerType)
    return value if element.width >= 64 else b.cast(value, _LONG, _EXTENSION)


def _is_pointer(value: Value) -> bool:
    return isinstance(element_type(value.type), PointerType)
