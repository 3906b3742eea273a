"""Rewrites a kernel so that it only reads what it would access.

The bytes that a launch touches at least once must cross the memory bus, however good the caches;
what it requests again may come from a cache. Stores become loads of the same addresses, so memory
stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ttools.interpreter.ir import FloatType, IntegerType, Module, Operation, PointerType, Value
from ttools.interpreter.ir import element_type as element_of
from ttools.interpreter.ir.dead_code import remove_dead_code
from ttools.interpreter.ir.rewriting import BOOLEAN, Builder, Rewriter, with_element
from ttools.profiler.counting.rewrite import CHECK, Kind, is_mask, kind_of
from ttools.profiler.counting.slices import is_access, operations_behind


class Rewritten(NamedTuple):
    """What is known of a rewritten kernel's loads, by their indices in the order of the module.

    Attributes:
        kinds: what those stand for that stand for stores and atomics.
        following: those whose addresses follow what other loads read.
        atomics: MLIR's name of the element type of those that stand for atomics.
    """

    kinds: Mapping[int, Kind] = MappingProxyType({})
    following: frozenset[int] = frozenset()
    atomics: Mapping[int, str] = MappingProxyType({})


def rewrite_accesses(module: Module) -> Rewritten:
    """Rewrites a module without calls in place."""
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
    remove_dead_code(kernel, lambda op: op.name in (CHECK, "tt.return"))
    numbers = _numbered(module)
    following = (
        numbers[op]
        for op in kernel.walk()
        if is_access(op) and any(map(is_access, operations_behind([op.address])))
    )
    kinds = {numbers[op]: kind for op, kind in stand_ins.items()}
    atomics = {numbers[op]: _accessed(op) for op, kind in stand_ins.items() if kind == "atomic"}
    return Rewritten(kinds, frozenset(following), atomics)


def elements_of_atomics(module: Module) -> dict[int, str]:
    """MLIR's name of the element type of each atomic operation, by its index in the module."""
    return {n: _accessed(op) for op, n in _numbered(module).items() if kind_of(op) == "atomic"}


def _accessed(op: Operation) -> str:
    pointer = element_of(op.address.type)
    assert isinstance(pointer, PointerType)
    return str(pointer.pointee)


def _numbered(module: Module) -> dict[Operation, int]:
    every = (op for function in module.functions.values() for op in function.walk())
    return {op: number for number, op in enumerate(every)}


def _load(b: Builder, pointer: Value, masks: list[Value]) -> Operation:
    pointee = element_of(pointer.type)
    assert isinstance(pointee, PointerType)
    type = with_element(pointer.type, pointee.pointee)
    sizes = (1, len(masks), 0)
    return b.operation("tt.load", [pointer, *masks], [type], {"operandSegmentSizes": sizes})


#: Bits of floats that can be compared.
_NARROWEST_COMPARED = 16


def _use(b: Builder, value: Value) -> None:
    """Keeps a value needed without any consequence."""
    element = element_of(value.type)
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
