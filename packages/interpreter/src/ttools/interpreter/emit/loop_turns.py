"""Loops whose turns the log of accesses tells apart: those that may read what they wrote before.

There the order of the operations in the kernel is not the order of what they do. Must not know what
comes of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.probe import SHADOW, Prober, call
from ttools.interpreter.emit.probe_layout import IMPLIES_BARRIER
from ttools.interpreter.emit.synchronisation import access_flags
from ttools.interpreter.ir import Operation

_WRITES = frozenset({"tt.store", "tt.atomic_rmw", "tt.atomic_cas"})
#: Where threads give each other values a GPU lets them wait for each other, as a rule.
_EXCHANGES = re.compile(
    r"tt\.(reduce|scan|dot|dot_scaled|histogram|gather|trans|reshape|cat|join|split|call)"
)


def end_turn(e: Emitter, loop: Operation) -> None:
    """Emits, where a turn of a loop ends, what sets the accesses of the next one apart."""
    prober = e.prober
    if prober is None or not prober.instruments.footprints or prober.instruments.synchronised:
        return
    if _reloads(prober, loop):
        call(e.b, "pass_turn", "void")


def _reloads(prober: Prober, loop: Operation) -> bool:
    """Whether a load may meet a later store of the turn before, and nothing holds threads up."""
    loaded: list[Operation] = []
    found = False
    for op in loop.walk():
        if _EXCHANGES.fullmatch(op.name):
            return False
        if op.name in _WRITES and access_flags(op) & IMPLIES_BARRIER:
            return False
        if op.attributes.get(SHADOW):
            continue
        if op.name == "tt.load":
            loaded.append(op)
        elif op.name in _WRITES:
            found = found or _meets(prober, op, loaded)
    return found


def _meets(prober: Prober, store: Operation, loads: Sequence[Operation]) -> bool:
    pointer = store.operands[0]
    return any(
        prober.may_share(pointer, load.operands[0])
        for load in loads
        if pointer.is_tensor or load.operands[0].is_tensor
    )
