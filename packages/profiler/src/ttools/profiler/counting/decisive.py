"""What decides what a launch does: which of its parameters, and whether memory does.

Loops, branches, masks and addresses are kept and all that they do not need is taken away; what is
left decides. Two launches that agree in what decides do the same.
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

#: What makes block pointers and descriptors.
_MAKERS = ("tt.make_tensor_", "tt.experimental_")


@dataclass(frozen=True, kw_only=True)
class Decisive:
    """What decides what a launch does, beside its grid.

    Attributes:
        numbers: of the module's parameters that are no pointers, those that matter.
        memory: whether values in memory matter, also if only to where the kernel accesses it.
        alike: pointers whose overlap matters, since several are read, or several written.
        read: Pointers through which the values in memory are read that matter; None if that is not
            known, as where the kernel loads a pointer.
    """

    numbers: tuple[int, ...]
    memory: bool
    alike: tuple[int, ...]
    read: tuple[int, ...] | None = ()


@lru_cache(maxsize=256)
def decisive_of(ttir: str) -> Decisive | None:
    """The same of a module's text; None also for one that cannot be read."""
    try:
        return decisive(parse_module(ttir))
    except TtoolsError:
        return None


def decisive(module: Module) -> Decisive | None:
    """Rewrites a module in place; returns what decides what it does.

    None where it has recursive calls, or accesses that are not made through plain pointers.
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
    """What is read and what is written is united apart, so overlap matters among either."""
    provenance = Provenance(kernel)
    groups: dict[bool, set[int]] = {True: set(), False: set()}
    for op in kernel.walk():
        if (kind := kind_of(op)) is not None:
            sources = provenance.of(op.address)
            groups[kind == "load"] |= {s for s in sources if s is not None}
    return tuple(sorted(set().union(*(each for each in groups.values() if len(each) > 1))))
