"""Separators in the access log of kernels that may store to memory that they have loaded.

The race check needs the order of the accesses of a program. In straight-line code, it is the order
of the operations. In addition, two kinds of events are logged: the beginning of a new iteration of
a loop, and operations at which the threads of a program exchange values, such as reductions,
because the threads wait for each other there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard

from ttools.interpreter.abi.probe_layout import IMPLIES_BARRIER
from ttools.interpreter.analysis.dependence import computed_from, deciding
from ttools.interpreter.analysis.effects import exchanges_values
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.probe import SHADOW, Prober, call
from ttools.interpreter.emit.instruments.synchronisation import access_flags
from ttools.interpreter.llvm.value import integer
from ttools.ir import Operation
from ttools.ir.dialects.traits import CALL, LOADS, WRITES

#: The largest number of iterations between two cross-thread operations that the log can count,
#: minus 1.
_STRETCH = 0xFFFF


def mark_cross_thread(e: Emitter, function: Operation) -> None:
    """Log each operation at which the threads of a program wait for each other.

    This is only done in functions that may store to memory that they have loaded. The separator is
    logged at the operation's position in the program. A load may be executed later than its own
    position, so a load that precedes the operation in the kernel may follow it in the log.
    """
    if not _logs_unordered(e.prober) or not _updates(e.prober, function):
        return
    holds = _between(e.prober, function)
    for op in function.walk():
        if exchanges_values(op) and holds(op):
            e.afterwards[op] = lambda: _pass(e, _STRETCH)
        elif op.has(WRITES) and access_flags(op) & IMPLIES_BARRIER:
            e.afterwards[op] = lambda: _pass_barrier(e)


def _between(prober: Prober, function: Operation) -> Callable[[Operation], bool]:
    """Return a predicate for exchanges that keep a load before a store to the same memory.

    Such an exchange depends on the loaded values, and the store depends on the exchange. A compiler
    may move any other exchange before the load or after the store. In functions that call others or
    are called, the predicate is True for all exchanges.
    """
    ops = list(function.walk())
    if any(op.has(CALL) for op in ops) or function.attributes.get("visibility") == "private":
        return lambda exchange: True
    loads = [op for op in ops if _is_load(op)]
    stores = [op for op in ops if op.has(WRITES) and _meets(prober, op, loads)]
    met = {op for op in loads if any(_meets(prober, store, [op]) for store in stores)}
    used = computed_from(v for op in stores for v in (*op.operands, *deciding(op)))
    return lambda exchange: (
        exchange in used and not met.isdisjoint(computed_from(exchange.operands))
    )


def end_iteration(e: Emitter, loop: Operation) -> None:
    """Emit, at the end of an iteration, the separator from the accesses of the next iteration."""
    if _logs_unordered(e.prober) and _updates(e.prober, loop):
        _pass(e, 0)


def _pass(e: Emitter, fill: int) -> None:
    call(e.b, "pass_iteration", integer(fill, "i32"))


def _pass_barrier(e: Emitter) -> None:
    call(e.b, "pass_barrier")


def _logs_unordered(prober: Prober | None) -> TypeGuard[Prober]:
    if prober is None:
        return False
    return prober.instruments.footprints and not prober.instruments.synchronised


def _updates(prober: Prober, body: Operation) -> bool:
    """Return whether a store may change memory from which an operation before it has loaded."""
    loaded: list[Operation] = []
    for op in body.walk():
        if _is_load(op):
            loaded.append(op)
        elif op.has(WRITES) and not op.attributes.get(SHADOW) and _meets(prober, op, loaded):
            return True
    return False


def _is_load(op: Operation) -> bool:
    """Return whether an operation is a load of the user's kernel."""
    return op.has(LOADS) and not op.attributes.get(SHADOW)


def _meets(prober: Prober, store: Operation, loads: Sequence[Operation]) -> bool:
    pointer = store.address
    return any(
        prober.may_share(pointer, load.address)
        for load in loads
        if pointer.is_tensor or load.address.is_tensor
    )
