"""Outlining, which moves the region of a reduction, scan or map to a function.

The region may contain several blocks (early returns) and calls. Afterwards, the region only calls
the function.
"""

from __future__ import annotations

from ttools.ir import Attribute, Block, Module, Operation, Region, Value
from ttools.ir.dialects.traits import CONSTANT
from ttools.ir.rewriting import Builder, add_argument, replace_uses


def outline(module: Module, op: Operation) -> None:
    """Replace the region of `op` by one block that calls a new function and yields its results.

    Values that the region uses from outside become the last parameters of the function, except
    constants, which are copied into the function.

    Args:
        module: Module that the new function is added to.
        op: Operation with one region, whose terminators have the operation's name with the suffix
            `.return`.
    """
    (region,) = op.regions
    inside = {inner for inner in op.walk() if inner is not op}
    inputs = list(region.entry.arguments)
    name = f"{op.name}.{len(module.functions)}"
    attributes: dict[str, Attribute] = {
        "sym_name": name,
        "visibility": "private",
        "arg_attrs": (),
    }
    function = Operation("tt.func", attributes=attributes, regions=[region], location=op.location)
    region.parent = function
    captured = []
    constants: list[Operation] = []
    for value in _captured(op, inside):
        source = value.defining_op
        if source is not None and source.has(CONSTANT):
            copies = Builder(constants, region.entry, source.location)
            new = copies.value(source.name, [], value.type, source.attributes)
        else:
            captured.append(value)
            new = add_argument(region.entry, value.type)
        replace_uses(value, new, within=inside)
    region.entry.operations[:0] = constants
    types = []
    for block in region.blocks:
        end = block.terminator
        if end.name == f"{op.name}.return":
            end.rename("tt.return")
            types = [value.type for value in end.operands]
    module.functions[name] = function
    op.regions = [Region(parent=op)]
    caller = Block(parent=op.regions[0])
    op.regions[0].blocks.append(caller)
    arguments = [add_argument(caller, value.type, value.name) for value in inputs]
    build = Builder(caller.operations, caller, op.location)
    call = build.operation("tt.call", [*arguments, *captured], types, {"callee": name})
    build.operation(f"{op.name}.return", call.results)


def _captured(op: Operation, inside: set[Operation]) -> list[Value]:
    """Return the scalars that the region uses but does not define, in order of first use."""
    defined = {value for inner in inside for value in inner.results}
    for inner in op.walk():
        for region in inner.regions:
            for block in region.blocks:
                defined.update(block.arguments)
    used = [v for inner in op.walk() if inner is not op for v in inner.operands]
    return list(dict.fromkeys(v for v in used if v not in defined))
