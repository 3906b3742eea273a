"""Loops whose iterations the log of accesses separates: they may read what they wrote before.

There the order of the operations in the kernel is not the order of what they do. Must not know what
comes of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttools.interpreter.abi.probe_layout import IMPLIES_BARRIER
from ttools.interpreter.dialects.traits import CROSS_THREAD, LOOP, WRITES
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.probe import SHADOW, Prober, call
from ttools.interpreter.emit.instruments.synchronisation import access_flags
from ttools.interpreter.ir import Operation
from ttools.interpreter.llvm.value import integer

#: Iterations between two cross-thread operations, less one, of those that the log can count.
_STRETCH = 0xFFFF


def mark_cross_thread(e: Emitter, function: Operation) -> None:
    """Has every cross-thread operation separate what comes before it, if iterations count.

    One is passed where it stands in the kernel. A load is made there or later, so that more of them
    may seem to lie before it than do.
    """
    walked = list(function.walk())
    if any(op.has(LOOP) and _are_told(e, op) for op in walked):
        for op in walked:
            if op.has(CROSS_THREAD):
                e.afterwards[op] = lambda: _pass(e, _STRETCH)


def end_iteration(e: Emitter, loop: Operation) -> None:
    """Emits, where an iteration of a loop ends, what sets the accesses of the next one apart."""
    if _are_told(e, loop):
        _pass(e, 0)


def _pass(e: Emitter, fill: int) -> None:
    call(e.b, "pass_iteration", integer(fill, "i32"))


def _are_told(e: Emitter, loop: Operation) -> bool:
    prober = e.prober
    if prober is None or not prober.instruments.footprints or prober.instruments.synchronised:
        return False
    return _reloads(prober, loop)


def _reloads(prober: Prober, loop: Operation) -> bool:
    """Whether a load may meet a later store of the iteration before, and nothing holds threads up.

    That is, whatever is cross-thread in the loop lies between the two.
    """
    walked = list(loop.walk())
    crossing = [n for n, op in enumerate(walked) if op.has(CROSS_THREAD)]
    first, last = (crossing[0], crossing[-1]) if crossing else (len(walked), -1)
    loaded: list[Operation] = []
    found = False
    for n, op in enumerate(walked):
        if op.has(WRITES) and access_flags(op) & IMPLIES_BARRIER:
            return False
        if op.attributes.get(SHADOW):
            continue
        if op.name == "tt.load" and n < first:
            loaded.append(op)
        elif op.has(WRITES) and n > last:
            found = found or _meets(prober, op, loaded)
    return found


def _meets(prober: Prober, store: Operation, loads: Sequence[Operation]) -> bool:
    pointer = store.address
    return any(
        prober.may_share(pointer, load.address)
        for load in loads
        if pointer.is_tensor or load.address.is_tensor
    )
