"""Accesses that look as if they ordered programs, and do not: relaxed, or ordering one way only.

A program learns of others where it looks at the result of a scalar atomic; others learn of it by
what it writes to a word that another program reads. Must not know what races because of it.
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
_ACQUIRING_ATOMIC = "be an atomic that acquires"


@dataclass(frozen=True)
class WeakAtomic:
    """An atomic that lacks an order, or a volatile load, which has none.

    Attributes:
        order: its `sem`; empty for a volatile load.
        lacks: `acquire`, `release` or `acquire and release`, or what it would have to be.
    """

    location: SourceLocation
    order: str
    lacks: str


def weak_atomics(module: Module) -> tuple[WeakAtomic, ...]:
    """In the order of the kernel.

    Args:
        module: a module without calls.
    """
    provenance = Provenance(module.kernel)
    atomics = [
        op
        for op in module.kernel.walk()
        if (op.has(ATOMIC) or _is_volatile(op)) and not shape_of(op.operands[0].type)
    ]
    looked_at = {root for op in atomics if _is_used(op) for root in provenance.of(op.operands[0])}
    found = []
    for op in atomics:
        if _is_volatile(op):
            if op.location is not None:
                found.append(WeakAtomic(op.location, "", _ACQUIRING_ATOMIC))
            continue
        order = str(op.attributes["sem"])
        lacking = _lacking(op, order, bool(provenance.of(op.operands[0]) & looked_at))
        if lacking and op.location is not None:
            found.append(WeakAtomic(op.location, order, lacking))
    return tuple(found)


def _is_used(op: Operation) -> bool:
    return any(result.uses for result in op.results)


def _is_volatile(op: Operation) -> bool:
    return op.has(LOADS) and bool(op.attributes.get("isVolatile"))


def _lacking(op: Operation, order: str, is_looked_at: bool) -> str:
    """What an atomic would have to do, too; `""` if nothing."""
    wanted = []
    if _is_used(op) and order not in _ACQUIRING:
        wanted.append("acquire")
    signals = op.has(WRITES) and (not _is_used(op) or _counts(op))
    if is_looked_at and order not in _RELEASING and signals:
        wanted.append("release")
    return " and ".join(wanted)


def _counts(op: Operation) -> bool:
    """Whether an atomic signals that its program has come this far, and reads how many have."""
    if op.attributes.get("atomic_rmw_op") not in _COUNTING:
        return False
    added = constant_of(op.operands[1])
    return added is None or any(added.bits)
