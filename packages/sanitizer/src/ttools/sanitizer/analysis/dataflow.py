"""The ways of values through a kernel: its operations in order, and what control flow hands on."""

from __future__ import annotations

from collections.abc import Iterator

from ttools.interpreter.analysis.effects import block_argument_sources, region_result_sources
from ttools.interpreter.ir import Block, Operation, Value

#: Operations whose regions compute with elements, not with the program's values.
COMBINING = frozenset({"tt.reduce", "tt.scan", "tt.map_elementwise"})
CONTROL = frozenset({"scf.for", "scf.while", "scf.if"})
#: Operations that read memory.
ACCESSES = frozenset({"tt.load", "tt.atomic_rmw", "tt.atomic_cas"})


def operations(parent: Operation) -> Iterator[Operation]:
    """All operations in `parent`, in program order, but those that combine elements."""
    for region in parent.regions if parent.name not in COMBINING else ():
        for block in region.blocks:
            for op in block.operations:
                yield op
                yield from operations(op)


def control_sources(value: Value) -> list[Value]:
    """The values that control flow may move to `value`."""
    op = value.defining_op
    if op is not None:
        return region_result_sources(op, value.index)
    assert isinstance(value.owner, Block)
    return [v for v in block_argument_sources(value, value.owner) if v is not None]
