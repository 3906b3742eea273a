"""Where a kernel takes integers from that it makes pointers of.

A GPU's addresses in tables and scalars must be replaced before a launch on the host; this says
in which parameters they are.
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

#: An integer, None where its origin is out of sight, and whether nothing was computed with it.
_Step: TypeAlias = "tuple[Value | None, bool]"


@dataclass
class AddressSources:
    """Parameters by what they hold.

    Attributes:
        tables: pointers to integers that become pointers as they are.
        mixed: pointers to integers that take part in computing such integers.
        scalars: integers that become, or take part in, pointers.
        anywhere: some integer's origin is out of sight.
    """

    tables: set[int] = field(default_factory=set)
    mixed: set[int] = field(default_factory=set)
    scalars: set[int] = field(default_factory=set)
    anywhere: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the kernel makes no pointer of an integer."""
        return not (self.tables or self.mixed or self.scalars or self.anywhere)


def address_sources(module: Module) -> AddressSources:
    """Return the sources of all integers that the kernel of `module` makes pointers of."""
    found = AddressSources()
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
                found.anywhere = True
    for value, moved_only in reachable(starts, lambda step: _sources(*step, entry)):
        made = value.defining_op if value is not None else None
        if value is None or (made is not None and made.has(CALL, ATOMIC)):
            found.anywhere = True
        elif value.owner is entry:
            found.scalars.add(value.index)
        elif made is not None and made.has(LOADS):
            roots = provenance.of(made.address)
            target = found.tables if moved_only else found.mixed
            target |= {index for index in roots if index is not None}
            found.anywhere |= None in roots
    found.mixed -= found.tables
    return found


def _makes_pointer(op: Operation) -> bool:
    """Return whether an operation makes pointers of integers."""
    if not op.has(CAST) or not isinstance(element_type(op.results[0].type), PointerType):
        return False
    return isinstance(element_type(op.operands[0].type), IntegerType)


def _sources(value: Value | None, moved_only: bool, entry: Block) -> Iterable[_Step]:
    """Return what an integer comes from, and whether nothing was computed with it on the way."""
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
