"""Where a kernel takes the pointers from that derive from no parameter: the tables it loads them
from, so that a finding can name one. Must not know what is wrong with such an access.
"""

from __future__ import annotations

from collections.abc import Iterable

from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.analysis.positions import Position, position_of
from ttools.ir import Block, Module, PointerType, Value, element_type
from ttools.ir.dataflow import control_sources, reachable
from ttools.ir.dialects.traits import DISPLACES, STRUCTURED
from ttools.sanitizer.analysis.dataflow import is_access, loads


def pointer_tables(module: Module) -> dict[Position, int]:
    """The parameter that the pointers of an access are loaded from, by the position of the access.

    Args:
        module: a module without calls. Accesses that have several such parameters are left out.
    """
    kernel = module.kernel
    provenance = Provenance(kernel)
    found: dict[Position, int] = {}
    for op in kernel.walk():
        position = position_of(op.location)
        if not is_access(op) or position is None:
            continue
        if None in provenance.of(op.operands[0]):
            tables = tables_of(op.operands[0], provenance, kernel.regions[0].entry)
            if len(tables) == 1:
                found[position] = tables.pop()
    return found


def tables_of(pointer: Value, provenance: Provenance, entry: Block) -> set[int]:
    """The integers passed that a pointer is made of, and the tables they are loaded from.

    Args:
        pointer: which derives from no parameter.
        entry: the kernel's first block.
    """

    def sources(value: Value) -> Iterable[Value]:
        op = value.defining_op
        if value.owner is entry or loads(value):
            return ()
        if op is None or op.has(STRUCTURED):
            return control_sources(value)
        return op.operands[:1] if op.has(DISPLACES) else op.operands

    found: set[int] = set()
    for value in reachable([pointer], sources):
        load = loads(value)
        if value.owner is entry and not isinstance(element_type(value.type), PointerType):
            found.add(value.index)
        elif load is not None:
            found |= {n for n in provenance.of(load.operands[0]) if n is not None}
    return found
