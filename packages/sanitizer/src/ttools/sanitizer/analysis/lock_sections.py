"""Kernels that do the same in every order of their programs, but for what a lock protects.

Such a kernel takes locks by `while tl.atomic_cas(lock, a, b) == b` and gives each back in the same
block, by `tl.atomic_xchg(lock, a)`, tiles being behind a barrier then. What it has loaded from
memory that programs write decides no address. It may decide whether an access is made, but only
while a lock is held, and where another access to the same elements is made in any case. So what
programs touch in one order, and under which lock, bounds what they touch in any other. Must not
know records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ttools.interpreter.analysis.dependence import computed_from, deciding
from ttools.interpreter.analysis.effects import Provenance, loads_unwritten
from ttools.interpreter.analysis.positions import Position, position_of
from ttools.ir import Module, Operation, PointerType, TensorType, Value
from ttools.ir.dataflow import reachable
from ttools.ir.dialects.traits import (
    BARRIER,
    BRANCH,
    EFFECT,
    FUNCTION,
    LOOP,
    PURE,
    READS,
    STRUCTURED,
    TERMINATOR,
    WRITES,
)
from ttools.sanitizer.analysis.dataflow import constant_of, operations

_KNOWN = (PURE, BARRIER, EFFECT, STRUCTURED, LOOP, TERMINATOR, BRANCH, FUNCTION)


@dataclass(frozen=True)
class LockSections:
    """Where a kernel takes its locks, and where it gives them back.

    Attributes:
        takes: places of compare-and-swaps that wait for a lock.
        gives: places of exchanges.
    """

    takes: frozenset[Position]
    gives: frozenset[Position]


@dataclass(frozen=True, eq=False)
class _Section:
    """What a program does while it holds a lock: operations of one block."""

    loop: Operation
    take: Operation
    give: Operation
    inside: tuple[Operation, ...]


def lock_sections(module: Module, readonly: frozenset[int]) -> LockSections | None:
    """The sections of a kernel that does the same in every order, as above; None for any other.

    Args:
        module: a module without calls.
        readonly: parameters whose storages no program of the launch writes.
    """
    everything = list(operations(module.kernel))
    sections = [found for op in everything if op.has(LOOP) and (found := _section(op))]
    if not sections or not all(_is_known(op) for op in everything):
        return None
    provenance = Provenance(module.kernel)
    shared = {
        op
        for op in everything
        if op.has(READS, WRITES) and not loads_unwritten(op, readonly, provenance)
    }
    section_of = {op: each for each in sections for top in each.inside for op in top.walk()}
    swaps = {each.take: each.loop for each in sections} | {
        each.give: each.give for each in sections
    }
    if any(each.loop in section_of for each in sections):
        return None  # a lock is taken while another one is held

    def varies(values: Iterable[Value]) -> bool:
        """Whether values depend on what programs have done before."""
        return not shared.isdisjoint(computed_from(values))

    for op in shared:
        mask = [] if op.mask is None else [op.mask]
        if varies([op.address, *mask]):
            return None
        if varies(deciding(swaps.get(op, op))):
            section = section_of.get(op)
            if section is None or op in swaps or not _is_made_anyway(op, section, shared):
                return None
    if not all(_is_behind_barrier(each, shared) for each in sections):
        return None
    return _places(sections, shared - set(swaps))


def _is_known(op: Operation) -> bool:
    if op.has(READS, WRITES):
        return op.operand("ptr") is not None
    return op.has(*_KNOWN)


def _section(loop: Operation) -> _Section | None:
    """The section that begins behind a loop, if that waits for a lock."""
    accesses = [op for op in operations(loop) if op.has(READS, WRITES)]
    take, block = accesses[0] if accesses else loop, loop.parent
    swapped = take.operand("cmp"), take.operand("val")
    if len(accesses) != 1 or block is None or None in swapped or not _orders(take, "acquire"):
        return None
    free, taken = (_number(value) for value in swapped)
    if free is None or taken is None or free == taken or _awaited(loop, take, free) != taken:
        return None
    behind = block.operations[block.operations.index(loop) + 1 :]
    for n, op in enumerate(behind):
        if _gives_back(op, free):
            return _Section(loop, take, op, tuple(behind[:n]))
    return None


def _orders(op: Operation, how: str) -> bool:
    """Whether a scalar atomic orders programs so."""
    scope = str(op.attributes.get("scope", "gpu"))
    return not op.result.is_tensor and scope != "cta" and op.attributes["sem"] in (how, "acq_rel")


def _awaited(loop: Operation, take: Operation, free: int) -> int | None:
    """The value of the word that keeps a loop waiting, where any other one ends it."""
    terminator = loop.regions[0].entry.terminator
    condition = terminator.operand("condition")
    test = None if condition is None else condition.defining_op
    if test is None or take.parent is not terminator.parent or "predicate" not in test.attributes:
        return None
    numbers = [_number(value) for value in test.operands if value is not take.result]
    if len(numbers) != 1:
        return None
    if test.attributes["predicate"] == "ne" and numbers == [free]:
        return _number(take.operand("val"))
    return numbers[0] if test.attributes["predicate"] == "eq" else None


def _gives_back(op: Operation, free: int) -> bool:
    if op.attributes.get("atomic_rmw_op") != "exch" or not _orders(op, "release"):
        return False
    return _number(op.operand("val")) == free and (op.mask is None or _number(op.mask) == 1)


def _number(value: Value | None) -> int | None:
    constant = None if value is None else constant_of(value)
    return constant.bits[0] if constant is not None and constant.is_splat else None


def _is_made_anyway(op: Operation, section: _Section, shared: set[Operation]) -> bool:
    """Whether the elements of an access are accessed in its section whatever was loaded."""
    return any(
        other in shared
        and _equal(other.address, op.address)
        and (other.mask is None or (op.mask is not None and _equal(other.mask, op.mask)))
        for other in section.inside
    )


def _equal(one: Value, other: Value) -> bool:
    """Whether two values are computed in the same way from the same values."""

    def operands(pair: tuple[Value, Value]) -> Iterable[tuple[Value, Value]]:
        x, y = (value.defining_op for value in pair)
        return zip(x.operands, y.operands, strict=True) if x and y and x is not y else ()

    def is_alike(a: Value, b: Value) -> bool:
        x, y = a.defining_op, b.defining_op
        if x is None or y is None or x.name != y.name or x.attributes != y.attributes:
            return False
        alike = a.type == b.type and a.index == b.index and len(x.operands) == len(y.operands)
        return alike and x.has(PURE) and not x.regions

    return all(a is b or is_alike(a, b) for a, b in reachable([(one, other)], operands))


def _is_behind_barrier(section: _Section, shared: set[Operation]) -> bool:
    """Whether all threads have made their accesses when a lock is given back."""
    for op in reversed(section.inside):
        if op.has(BARRIER):
            return True
        if any(each in shared and _is_tile(each.address) for each in op.walk()):
            return False
    return True


def _is_tile(address: Value) -> bool:
    pointer = address.type
    return not isinstance(pointer, PointerType) or isinstance(pointer.pointee, TensorType)


def _places(sections: Iterable[_Section], others: set[Operation]) -> LockSections | None:
    """Where the locks are taken and given back, if nothing else is done there."""
    takes = {position_of(each.take.location) for each in sections}
    gives = {position_of(each.give.location) for each in sections}
    elsewhere = {position_of(op.location) for op in others}
    if None in takes | gives or takes & gives or (takes | gives) & elsewhere:
        return None
    return LockSections(frozenset(filter(None, takes)), frozenset(filter(None, gives)))
