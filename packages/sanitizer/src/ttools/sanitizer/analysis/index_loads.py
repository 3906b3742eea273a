"""Finds the loads of integers from which a kernel computes addresses.

Examples are the indices of a gather, the start offsets of sequences and the entries of a page
table. If an access at such an address is out of bounds, the finding names the tensor that the index
came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ttools.core.location import SourceLocation
from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.analysis.positions import Position, position_of
from ttools.ir import Block, IntegerType, Module, Value, element_type
from ttools.ir.dataflow import control_sources, reachable
from ttools.ir.dialects.traits import STRUCTURED
from ttools.sanitizer.analysis.dataflow import is_access, loads, parameter_of


@dataclass(frozen=True)
class IndexLoad:
    """A load of integers from which an address is computed.

    Attributes:
        parameter: Index of the parameter that the load reads from; -1 if unknown.
    """

    location: SourceLocation
    parameter: int


def index_loads(module: Module) -> dict[Position, IndexLoad]:
    """Return, for each access, the load of integers that is nearest to its address, if any.

    Args:
        module: A module without calls.

    Returns:
        The loads, by the position of the access.
    """
    kernel = module.kernel
    provenance = Provenance(kernel)
    entry = kernel.regions[0].entry
    loads_by_access: dict[Position, IndexLoad] = {}
    for op in kernel.walk():
        position = position_of(op.location)
        if not is_access(op) or position is None:
            continue
        load = next(_integers_loaded(op.operands[0], entry), None)
        if load is not None and (location := load.location) is not None:
            definition = load.defining_op
            assert definition is not None
            parameter = parameter_of(definition.operands[0], provenance)
            loads_by_access[position] = IndexLoad(location, parameter)
    return loads_by_access


def _integers_loaded(address: Value, entry: Block) -> Iterator[Value]:
    """Yield the loaded integers from which an address is computed, nearest first."""

    def sources(value: Value) -> Iterable[Value]:
        op = value.defining_op
        if value.owner is entry or loads(value):
            return ()
        return control_sources(value) if op is None or op.has(STRUCTURED) else op.operands

    for value in reachable([address], sources):
        if loads(value) and isinstance(element_type(value.type), IntegerType):
            yield value
