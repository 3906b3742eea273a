"""Atomics as events: which of them order programs, and logging them in the order of their effects.

Triton's atomics are acquire-release unless `sem=` says otherwise. An acquire counts only where the
result is used: a program that does not look at it cannot rely on the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ttools.interpreter.abi.probe_layout import (
    ACQUIRES,
    IMPLIES_BARRIER,
    IS_LOCAL,
    IS_SCALAR,
    READS_AND_WRITES,
    RELEASES,
)
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.probe import call
from ttools.interpreter.ir import Module, Operation, shape_of
from ttools.interpreter.llvm.value import SSAValue, integer
from ttools.interpreter.tiles.chunk import Chunk

_ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas")


def access_flags(op: Operation) -> int:
    """The bits of `ProbeSite.flags` of a memory access."""
    scalar = 0 if shape_of(op.operands[0].type) else IS_SCALAR
    if op.name == "tt.load":
        return scalar | (ACQUIRES if op.attributes.get("isVolatile") else 0)
    if op.name not in _ATOMICS:
        return scalar
    order, used = str(op.attributes["sem"]), bool(op.result.uses)
    flags = scalar | READS_AND_WRITES
    if str(op.attributes.get("scope", "gpu")) == "cta":
        return flags | IS_LOCAL  # orders nothing between programs
    flags |= ACQUIRES if used and order in ("acquire", "acq_rel") else 0
    flags |= RELEASES if order in ("release", "acq_rel") else 0
    # A scalar's result reaches all threads of the program through a barrier.
    return flags | (IMPLIES_BARRIER if scalar and used else 0)


def synchronises_programs(module: Module) -> bool:
    """Whether a kernel has anything by which one program could learn of another."""
    return any(
        access_flags(op) & ACQUIRES
        for function in module.functions.values()
        for op in function.walk()
        if op.name == "tt.load" or op.name in _ATOMICS
    )


@contextmanager
def ordered(
    e: Emitter, op: Operation, site: int, address: Chunk, flags: SSAValue | None = None
) -> Iterator[list[SSAValue]]:
    """Emits an access so that the log has it in the order of its effect.

    Args:
        op: the access.
        site: its number.
        address: of the one element it accesses.
        flags: an i32; by default what `access_flags` says. The yielded list may be given another,
            known only after the access.
    """
    prober = e.prober
    known = access_flags(op)
    chosen = [flags or integer(known, "i32")]
    logged = prober is not None and prober.instruments.synchronised and address.width == 1
    if not logged:
        yield chosen
        return
    call(e.b, "lock")
    yield chosen
    call(e.b, "synchronise", integer(site, "i32"), e.vector(address), chosen[-1])
