"""Synchronising accesses: flags that describe how they order programs, and their log.

The log has the order in which the accesses take effect. Triton's atomics are acquire-release unless
they have the argument `sem`. An acquire counts only if the program uses the result, or has read the
word before: a program that does not look at the value cannot rely on an order. A volatile load
returns a value that other programs may have written, but orders nothing, because it is a relaxed
load in PTX.
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
        flags: The flags of the event, an i32, which may depend on the result of the access.
        value: The value that the access returns. After the access has been logged, this is the
            value that the observer has chosen, see `abi/reread_values.py`.
    """

    flags: SSAValue
    value: SSAValue | None = None


def access_flags(op: Operation) -> int:
    """Return the bits of `ProbeSite.flags` of a memory access."""
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
        return flags | IS_LOCAL  # does not order programs
    flags |= 0 if op.has(WRITES) else IS_STRONG
    flags |= LOOKS if used else 0
    if order in ("acquire", "acq_rel"):
        flags |= ACQUIRES if used else BLIND
    flags |= RELEASES if order in ("release", "acq_rel") else 0
    # A scalar result reaches all threads of the program through a barrier. The barriers of atomic
    # loads and stores are recorded separately, see `has_barrier_before`.
    return flags | (IMPLIES_BARRIER if changes and scalar and used else 0)


def has_barrier_before(op: Operation) -> bool:
    """Return whether the program's threads wait for each other before an atomic load or store.

    Triton 3.9, the first version with these operations, emits `bar.sync` before a release, after an
    acquire, and after a load whose scalar result all threads need.
    """
    return op.attributes["sem"] == "release"


def has_barrier_behind(op: Operation) -> bool:
    """Return whether the program's threads wait for each other after an atomic load or store."""
    scalar = not shape_of(op.operands[0].type)
    used = any(result.uses for result in op.results)
    return op.attributes["sem"] == "acquire" or (scalar and used)


def synchronises_programs(module: Module) -> bool:
    """Return whether a kernel has operations through which programs can observe each other."""
    accesses = {
        (op.name, access_flags(op)) for op in module.walk() if op.has(LOADS) or op.has(ATOMIC)
    }
    # A volatile or relaxed load orders nothing, but a program can use it to wait for another
    # program.
    if any(
        flags & ACQUIRES or (flags & LOOKS and (name == "tt.load" or flags & IS_STRONG))
        for name, flags in accesses
    ):
        return True
    polls = any(flags & LOOKS and flags & REREADS for _, flags in accesses)
    return polls and any(flags & BLIND and flags & IS_SCALAR for _, flags in accesses)


@contextmanager
def ordered(e: Emitter, op: Operation, site: int, address: Chunk) -> Iterator[Logged]:
    """Emit an access under a lock, so that accesses take effect in the order of the log.

    Args:
        site: The number of the access's site.
        address: The address of the access's only element.

    Yields:
        The access; the caller must set its `value`.
    """
    prober = e.prober
    flags = access_flags(op)
    access = Logged(integer(flags, "i32"))
    logged = prober is not None and prober.instruments.synchronised and address.width == 1
    if not logged:
        yield access
        return
    call(e.b, "lock")
    yield access
    value = access.value
    whole = value is not None and value.type in _INTEGERS
    word = _resized(e, value, "i64") if value is not None and whole else integer(0, "i64")
    arguments = integer(site, "i32"), e.vector(address), access.flags, word
    reread = call(e.b, "synchronise", *arguments, returns="i64")
    if value is not None and whole and flags & REREADS:
        access.value = _resized(e, reread, value.type)


def _resized(e: Emitter, value: SSAValue, type: str) -> SSAValue:
    """Return an integer truncated or zero-extended to a type."""
    if value.type == type:
        return value
    return e.b.cast("trunc" if value.type == "i64" else "zext", value, type)
