"""Where a kernel loads the numbers that it makes addresses of: indices, starts of sequences, pages.

Must not know what is wrong with an access.
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
    """A load of numbers that an address is made of.

    Attributes:
        parameter: it loads from; -1 if unknown.
    """

    location: SourceLocation
    parameter: int


def index_loads(module: Module) -> dict[Position, IndexLoad]:
    """The nearest load on the way to the address of an access, by the position of the access.

    Args:
        module: a module without calls.
    """
    kernel = module.kernel
    provenance = Provenance(kernel)
    entry = kernel.regions[0].entry
    found: dict[Position, IndexLoad] = {}
    for op in kernel.walk():
        position = position_of(op.location)
        if not is_access(op) or position is None:
            continue
        load = next(_integers_loaded(op.operands[0], entry), None)
        if load is not None and (location := load.location) is not None:
            definition = load.defining_op
            assert definition is not None
            parameter = parameter_of(definition.operands[0], provenance)
            found[position] = IndexLoad(location, parameter)
    return found


def _integers_loaded(address: Value, entry: Block) -> Iterator[Value]:
    """The loaded integers that an address is made of, the nearest first."""

    def sources(value: Value) -> Iterable[Value]:
        op = value.defining_op
        if value.owner is entry or loads(value):
            return ()
        return control_sources(value) if op is None or op.has(STRUCTURED) else op.operands

    for value in reachable([address], sources):
        if loads(value) and isinstance(element_type(value.type), IntegerType):
            yield value
