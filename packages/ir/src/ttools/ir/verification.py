"""Verification of modules: invariants that every pass must preserve.

The module checks the links between operations, values and blocks, the order of definitions and
uses, and the types of common operations. Tests run it after passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from ttools.ir import (
    Block,
    IntegerType,
    Module,
    Operation,
    PointerType,
    Region,
    Type,
    Value,
    element_type,
    shape_of,
)
from ttools.ir.dataflow import passings
from ttools.ir.dialects.traits import (
    BRANCH,
    CAST,
    DISPLACES,
    ELEMENTWISE,
    LINEAR,
    READS,
    SELECTS,
    SPREADS,
    WRITES,
)
from ttools.ir.semantics import moved_lanes


def verify(module: Module) -> list[str]:
    """Return a sentence for each error in a module; an empty list if it is valid."""
    return [problem for f in module.functions.values() for problem in _function(f)]


def _function(function: Operation) -> Iterator[str]:
    operations = list(function.walk())
    blocks = [b for op in operations for region in op.regions for b in region.blocks]
    yield from _links(operations)
    yield from _uses(operations, blocks)
    for region in function.regions:
        yield from _region(region, frozenset())
    for op in operations:
        if problem := _types(op):
            yield f"{op!r}: {problem}"


def _links(operations: list[Operation]) -> Iterator[str]:
    for op in operations:
        for index, result in enumerate(op.results):
            if result.owner is not op or result.index != index:
                yield f"{op!r}: result {index} does not belong to it"
        for region in op.regions:
            if region.parent is not op:
                yield f"{op!r}: a region belongs to another operation"
            for block in region.blocks:
                if block.parent is not region:
                    yield f"{op!r}: a block belongs to another region"
                for index, argument in enumerate(block.arguments):
                    if argument.owner is not block or argument.index != index:
                        yield f"{op!r}: block argument {index} does not belong to its block"
                for inner in block.operations:
                    if inner.parent is not block:
                        yield f"{inner!r}: belongs to another block"


def _uses(operations: list[Operation], blocks: list[Block]) -> Iterator[str]:
    expected: Counter[tuple[int, int, int]] = Counter(
        (id(value), id(op), index) for op in operations for index, value in enumerate(op.operands)
    )
    values = [v for op in operations for v in (*op.results, *op.operands)]
    values += [v for block in blocks for v in block.arguments]
    for value in {id(v): v for v in values}.values():
        for op, index in value.uses:
            expected[id(value), id(op), index] -= 1
    if any(count > 0 for count in expected.values()):
        yield "an operand is missing from the uses of its value"
    if any(count < 0 for count in expected.values()):
        yield "a value lists a use that does not exist in the function"


# ---- dominance


def _region(region: Region, visible: frozenset[Value]) -> Iterator[str]:
    dominators = _dominators(region)
    defined = {
        block: {*block.arguments, *(v for op in block.operations for v in op.results)}
        for block in region.blocks
    }
    for block in region.blocks:
        scope = set(visible) | set(block.arguments)
        for other in dominators.get(block, ()):
            if other is not block:
                scope |= defined[other]
        for op in block.operations:
            missing = [v for v in op.operands if v not in scope]
            for value in missing:
                yield f"{op!r}: uses {value!r} before its definition"
            for inner in op.regions:
                yield from _region(inner, frozenset(scope))
            scope |= set(op.results)


def _dominators(region: Region) -> dict[Block, set[Block]]:
    """Return the dominators of each reachable block: the blocks on every path to it."""
    predecessors: dict[Block, list[Block]] = {block: [] for block in region.blocks}
    for block in region.blocks:
        for target, _ in block.terminator.successors if block.operations else ():
            predecessors[target].append(block)
    everything = set(region.blocks)
    dominators = {block: set(everything) for block in region.blocks}
    dominators[region.entry] = {region.entry}
    changed = True
    while changed:
        changed = False
        for block in region.blocks[1:]:
            sets = [dominators[p] for p in predecessors[block]]
            new = {block} | (set.intersection(*sets) if sets else set())
            if new != dominators[block]:
                dominators[block], changed = new, True
    return dominators


# ---- types


def _types(op: Operation) -> str | None:
    """Return a description of an error in the types of an operation, or None if they are valid."""
    for holds, rule in _RULES:
        if holds(op):
            return rule(op)
    return None


def _all_alike(op: Operation) -> str | None:
    types = {v.type for v in (*op.operands, *op.results)}
    return None if len(types) == 1 else f"its types differ: {', '.join(sorted(map(str, types)))}"


def _comparison(op: Operation) -> str | None:
    a, b = op.operands
    if a.type != b.type:
        return f"compares {a.type} with {b.type}"
    return _is_boolean_like(op.results[0].type, a.type)


def _is_boolean_like(type: Type, like: Type) -> str | None:
    if element_type(type) != IntegerType(1) or shape_of(type) != shape_of(like):
        return f"{type} is not a condition for {like}"
    return None


def _selection(op: Operation) -> str | None:
    condition, a, b = op.operands
    if not a.type == b.type == op.results[0].type:
        return "its arms and its result differ in type"
    return _is_boolean_like(condition.type, a.type) if condition.is_tensor else None


def _view(op: Operation) -> str | None:
    """Check that a view keeps the element type and the extents of the axes that it keeps."""
    source, result = op.operands[0].type, op.results[0].type
    if element_type(source) != element_type(result):
        return "changes the element type"
    before, after = shape_of(source), shape_of(result)
    lanes = moved_lanes(op.results[0])
    axes = () if lanes is None or lanes.axes is None else lanes.axes
    fits = all(axis is None or n == after[axis] for n, axis in zip(before, axes, strict=False))
    return None if fits and len(axes) in (0, len(before)) else f"{before} cannot become {after}"


def _resized(op: Operation) -> str | None:
    source, result = (element_type(v.type) for v in (op.operands[0], op.results[0]))
    if not isinstance(source, IntegerType) or not isinstance(result, IntegerType):
        return "requires integers"
    grows = op.name.startswith("arith.ext")
    fits = result.width > source.width if grows else result.width < source.width
    return None if fits else f"cannot convert {source} to {result}"


def _pointer_sum(op: Operation) -> str | None:
    pointer, offset = op.operands
    if pointer.type != op.results[0].type or shape_of(pointer.type) != shape_of(offset.type):
        return "its operands differ in shape, or its result is a different pointer"
    return None


def _access(op: Operation) -> str | None:
    pointer = op.operands[0]
    element = element_type(pointer.type)
    if not isinstance(element, PointerType):
        return "its address is not a pointer"
    shape = shape_of(pointer.type)
    data = [op.operand(name) for name in ("value", "val", "cmp", "other")]
    for value in (*op.results, *(value for value in data if value is not None)):
        if element_type(value.type) != element.pointee or shape_of(value.type) != shape:
            return f"{value!r} does not fit {pointer.type}"
    if op.mask is not None and (problem := _is_boolean_like(op.mask.type, pointer.type)):
        return problem
    return None


def _carries(op: Operation) -> str | None:
    """Check that the values passed by structured control flow have the types of the receivers."""
    alike = all(
        [v.type for v in edge.values] == [v.type for v in edge.receivers] for edge in passings(op)
    )
    return None if alike else "the values that it passes and their receivers differ in type"


def _branch(op: Operation) -> str | None:
    forwarded = [v for _, values in op.successors for v in values]
    if forwarded and op.operands[-len(forwarded) :] != forwarded:
        return "its operands are not the values that it forwards"
    for target, values in op.successors:
        if [v.type for v in values] != [v.type for v in target.arguments]:
            return "forwards values that differ in type from the arguments of its target"
    return None


def _computes_alike(op: Operation) -> bool:
    """Return whether all operands and results have the same type, which MLIR prints only once."""
    format = op.declaration.format or ""
    return op.has(ELEMENTWISE) and format.count("type(") == 1 and "type($result)" in format


#: Pairs of a condition and a rule for types. The rule after the first condition that holds is
#: applied.
_RULES: tuple[tuple[Callable[[Operation], bool], Callable[[Operation], str | None]], ...] = (
    (lambda op: bool(op.declaration.flow), _carries),
    (lambda op: op.has(BRANCH), _branch),
    (lambda op: op.has(READS, WRITES) and op.operand("ptr") is not None, _access),
    (lambda op: op.has(DISPLACES), _pointer_sum),
    (lambda op: op.has(SELECTS), _selection),
    (lambda op: op.declaration.results == ("i1(lhs)",), _comparison),
    (lambda op: {CAST, LINEAR} <= op.traits, _resized),
    (lambda op: op.has(SPREADS), _view),
    (_computes_alike, _all_alike),
)
