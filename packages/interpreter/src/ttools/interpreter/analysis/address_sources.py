"""The origins of integers that a kernel converts to pointers.

An example is a grouped matrix product, which loads the address of each matrix as an int64 from a
table and converts it to a pointer. If the matrices are on a GPU, these addresses must be replaced
before the kernel is launched on the host. This analysis finds the parameters that contain them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import (
    Block,
    IntegerType,
    Module,
    Operation,
    PointerType,
    Value,
    element_type,
)
from ttools.ir.dataflow import (
    block_argument_sources,
    reachable,
    region_result_sources,
)
from ttools.ir.dialects.traits import (
    ATOMIC,
    CALL,
    CAST,
    CHOOSES,
    GATHERS,
    LOADS,
    SELECTS,
    STRUCTURED,
    VIEW,
)

#: A pair: an integer, or None if its origin is unknown; and True if the pointer is this integer,
#: moved but unchanged, or False if the pointer was computed from it.
_Step: TypeAlias = "tuple[Value | None, bool]"


@dataclass
class AddressSources:
    """Parameters by the kind of addresses that they contain.

    Attributes:
        tables: Parameters that point to integers that are converted to pointers unchanged.
        mixed: Parameters that point to integers from which the kernel computes pointers, such as a
            base address to which it adds an offset.
        scalars: Integer parameters that are converted to pointers, or from which the kernel
            computes pointers.
        anywhere: True if the origin of some integer is unknown.
    """

    tables: set[int] = field(default_factory=set)
    mixed: set[int] = field(default_factory=set)
    scalars: set[int] = field(default_factory=set)
    anywhere: bool = False

    @property
    def is_empty(self) -> bool:
        """True if the kernel converts no integers to pointers."""
        return not (self.tables or self.mixed or self.scalars or self.anywhere)


def address_sources(module: Module) -> AddressSources:
    """Return the sources of all integers that the kernel of `module` converts to pointers."""
    sources = AddressSources()
    kernel = module.kernel
    entry, provenance = kernel.regions[0].entry, Provenance(kernel)
    starts: list[_Step] = []
    for function in module.functions.values():
        for op in function.walk():
            if not _makes_pointer(op):
                continue
            if function is kernel:
                starts.append((op.operands[0], True))
            else:
                sources.anywhere = True
    for value, moved_only in reachable(starts, lambda step: _sources(*step, entry)):
        made = value.defining_op if value is not None else None
        if value is None or (made is not None and made.has(CALL, ATOMIC)):
            sources.anywhere = True
        elif value.owner is entry:
            sources.scalars.add(value.index)
        elif made is not None and made.has(LOADS):
            roots = provenance.of(made.address)
            target = sources.tables if moved_only else sources.mixed
            target |= {index for index in roots if index is not None}
            sources.anywhere |= None in roots
    sources.mixed -= sources.tables
    return sources


def _makes_pointer(op: Operation) -> bool:
    """Return whether an operation converts integers to pointers."""
    if CAST not in op.traits or not isinstance(element_type(op.results[0].type), PointerType):
        return False
    return isinstance(element_type(op.operands[0].type), IntegerType)


def _sources(value: Value | None, moved_only: bool, entry: Block) -> Iterable[_Step]:
    """Return the values that an integer was moved or computed from, as steps of the search.

    Args:
        value: The integer; None if it is unknown.
        moved_only: True if the pointer is this integer, unchanged.
        entry: The first block of the kernel, whose arguments are the parameters.
    """
    if value is None or value.owner is entry:
        return ()
    op = value.defining_op
    if op is None:
        assert isinstance(value.owner, Block)
        return [(source, moved_only) for source in block_argument_sources(value, value.owner)]
    if op.has(STRUCTURED):
        return [(source, moved_only) for source in region_result_sources(op, value.index)]
    if op.has(LOADS, CALL, ATOMIC):
        return ()
    moves = op.has(VIEW, GATHERS, SELECTS) or {CAST, CHOOSES} <= op.traits
    return [(operand, moved_only and moves) for operand in op.operands]
