"""Finds scalar atomics whose memory order is too weak to synchronise programs.

A program that uses the result of a scalar atomic learns what other programs have done; it needs
`acquire` to see their earlier writes. A program that writes a word which other programs read by
atomics signals its own progress; it needs `release`. Volatile loads have no memory order at all. A
race report lists these atomics, because they often cause the race.
"""

from __future__ import annotations

from dataclasses import dataclass

from ttools.core.location import SourceLocation
from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import Module, Operation, shape_of
from ttools.ir.dialects.traits import ATOMIC, LOADS, WRITES
from ttools.sanitizer.analysis.dataflow import constant_of

_COUNTING = ("add", "fadd", "umax", "max")
_ACQUIRING = ("acquire", "acq_rel")
_RELEASING = ("release", "acq_rel")
#: The memory order to pass as `sem`, by the order that an atomic lacks.
ORDERS = {"acquire": "acquire", "release": "release", "acquire and release": "acq_rel"}
_ACQUIRING_ATOMIC = "be an atomic that acquires"


@dataclass(frozen=True)
class WeakAtomic:
    """An atomic whose memory order is too weak, or a volatile load, which has no order.

    Attributes:
        order: Value of its `sem` attribute; empty for a volatile load.
        lacks: Missing order: `acquire`, `release` or `acquire and release`. For a volatile load,
            the text `be an atomic that acquires`.
    """

    location: SourceLocation
    order: str
    lacks: str


def weak_atomics(module: Module) -> tuple[WeakAtomic, ...]:
    """Return the weak atomics of a kernel, in program order.

    Args:
        module: A module without calls.
    """
    provenance = Provenance(module.kernel)
    atomics = [
        op
        for op in module.kernel.walk()
        if (op.has(ATOMIC) or _is_volatile(op)) and not shape_of(op.operands[0].type)
    ]
    looked_at = {root for op in atomics if _is_used(op) for root in provenance.of(op.operands[0])}
    weak = []
    for op in atomics:
        if _is_volatile(op):
            if op.location is not None:
                weak.append(WeakAtomic(op.location, "", _ACQUIRING_ATOMIC))
            continue
        order = str(op.attributes["sem"])
        lacking = _lacking(op, order, bool(provenance.of(op.operands[0]) & looked_at))
        if lacking and op.location is not None:
            weak.append(WeakAtomic(op.location, order, lacking))
    return tuple(weak)


def _is_used(op: Operation) -> bool:
    return any(result.uses for result in op.results)


def _is_volatile(op: Operation) -> bool:
    return op.has(LOADS) and bool(op.attributes.get("isVolatile"))


def _lacking(op: Operation, order: str, is_looked_at: bool) -> str:
    """Return the order that an atomic lacks; `""` if it lacks none.

    Args:
        is_looked_at: True if the result of some scalar atomic on the same storage is used.
    """
    wanted = []
    if _is_used(op) and order not in _ACQUIRING:
        wanted.append("acquire")
    signals = op.has(WRITES) and (not _is_used(op) or _counts(op))
    if is_looked_at and order not in _RELEASING and signals:
        wanted.append("release")
    return " and ".join(wanted)


def _counts(op: Operation) -> bool:
    """Return whether an atomic increments or raises a counter, which signals progress."""
    if op.attributes.get("atomic_rmw_op") not in _COUNTING:
        return False
    added = constant_of(op.operands[1])
    return added is None or any(added.bits)
