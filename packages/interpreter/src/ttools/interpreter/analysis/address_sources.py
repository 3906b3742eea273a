"""Where a kernel takes integers from that it makes pointers of.

A GPU's addresses in tables and scalars must be replaced before a launch on the host; this says
in which parameters they are. Must not know where memory is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.dialects.traits import ATOMIC, CALL, GATHERS, STRUCTURED, VIEW
from ttools.interpreter.ir import Block, Module, Operation, Value
from ttools.interpreter.ir.dataflow import block_argument_sources, region_result_sources


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
    """The sources of all integers that the kernel of `module` makes pointers of."""
    found = AddressSources()
    kernel = module.kernel
    walk = _Walk(found, Provenance(kernel), kernel.regions[0].entry)
    for function in module.functions.values():
        for op in function.walk():
            if op.name != "tt.int_to_ptr":
                continue
            if function is kernel:
                walk.visit(op.operands[0], moved_only=True)
            else:
                found.anywhere = True
    found.mixed -= found.tables
    return found


class _Walk:
    """Follows integers back to loads and parameters."""

    def __init__(self, found: AddressSources, provenance: Provenance, entry: Block) -> None:
        self._found = found
        self._provenance = provenance
        self._entry = entry
        self._seen: set[tuple[Value, bool]] = set()

    def visit(self, value: Value, *, moved_only: bool) -> None:
        """Follows one value; `moved_only` while nothing was computed with it."""
        if (value, moved_only) in self._seen:
            return
        self._seen.add((value, moved_only))
        op = value.defining_op
        if op is None:
            self._visit_argument(value, moved_only)
        elif op.name == "tt.load":
            sources = self._provenance.of(op.operands[0])
            target = self._found.tables if moved_only else self._found.mixed
            target |= {index for index in sources if index is not None}
            self._found.anywhere |= None in sources
        elif op.has(STRUCTURED):
            for source in region_result_sources(op, value.index):
                self.visit(source, moved_only=moved_only)
        elif op.has(CALL, ATOMIC):
            self._found.anywhere = True
        else:
            for operand in op.operands:
                self.visit(operand, moved_only=moved_only and _hands_on(op))

    def _visit_argument(self, value: Value, moved_only: bool) -> None:
        block = value.owner
        assert isinstance(block, Block)
        if block is self._entry:
            self._found.scalars.add(value.index)
            return
        for source in block_argument_sources(value, block):
            if source is None:
                self._found.anywhere = True
            else:
                self.visit(source, moved_only=moved_only)


def _hands_on(op: Operation) -> bool:
    """Whether an operation passes integers on without computing with them."""
    return op.has(VIEW, GATHERS) or op.name in ("arith.select", "arith.bitcast")
