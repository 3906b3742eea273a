"""Atomics as events: which of them order programs, and logging them in the order of their effects.

Triton's atomics are acquire-release unless `sem=` says otherwise. An acquire counts only where the
result is used, or the program has looked at the word before: one that does not look cannot rely on
the order. A volatile load looks and orders nothing: to PTX it is a relaxed one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ttools.interpreter.abi.probe_layout import (
    ACQUIRES,
    BLIND,
    IMPLIES_BARRIER,
    IS_LOCAL,
    IS_SCALAR,
    IS_STRONG,
    LOOKS,
    OVERWRITES,
    READS_AND_WRITES,
    RELEASES,
    REREADS,
)
from ttools.interpreter.analysis.effects import only_reads
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.probe import call
from ttools.interpreter.llvm.value import SSAValue, integer
from ttools.interpreter.tiles.chunk import Chunk
from ttools.ir import Module, Operation, shape_of
from ttools.ir.dialects.traits import ATOMIC, LOADS, READS, WRITES

_INTEGERS = ("i8", "i16", "i32", "i64")


@dataclass
class Logged:
    """A synchronising access while it is emitted.

    Attributes:
        flags: of the event, an i32, which may be known only after the access.
        value: what it returns; once it is logged, what it has to have seen.
    """

    flags: SSAValue
    value: SSAValue | None = None


def access_flags(op: Operation) -> int:
    """The bits of `ProbeSite.flags` of a memory access."""
    scalar = 0 if shape_of(op.operands[0].type) else IS_SCALAR
    scalar |= REREADS if only_reads(op) else 0
    if op.has(LOADS):
        return scalar | (LOOKS if op.attributes.get("isVolatile") else 0)
    if not op.has(ATOMIC):
        return scalar
    order, used = str(op.attributes["sem"]), any(result.uses for result in op.results)
    changes = op.has(READS) and op.has(WRITES)
    flags = scalar | (READS_AND_WRITES if changes else OVERWRITES if op.has(WRITES) else 0)
    if str(op.attributes.get("scope", "gpu")) == "cta":
        return flags | IS_LOCAL  # orders nothing between programs
    flags |= 0 if op.has(WRITES) else IS_STRONG
    flags |= LOOKS if used else 0
    if order in ("acquire", "acq_rel"):
        flags |= ACQUIRES if used else BLIND
    flags |= RELEASES if order in ("release", "acq_rel") else 0
    # A scalar's result reaches all threads of the program through a barrier. Those of loads and
    # stores are passed apart, see `has_barrier_before`.
    return flags | (IMPLIES_BARRIER if changes and scalar and used else 0)


def has_barrier_before(op: Operation) -> bool:
    """Return whether an atomic load or store makes the program's threads wait for each other first.

    Triton 3.9, the first with these operations, puts `bar.sync` before a release and behind an
    acquire, and behind a load whose scalar result all threads need.
    """
    return op.attributes["sem"] == "release"


def has_barrier_behind(op: Operation) -> bool:
    """Return whether it does so afterwards; see `has_barrier_before`."""
    scalar = not shape_of(op.operands[0].type)
    used = any(result.uses for result in op.results)
    return op.attributes["sem"] == "acquire" or (scalar and used)


def synchronises_programs(module: Module) -> bool:
    """Whether a kernel has anything by which one program could learn of another."""
    known = {
        (op.name, access_flags(op))
        for function in module.functions.values()
        for op in function.walk()
        if op.has(LOADS) or op.has(ATOMIC)
    }
    # A volatile or relaxed load orders nothing, but who waits by one waits.
    if any(
        flags & ACQUIRES or (flags & LOOKS and (name == "tt.load" or flags & IS_STRONG))
        for name, flags in known
    ):
        return True
    polls = any(flags & LOOKS and flags & REREADS for _, flags in known)
    return polls and any(flags & BLIND and flags & IS_SCALAR for _, flags in known)


@contextmanager
def ordered(e: Emitter, op: Operation, site: int, address: Chunk) -> Iterator[Logged]:
    """Emits an access so that the log has it in the order of its effect.

    Args:
        op: the access.
        site: its number.
        address: of the one element it accesses.

    Yields:
        What is to be given the value.
    """
    prober = e.prober
    known = access_flags(op)
    access = Logged(integer(known, "i32"))
    logged = prober is not None and prober.instruments.synchronised and address.width == 1
    if not logged:
        yield access
        return
    call(e.b, "lock")
    yield access
    seen = access.value
    whole = seen is not None and seen.type in _INTEGERS
    word = _resized(e, seen, "i64") if seen is not None and whole else integer(0, "i64")
    arguments = integer(site, "i32"), e.vector(address), access.flags, word
    reread = call(e.b, "synchronise", *arguments, returns="i64")
    if seen is not None and whole and known & REREADS:
        access.value = _resized(e, reread, seen.type)


def _resized(e: Emitter, value: SSAValue, type: str) -> SSAValue:
    """An integer with as many bits as `type` says, new ones being 0."""
    if value.type == type:
        return value
    return e.b.cast("trunc" if value.type == "i64" else "zext", value, type)
