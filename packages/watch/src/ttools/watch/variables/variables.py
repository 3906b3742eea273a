"""Search for the user's variables among the values of a module, with the lines that assign them.

Triton gives every operation of an assignment the name of the assigned variable. For an inlined
function it also keeps the call sites, which have names, too: the same value may be `z` in a
function and `y` in its caller. Among the operations with the same name, this module selects those
that compute the complete value of the statement, such as the addition in `z = a * b + c`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ttools.core.location import (
    SourceLocation,
    chain_of,
    source_lines,
    user_location,
)
from ttools.core.ownership import is_triton_file
from ttools.core.syntax_trees import syntax_tree
from ttools.ir import (
    Block,
    FloatType,
    IntegerType,
    Module,
    Operation,
    PointerType,
    Value,
    element_type,
)
from ttools.ir.dialects.traits import ATOMIC, CONSTANT, COUNTED, LOADS, STRUCTURED, WRITES
from ttools.ir.rewriting import BOOLEAN
from ttools.watch.variables.unrolled_loops import Kind, is_certain, is_unrolled, kind_of

#: The names that `stored_by` gives to stored values.
STORED = ("tl.store", "tl.atomic")


@dataclass(frozen=True, eq=False)
class Variable:
    """One assignment of a variable.

    Attributes:
        name: Name of the variable; for a stored value, the name of the storing function.
        location: File and line, and the calls that led there.
        value: The value of the assignment.
        block: The block in which the value is available.
        operation: The operation after which the value is available; if the operation stores the
            value, the value is available before it. None for the start of the block.
        mask: Mask of the lanes that are loaded or stored; None if all lanes are.
        is_parameter: True for parameters of the kernel.
        is_filled: True if the lanes outside the mask have the value of `other` of a load.
    """

    name: str
    location: SourceLocation
    value: Value
    block: Block
    operation: Operation | None
    mask: Value | None = None
    is_parameter: bool = False
    is_filled: bool = False


@dataclass
class NamedAssignments:
    """The assignments whose variables are named in a module's locations.

    Attributes:
        variables: All assignments with values, in program order.
        doubtful: Assignments in unrolled loops for which only the last iteration can be found with
            certainty.
    """

    variables: list[Variable] = field(default_factory=list)
    doubtful: list[Variable] = field(default_factory=list)


def find_named(module: Module, parameters: Sequence[str]) -> NamedAssignments:
    """Find the assignments whose variables are named in a module's locations.

    Args:
        module: The module, whose calls need not have been inlined.
        parameters: Names of the kernel's parameters.
    """
    named = NamedAssignments()
    parts: list[_Assigned] = []
    wholes: set[Kind] = set()
    for function in module.functions.values():
        if function is module.kernel:
            named.variables += _parameters(function, parameters)
        for block in function.regions[0].blocks:
            named.variables += _in_block(block, wholes, parts)
    _separate(named, wholes, parts, by_last=module.first_column == 0)
    return named


def _separate(
    named: NamedAssignments, wholes: set[Kind], parts: Sequence[_Assigned], by_last: bool
) -> None:
    """Add those parts that are complete values of earlier iterations of an unrolled loop.

    A part is such a value if it has the same kind as a complete value, which then belongs to the
    last iteration.
    """
    for part in parts:
        if part.kind not in wholes or not is_unrolled(chain_of(part.variable.location)):
            continue
        certain = is_certain(part.chain, part.level, by_last)
        (named.variables if certain else named.doubtful).append(part.variable)


def stored_by(op: Operation) -> str | None:
    """Return the name for the value that an operation stores; None if it stores nothing.

    Stored values have no name in the source, so they are named after the function that stores them.
    """
    if not op.has(WRITES):
        return None
    return "tl.atomic" if op.has(ATOMIC) else "tl.store"


def _parameters(kernel: Operation, names: Sequence[str]) -> Iterator[Variable]:
    block = kernel.regions[0].entry
    for name, value in zip(names, block.arguments, strict=False):
        location = value.location or kernel.location
        if location is not None and is_plain(value):
            yield Variable(name, location, value, block, None, is_parameter=True)


def _in_block(block: Block, wholes: set[Kind], parts: list[_Assigned]) -> Iterator[Variable]:
    positions = {op: n for n, op in enumerate(block.operations)}
    for op in block.operations:
        if stored_by(op) is not None:
            yield from _stored(op, block)
        for assigned in _assigned(op, block, positions):
            if assigned.is_part:
                parts.append(assigned)
            else:
                wholes.add(assigned.kind)
                yield assigned.variable
        if op.has(COUNTED):
            yield from _counter(op)
        if op.has(STRUCTURED):
            for region in op.regions:
                for inner in region.blocks:
                    yield from _in_block(inner, wholes, parts)


def _stored(op: Operation, block: Block) -> Iterator[Variable]:
    location, name, mask = user_location(op.location), stored_by(op), op.mask
    if location is None or name is None:
        return
    if not op.has(ATOMIC) or mask is None or element_type(mask.type) == BOOLEAN:
        value = op.operand("val") or op.operands[1]
        yield Variable(name, location, value, block, op, mask)


def _counter(loop: Operation) -> Iterator[Variable]:
    body = loop.regions[0].entry
    location = user_location(loop.location)
    name = _loop_variable(location.file, location.line) if location is not None else None
    if location is not None and name is not None:
        yield Variable(name, location, body.arguments[0], body, None)


@lru_cache(maxsize=64)
def _loop_variables(source: str) -> dict[int, str]:
    tree = syntax_tree(source)
    nodes = () if tree is None else ast.walk(tree)
    loops = (node for node in nodes if isinstance(node, ast.For))
    return {node.lineno: node.target.id for node in loops if isinstance(node.target, ast.Name)}


def _loop_variable(file: str, line: int) -> str | None:
    """Return the variable of the `for` at a line, which Triton's locations do not name."""
    return _loop_variables("".join(source_lines(file))).get(line)


# ---- assigned values


@dataclass(frozen=True)
class _Assigned:
    """A value of a statement.

    Attributes:
        kind: Kind of the value, see `unrolled_loops`.
        is_part: True if a different value of the same statement is computed from it.
        chain: The location of the value, followed by the locations of its callers.
        level: Index of the statement's location in `chain`.
    """

    variable: Variable
    kind: Kind
    is_part: bool
    chain: list[SourceLocation]
    level: int


def _assigned(op: Operation, block: Block, positions: dict[Operation, int]) -> Iterator[_Assigned]:
    is_ambiguous = not op.has(STRUCTURED) and len(op.results) > 1
    if is_ambiguous and sum(bool(value.uses) for value in op.results) != 1:
        return
    for index, value in enumerate(op.results):
        if not is_plain(value) or value.location is None:
            continue
        # All results share the location of the operation. The variable name in that location
        # belongs to the result that is used: for example, `tl.argmax` reduces values and indices,
        # but returns only the indices.
        if is_ambiguous and not value.uses:
            continue
        chain = chain_of(value.location)
        # All results of a loop or branch share its location, which may contain the name of a
        # different result. The names in the locations of its callers are correct.
        first = 1 if op.has(STRUCTURED) else 0
        if first and not value.uses:
            continue
        for level in range(first, len(chain)):
            location = chain[level]
            if not location.name or is_triton_file(location.file):
                continue
            where = replace(location, name=None)
            yield _Assigned(
                variable_of(location.name, where, value, block),
                kind_of(value, index, chain, level),
                _is_part(value, chain[level:], positions),
                chain,
                level,
            )


def variable_of(name: str, location: SourceLocation, value: Value, block: Block) -> Variable:
    """Return an assignment whose value is the result of an operation."""
    op = value.defining_op
    assert op is not None
    return Variable(name, location, value, block, op, _load_mask(op), is_filled=_is_filled(op))


def is_plain(value: Value) -> bool:
    """Return whether a value consists of numbers or plain pointers."""
    element = element_type(value.type)
    if isinstance(element, PointerType):
        return isinstance(element.pointee, (IntegerType, FloatType, PointerType))
    return isinstance(element, (IntegerType, FloatType))


def _is_part(
    value: Value, chain: Sequence[SourceLocation], positions: dict[Operation, int]
) -> bool:
    """Return whether a value is only a part of what the statement at `chain[0]` assigns."""
    # In an unrolled loop, a value is complete if operations of a different line follow it before
    # its user. Elsewhere this does not show that it is complete: the parts of a statement may be
    # separated by the computations of a descriptor's shape.
    location, unrolled = chain[0], is_unrolled(chain)
    for user, first in _consumers(value):
        if user.location is None:
            continue
        for whole in chain_of(user.location)[first:]:
            same = (whole.file, whole.name, whole.callers) == (
                location.file,
                location.name,
                location.callers,
            )
            if (
                same
                and whole.line <= location.line
                and not (unrolled and _apart(value, user, location, positions))
            ):
                return True
    return False


def _consumers(value: Value) -> Iterator[tuple[Operation, int]]:
    """Yield the users of a value, each with the first level of its location that is relevant."""
    for user, _ in value.uses:
        if user.name not in ("scf.yield", "scf.condition"):
            yield user, 0
        elif user.parent_op is not None:
            yield user.parent_op, 1


def _apart(
    value: Value, user: Operation, location: SourceLocation, positions: dict[Operation, int]
) -> bool:
    """Return whether operations of a different statement are between a value and its user.

    In an unrolled loop, this means that the value and its user belong to different iterations.
    """
    op = value.defining_op
    if op is None or op.parent is None or op.has(CONSTANT):
        return False  # constants precede all other operations, so their position is irrelevant
    if op not in positions or user not in positions:
        return False
    for between in op.parent.operations[positions[op] + 1 : positions[user]]:
        if between.location is None:
            continue
        for other in chain_of(between.location):
            inside = (other.file, other.callers) == (location.file, location.callers)
            if inside and other.name != location.name and other.line != location.line:
                return True
    return False


def _load_mask(op: Operation) -> Value | None:
    if not op.has(LOADS) or len(op.operands) < 2:
        return None
    mask = op.operands[1]
    return mask if element_type(mask.type) == BOOLEAN else None


def _is_filled(op: Operation) -> bool:
    return op.has(LOADS) and len(op.operands) > 2
