"""Recognises kernels whose accesses do not depend on the order of programs, except under a lock.

The result of a race check that has recorded one order of programs is valid for all orders only if
the order does not change which memory the programs access. With a lock, the order does matter: the
loop that takes the lock runs until another program releases it. This analysis recognises kernels in
which nothing else depends on the order. In the following kernel, each program adds its sums to
`out`, except for the first one, which overwrites it:

    while tl.atomic_cas(lock, 0, 1) == 1:  # takes the lock; the loop has no other access
        pass
    if tl.load(used) == 0:
        tl.atomic_xchg(used, 1)
    else:
        sums += tl.load(out + offsets)
    tl.store(out + offsets, sums)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)                # releases it, in the same block as the loop

The analysis accepts a kernel if

- each lock is taken by such a loop and released in the same block by an exchange, and no lock is
  taken while another one is held;
- addresses and masks do not depend on values loaded from memory that programs write;
- such a value may control whether an access runs, but only while the lock is held, and only if the
  section also accesses the same address unconditionally. In the example, the value of `used`
  controls whether `out` is loaded, but the store always accesses the same elements;
- a barrier separates the last access to a tile from the release, so that all threads have finished
  the access.

The accesses of one order, with the locks held at each, then cover those of every other order.
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
    """The positions at which a kernel takes and releases its locks.

    Attributes:
        takes: Positions of the compare-and-swaps that wait for a lock.
        gives: Positions of the exchanges that release a lock.
    """

    takes: frozenset[Position]
    gives: frozenset[Position]


@dataclass(frozen=True, eq=False)
class _Section:
    """The part of a block during which a program holds a lock.

    Attributes:
        loop: The loop that waits for the lock.
        take: The compare-and-swap in this loop.
        give: The exchange that releases the lock.
        inside: The operations of the block between the two.
    """

    loop: Operation
    take: Operation
    give: Operation
    inside: tuple[Operation, ...]


def lock_sections(module: Module, readonly: frozenset[int]) -> LockSections | None:
    """Return the lock sections of a kernel that the analysis accepts; None for any other kernel.

    Args:
        module: A module without calls.
        readonly: Indices of the parameters whose storages no program of the launch writes.
    """
    everything = list(operations(module.kernel))
    sections = [candidate for op in everything if op.has(LOOP) and (candidate := _section(op))]
    if not sections or not all(_is_known(op) for op in everything):
        return None
    provenance = Provenance(module.kernel)
    shared = {
        op
        for op in everything
        if op.has(READS, WRITES) and not loads_unwritten(op, readonly, provenance)
    }
    section_of = {op: part for part in sections for top in part.inside for op in top.walk()}
    swaps = {part.take: part.loop for part in sections} | {
        part.give: part.give for part in sections
    }
    if any(part.loop in section_of for part in sections):
        return None  # a lock is taken while another one is held

    def varies(values: Iterable[Value]) -> bool:
        """Return whether values depend on memory that programs of the launch write."""
        return not shared.isdisjoint(computed_from(values))

    for op in shared:
        mask = [] if op.mask is None else [op.mask]
        if varies([op.address, *mask]):
            return None
        if varies(deciding(swaps.get(op, op))):
            section = section_of.get(op)
            if section is None or op in swaps or not _is_accessed_anyway(op, section, shared):
                return None
    if not all(_is_behind_barrier(part, shared) for part in sections):
        return None
    return _places(sections, shared - set(swaps))


def _is_known(op: Operation) -> bool:
    if op.has(READS, WRITES):
        return op.operand("ptr") is not None
    return op.has(*_KNOWN)


def _section(loop: Operation) -> _Section | None:
    """Return the section that follows a loop, or None if the loop does not wait for a lock."""
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
    """Return whether an atomic has a memory order and can order accesses of different programs.

    It can do so if it is a scalar atomic whose scope is larger than the block.

    Args:
        how: The order: `acquire` or `release`; `acq_rel` includes both.
    """
    scope = str(op.attributes.get("scope", "gpu"))
    return not op.result.is_tensor and scope != "cta" and op.attributes["sem"] in (how, "acq_rel")


def _awaited(loop: Operation, take: Operation, free: int) -> int | None:
    """Return the lock value for which a loop continues; None if other values continue it, too.

    Args:
        take: The compare-and-swap of the loop.
        free: The value of a lock that is free, with which the compare-and-swap compares the lock.
    """
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
    """Return whether an operation is an exchange that stores the value of a free lock."""
    if op.attributes.get("atomic_rmw_op") != "exch" or not _orders(op, "release"):
        return False
    return _number(op.operand("val")) == free and (op.mask is None or _number(op.mask) == 1)


def _number(value: Value | None) -> int | None:
    constant = None if value is None else constant_of(value)
    return constant.bits[0] if constant is not None and constant.is_splat else None


def _is_accessed_anyway(op: Operation, section: _Section, shared: set[Operation]) -> bool:
    """Return whether the section also accesses the address of `op` in at least the same lanes.

    Only operations directly in the section's block count, because these run whenever the section
    does.
    """
    return any(
        other in shared
        and _equal(other.address, op.address)
        and (other.mask is None or (op.mask is not None and _equal(other.mask, op.mask)))
        for other in section.inside
    )


def _equal(one: Value, other: Value) -> bool:
    """Return whether two values are computed by the same pure operations from the same values."""

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
    """Return whether all threads have finished their accesses when the lock is released."""
    for op in reversed(section.inside):
        if op.has(BARRIER):
            return True
        if any(inner in shared and _is_tile(inner.address) for inner in op.walk()):
            return False
    return True


def _is_tile(address: Value) -> bool:
    pointer = address.type
    return not isinstance(pointer, PointerType) or isinstance(pointer.pointee, TensorType)


def _places(sections: Iterable[_Section], others: set[Operation]) -> LockSections | None:
    """Return the positions of the atomics; None if one is unknown or also has other accesses."""
    takes = {position_of(part.take.location) for part in sections}
    gives = {position_of(part.give.location) for part in sections}
    elsewhere = {position_of(op.location) for op in others}
    if None in takes | gives or takes & gives or (takes | gives) & elsewhere:
        return None
    return LockSections(frozenset(filter(None, takes)), frozenset(filter(None, gives)))
