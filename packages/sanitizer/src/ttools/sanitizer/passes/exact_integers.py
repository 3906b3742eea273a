"""Exact 64-bit values beside narrow integers, and the lanes in which an operation has wrapped.

These are the propagation rules behind `overflow`. For a chain in which both operations may wrap,

    a = x * y          # i32, exact: a64 = x64 * y64
    b = a + z          # i32, exact: b64 = a64 + z64
    p + b              # wrong where sext(b) != b64

the address is attributed to the first culprit: to `a` in lanes where `a` differs from `a64`, and to
`b` in the remaining lanes where `b` differs from `b64`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ttools.ir import (
    IntegerType,
    Operation,
    PointerType,
    Type,
    Value,
    element_type,
)
from ttools.ir.combining import combined_by
from ttools.ir.dialects import declared
from ttools.ir.dialects.traits import (
    COMMUTATIVE,
    DISPLACES,
    GATHERS,
    RESIZES,
    SELECTS,
    WIDENS,
)
from ttools.ir.rewriting import Builder, with_element
from ttools.ir.semantics import is_view, width_of
from ttools.sanitizer.passes.hints.conditions import HINTS
from ttools.sanitizer.passes.lanes import lane_builder, lane_type, unmarked
from ttools.sanitizer.passes.tracking import Demand, Key, Lookup, State

_LONG = IntegerType(64)
_EXTENSION = "arith.extui"
#: The keys of an integer's exact values under the signed and the unsigned interpretation.
_EXACT, _EXACT_UNSIGNED = "exact", "exact unsigned"
_EXACT_KEYS = (_EXACT, _EXACT_UNSIGNED)


_Reading: TypeAlias = Literal["signed", "unsigned", "extended"]


@dataclass(frozen=True)
class Wrapped:
    """The key of lanes in which an operation has wrapped.

    Attributes:
        reading: Interpretation of the result; `extended` if a zero extension has confirmed that it
            is unsigned.
    """

    op: Operation
    reading: _Reading

    @property
    def exact(self) -> str:
        """Return the key of the exact value with which the result is compared."""
        return _EXACT if self.reading == "signed" else _EXACT_UNSIGNED

    @property
    def reaches_address(self) -> bool:
        """Return whether an address that this key reaches is wrong."""
        return self.reading != "unsigned"


_EXTENDED: dict[_Reading, _Reading] = {"unsigned": "extended", "extended": "extended"}


class ExactIntegers:
    """The rules by which exact integers and wrapped lanes propagate.

    An integer has the keys of its exact values, and one key for each operation that may have
    wrapped before it; a pointer has only keys of operations, which mark the lanes whose address is
    wrong.
    """

    def __init__(self, culprits: frozenset[Operation], order: Sequence[Operation] = ()) -> None:
        self._culprits = culprits
        self._order = {op: n for n, op in enumerate(order)}

    def flowing(self, op: Operation) -> list[Value]:
        """Return the operands all of whose bits flow into the result."""
        if op.has(SELECTS):
            return op.operands[1:]
        if op.has(GATHERS, RESIZES) or op.name in (_EXTENSION, "tt.int_to_ptr", "tt.bitcast"):
            return op.operands[:1]
        same = is_view(op) or op.has(WIDENS) or _combines_exactly(op)
        return op.operands if same or op.has(DISPLACES) else []

    def transfer(self, op: Operation, index: int, lookup: Lookup) -> State:
        keys: dict[Key, None] = {}
        if op in self._culprits:
            keys = dict.fromkeys((*_EXACT_KEYS, Wrapped(op, "signed"), Wrapped(op, "unsigned")))
        for value in self.flowing(op):
            keys |= dict.fromkeys(_propagated(op, lookup.state(value)))
        if _is_pointer(op.results[index]):
            return {key: None for key in keys if isinstance(key, Wrapped) and key.reaches_address}
        return keys if width_of(op.results[index]) else {}

    def join(self, first: object, second: object) -> None:
        return None

    def moved(self, target: Value, state: State) -> State:
        return state

    def depends(self, op: Operation, index: int, key: Key, lookup: Lookup) -> Iterator[Demand]:
        if isinstance(key, Wrapped) and key.op is op:
            yield op.results[index], key.exact
            return
        makes_pointer = _is_pointer(op.results[index])
        for value in self.flowing(op):
            if makes_pointer and width_of(value):
                yield value, _EXACT
                yield from ((value, other) for other in self._before(value, key, lookup))
            else:
                yield from ((value, before) for before in _origins(op, key, lookup.state(value)))

    def _before(self, value: Value, key: Key, lookup: Lookup) -> list[Wrapped]:
        """Return the operations of an offset that may overflow, up to the operation of `key`.

        The list is empty if there is only one such operation.
        """
        state = reaching_address(lookup.state(value))
        if key not in state or len(state) == 1:
            return []
        assert isinstance(key, Wrapped)
        return [k for k in state if self._order[k.op] <= self._order[key.op]]

    def build(self, b: Builder, op: Operation, index: int, key: Key, lookup: Lookup) -> Value:
        result = op.results[index]
        if key in _EXACT_KEYS:
            return self._build_exact(b, op, index, str(key), lookup)
        assert isinstance(key, Wrapped)
        if key.op is op:
            return _differs(b, result, key.exact, lookup)
        if _is_pointer(result) and op.name in ("tt.addptr", "tt.int_to_ptr"):
            return self._build_address(b, op, key, lookup)
        if op.name == _EXTENSION:
            (value,) = self.flowing(op)
            origins = _origins(op, key, lookup.state(value))
            marks = [lookup.shadow(value, before) for before in origins]
            return b.any_of([mark for mark in marks if mark is not None])
        make = lane_builder(op)
        assert make is not None
        flowing = self.flowing(op)
        parts = [lookup.shadow(v, key) if v in flowing else None for v in op.operands]
        return make(b, op, index, parts)

    def _build_exact(
        self, b: Builder, op: Operation, index: int, key: str, lookup: Lookup
    ) -> Value:
        flowing = self.flowing(op)
        source = _EXACT_UNSIGNED if op.name == _EXTENSION else key
        operands = [
            (lookup.shadow(v, source) or self.default(b, v, source)) if v in flowing else v
            for v in op.operands
        ]
        if op.has(RESIZES) or op.name == _EXTENSION:
            return operands[0]
        combine = combined_by(op)
        if combine is not None:
            return combination(b, op, operands[0], combine)
        types = [with_element(result.type, _LONG) for result in op.results]
        attributes = {k: v for k, v in op.attributes.items() if k not in _DROPPED_ATTRIBUTES}
        return b.operation(op.name, operands, types, attributes).results[index]

    def _build_address(self, b: Builder, op: Operation, key: Wrapped, lookup: Lookup) -> Value:
        """Build the mask of wrong-offset lanes whose first wrapped operation is that of `key`."""
        lanes = []
        for value in self.flowing(op):
            if _is_pointer(value):
                marked = lookup.shadow(value, key)
                lanes += [] if marked is None else [marked]
            elif key in lookup.state(value):
                wrong = _differs(b, value, _EXACT, lookup)
                for culprit in self._before(value, key, lookup):
                    marked = lookup.shadow(value, culprit)
                    if marked is not None:
                        marked = marked if culprit == key else b.negate(marked)
                        wrong = b.binary("andi", wrong, marked)
                lanes.append(wrong)
        return b.any_of([b.spread(part, op.result.type) for part in lanes])

    def shadow_type(self, value: Value, key: Key) -> Type:
        return with_element(value.type, _LONG) if key in _EXACT_KEYS else lane_type(value)

    def default(self, b: Builder, value: Value, key: Key) -> Value:
        if key not in _EXACT_KEYS:
            return unmarked(b, value)
        return b.signed(value, 64) if key == _EXACT else unsigned(b, value)


def _combines_exactly(op: Operation) -> bool:
    """Return whether the same operation in 64 bits computes a reduction or scan exactly."""
    combine = combined_by(op)
    return combine is not None and {WIDENS, COMMUTATIVE} <= declared(combine).traits


def reaching_address(state: State) -> list[Wrapped]:
    """Return the keys of operations that may have made an address wrong."""
    return [key for key in state if isinstance(key, Wrapped) and key.reaches_address]


def combination(b: Builder, op: Operation, exact: Value, combine: str) -> Value:
    """Build the reduction or scan `op` of exact values."""
    reverse, name = bool(op.attributes.get("reverse")), combine.removeprefix("arith.")
    return b.combine(op.name, exact, op.axis, name, reverse=reverse)


def _propagated(op: Operation, state: State) -> Iterator[Key]:
    """Yield the keys that a result gets from the keys of an operand.

    An extension determines how the operand is interpreted.
    """
    if op.name == _EXTENSION:
        yield from _extended(state)
    elif op.name == "arith.extsi":
        yield from (key for key in state if key == _EXACT or key in reaching_address(state))
    else:
        yield from state


def _extended(state: State) -> Iterator[Key]:
    for key in state:
        if key == _EXACT_UNSIGNED:
            yield from _EXACT_KEYS
        elif isinstance(key, Wrapped) and key.reading in _EXTENDED:
            yield Wrapped(key.op, _EXTENDED[key.reading])


def _origins(op: Operation, key: Key, state: State) -> list[Key]:
    """Return the keys of an operand from which `key` of the result is derived."""
    if op.name != _EXTENSION:
        return [key] if key in state else []
    if key in _EXACT_KEYS:
        return [_EXACT_UNSIGNED] if _EXACT_UNSIGNED in state else []
    return [before for before in state if key in _extended({before: None})]


#: Attributes that hold only for the narrow operation: flags and hints.
_DROPPED_ATTRIBUTES = {
    *("overflowFlags", "isExact", "nonNeg"),
    *HINTS,
}


def _differs(b: Builder, value: Value, key: str, lookup: Lookup) -> Value:
    exact = lookup.shadow(value, key)
    if exact is None:
        return unmarked(b, value)
    real = b.signed(value, 64) if key == _EXACT else unsigned(b, value)
    return b.compare("ne", exact, real)


def unsigned(b: Builder, value: Value) -> Value:
    """Return an integer zero-extended to 64 bits."""
    element = element_type(value.type)
    assert isinstance(element, IntegerType)
    return value if element.width >= 64 else b.cast(value, _LONG, _EXTENSION)


def _is_pointer(value: Value) -> bool:
    return isinstance(element_type(value.type), PointerType)
