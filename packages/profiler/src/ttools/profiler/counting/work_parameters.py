"""Determines the parameters and the memory on which the work of a launch depends.

The kernel is reduced to its loops, branches, masks and addresses. The parameters and loads that
remain determine the work: two launches do the same work if these parameters and loaded values are
equal. For example, the number of elements in a mask remains, but the learning rate of an optimiser
does not.
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

#: Prefixes of the operations that create block pointers and descriptors.
_MAKERS = ("tt.make_tensor_", "tt.experimental_")


@dataclass(frozen=True, kw_only=True)
class Decisive:
    """The inputs that determine the work of a launch, besides its grid.

    Attributes:
        numbers: Indices of the scalar parameters that affect the work.
        memory: True if the contents of memory affect the work or the addresses.
        alike: Indices of pointers whose overlap affects the number of different bytes, because
            several of these pointers are read, or several are written.
        read: Indices of the pointers through which the kernel reads memory that determines the
            work; None if they are unknown, for example because the kernel loads a pointer.
    """

    numbers: tuple[int, ...]
    memory: bool
    alike: tuple[int, ...]
    read: tuple[int, ...] | None = ()


@lru_cache(maxsize=256)
def decisive_of(ttir: str) -> Decisive | None:
    """Return the inputs that determine the work of a launch; None if the text cannot be parsed."""
    try:
        return decisive(parse_module(ttir))
    except TtoolsError:
        return None


def decisive(module: Module) -> Decisive | None:
    """Rewrite a module in place, and return the inputs that determine its work.

    Returns:
        None if the kernel has recursive calls, or accesses memory by block pointers or descriptors.
    """
    kernel = module.kernel
    if inline_calls(module) or any(_goes_by_descriptor(op) for op in kernel.walk()):
        return None
    alike = _alike(kernel)
    rewriter = Rewriter()
    # A check in every block keeps all loops and branches, including empty ones.
    for block in blocks_within(kernel.regions[0]):
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
    accesses = [op for op in kernel.walk() if kind_of(op) is not None]
    read = set().union(*(provenance.of(op.address) for op in accesses))
    return Decisive(
        numbers=tuple(
            index
            for index, value in enumerate(arguments)
            if value.uses and not isinstance(element_type(value.type), PointerType)
        ),
        memory=bool(accesses),
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
    """Return pointers whose overlap affects the counts; reads and writes are counted separately."""
    provenance = Provenance(kernel)
    groups: dict[bool, set[int]] = {True: set(), False: set()}
    for op in kernel.walk():
        if (kind := kind_of(op)) is not None:
            sources = provenance.of(op.address)
            groups[kind == "load"] |= {s for s in sources if s is not None}
    return tuple(sorted(set().union(*(group for group in groups.values() if len(group) > 1))))
