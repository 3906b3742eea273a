"""Analysis of the parameters, and of the memory, that decide the work of a launch.

Loops, branches, masks and addresses are kept, and everything that they do not need is removed. The
remaining inputs decide: two launches with equal values of these do the same work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ttools.core.errors import TtoolsError
from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import IntegerType, Module, Operation, PointerType, Value, element_type
from ttools.ir.dead_code import remove_dead_code
from ttools.ir.inlining import inline_calls
from ttools.ir.nesting import blocks_within
from ttools.ir.parser import parse_module
from ttools.ir.rewriting import BOOLEAN, Builder, Rewriter, with_element
from ttools.profiler.counting.rewrite import CHECK, is_mask, kind_of

#: Operations that make block pointers and descriptors.
_MAKERS = ("tt.make_tensor_", "tt.experimental_")


@dataclass(frozen=True, kw_only=True)
class Decisive:
    """The inputs that decide the work of a launch, besides its grid.

    Attributes:
        numbers: Indices of the parameters that matter and are no pointers.
        memory: True if the contents of memory matter, even if only for addresses.
        alike: Pointers whose overlap matters, because several are read, or several written.
        read: Pointers through which the deciding memory is read; None if they are unknown, as when
            the kernel loads a pointer.
    """

    numbers: tuple[int, ...]
    memory: bool
    alike: tuple[int, ...]
    read: tuple[int, ...] | None = ()


@lru_cache(maxsize=256)
def decisive_of(ttir: str) -> Decisive | None:
    """Return the deciding inputs of a module's text; None also if it cannot be read."""
    try:
        return decisive(parse_module(ttir))
    except TtoolsError:
        return None


def decisive(module: Module) -> Decisive | None:
    """Rewrite a module in place, and return the inputs that decide its work.

    Returns:
        None if it has recursive calls, or accesses other than through plain pointers.
    """
    kernel = module.kernel
    if inline_calls(module) or any(_goes_by_descriptor(op) for op in kernel.walk()):
        return None
    alike = _alike(kernel)
    rewriter = Rewriter()
    for block in blocks_within(kernel.regions[0]):  # every loop and branch stays, also empty ones
        b = rewriter.start(block)
        _check(b, b.constant(BOOLEAN, 1))
    for op in list(kernel.walk()):
        if kind_of(op) is None:
            continue
        b = rewriter.before(op)
        _need(b, op.address)
        if op.mask is not None and is_mask(op.mask):
            _check(b, op.mask)
    rewriter.apply()
    remove_dead_code(kernel, lambda op: op.name in (CHECK, "tt.return"))
    arguments = kernel.regions[0].entry.arguments
    provenance = Provenance(kernel)
    left = [op for op in kernel.walk() if kind_of(op) is not None]
    read = set().union(*(provenance.of(op.address) for op in left))
    return Decisive(
        numbers=tuple(
            index
            for index, value in enumerate(arguments)
            if value.uses and not isinstance(element_type(value.type), PointerType)
        ),
        memory=bool(left),
        alike=alike,
        read=None if None in read else tuple(sorted(n for n in read if n is not None)),
    )


def _goes_by_descriptor(op: Operation) -> bool:
    return op.name.startswith(_MAKERS) or op.operand("desc") is not None


def _need(b: Builder, pointer: Value) -> None:
    address = b.cast(pointer, IntegerType(64), "tt.ptr_to_int")
    type = with_element(address.type, BOOLEAN)
    _check(b, b.value("arith.cmpi", [address, address], type, {"predicate": "ne"}))


def _check(b: Builder, condition: Value) -> None:
    b.operation(CHECK, [condition], attributes={"check": "decisive", "names": (), "message": ""})


def _alike(kernel: Operation) -> tuple[int, ...]:
    """Return pointers whose overlap matters: reads and writes are counted separately."""
    provenance = Provenance(kernel)
    groups: dict[bool, set[int]] = {True: set(), False: set()}
    for op in kernel.walk():
        if (kind := kind_of(op)) is not None:
            sources = provenance.of(op.address)
            groups[kind == "load"] |= {s for s in sources if s is not None}
    return tuple(sorted(set().union(*(group for group in groups.values() if len(group) > 1))))
