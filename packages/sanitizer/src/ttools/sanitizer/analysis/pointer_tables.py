"""Finds the tables from which a kernel loads pointers.

A kernel may load pointers from memory, for example from a tensor that contains the addresses of
other tensors. Because such a pointer does not derive from a parameter, a finding names the table
from which it was loaded.
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
    """Return, by the position of an access, the parameter that its pointers are loaded from.

    Accesses whose pointers are loaded from several parameters are left out.

    Args:
        module: A module without calls.
    """
    kernel = module.kernel
    provenance = Provenance(kernel)
    table_of: dict[Position, int] = {}
    for op in kernel.walk():
        position = position_of(op.location)
        if not is_access(op) or position is None:
            continue
        if None in provenance.of(op.operands[0]):
            tables = tables_of(op.operands[0], provenance, kernel.regions[0].entry)
            if len(tables) == 1:
                table_of[position] = tables.pop()
    return table_of


def tables_of(pointer: Value, provenance: Provenance, entry: Block) -> set[int]:
    """Return the integers and tables of addresses from which a pointer is computed.

    Args:
        pointer: A pointer that derives from no pointer parameter.
        entry: First block of the kernel, whose arguments are the parameters.

    Returns:
        Indices of the parameters.
    """

    def sources(value: Value) -> Iterable[Value]:
        op = value.defining_op
        if value.owner is entry or loads(value):
            return ()
        if op is None or op.has(STRUCTURED):
            return control_sources(value)
        return op.operands[:1] if op.has(DISPLACES) else op.operands

    parameters: set[int] = set()
    for value in reachable([pointer], sources):
        load = loads(value)
        if value.owner is entry and not isinstance(element_type(value.type), PointerType):
            parameters.add(value.index)
        elif load is not None:
            parameters |= {n for n in provenance.of(load.operands[0]) if n is not None}
    return parameters
