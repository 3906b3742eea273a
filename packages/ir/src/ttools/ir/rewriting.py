"""Rewriting of the IR: inserting operations and passing additional values through control flow.

The functions keep the module consistent: they update the uses of values and the parents of
operations. A `Rewriter` collects insertions and applies them together, so that a pass can walk the
unchanged module.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace

from ttools.core.location import SourceLocation
from ttools.ir import (
    Attribute,
    Block,
    Constant,
    IntegerType,
    Operation,
    Region,
    TensorType,
    Type,
    Value,
    element_type,
    shape_of,
)

BOOLEAN = IntegerType(1)


def with_element(type: Type, element: Type) -> Type:
    """Return a type of the same shape as `type` whose elements have the type `element`."""
    return TensorType(type.shape, element) if isinstance(type, TensorType) else element


# ---- operands, results, arguments


def set_operand(op: Operation, index: int, value: Value) -> None:
    """Replace one operand; values that a branch forwards to its successors are not changed."""
    op.operands[index].uses.remove((op, index))
    op.operands[index] = value
    value.uses.append((op, index))


def add_operand(op: Operation, value: Value) -> None:
    """Append an operand."""
    value.uses.append((op, len(op.operands)))
    op.operands.append(value)


def add_result(op: Operation, type: Type) -> Value:
    """Append a result."""
    value = Value(type, "shadow", op, len(op.results), op.location)
    op.results.append(value)
    return value


def add_argument(block: Block, type: Type, name: str = "shadow") -> Value:
    """Append an argument to a block."""
    location = block.arguments[0].location if block.arguments else None
    value = Value(type, name, block, len(block.arguments), location)
    block.arguments.append(value)
    return value


def replace_uses(
    old: Value,
    new: Value,
    keep: Operation | None = None,
    within: Container[Operation] | None = None,
) -> None:
    """Replace `old` by `new` in all operations that use it.

    Args:
        keep: An operation in which `old` is not replaced.
        within: If given, `old` is replaced in these operations only.
    """
    for user, index in list(old.uses):
        if user is keep or (within is not None and user not in within):
            continue
        old.uses.remove((user, index))
        user.operands[index] = new
        new.uses.append((user, index))
        for _, forwarded in user.successors:
            forwarded[:] = [new if v is old else v for v in forwarded]


def forward(branch: Operation, successor: int, values: Sequence[Value]) -> None:
    """Make a branch pass additional values to one of its successors."""
    count = len(branch.operands) - sum(len(passed) for _, passed in branch.successors)
    own = branch.operands[:count]
    branch.successors[successor][1].extend(values)
    for value in {id(v): v for v in branch.operands}.values():
        value.uses = [use for use in value.uses if use[0] is not branch]
    branch.operands = []
    for value in [*own, *(v for _, passed in branch.successors for v in passed)]:
        add_operand(branch, value)
    if "operandSegmentSizes" in branch.attributes:
        sizes = tuple(len(passed) for _, passed in branch.successors)
        branch.attributes["operandSegmentSizes"] = (*(1,) * len(own), *sizes)


def add_parameter(
    function: Operation, type: Type, attributes: dict[str, Attribute] | None = None
) -> Value:
    """Append a parameter to a function."""
    described = function.attributes["arg_attrs"]
    assert isinstance(described, tuple)
    function.attributes["arg_attrs"] = (*described, attributes or {})
    return add_argument(function.regions[0].entry, type, "hidden")


# ---- insertion


class Builder:
    """Creates operations at one position; all methods except `operation` return a value.

    Args:
        operations: List that collects the operations.
        block: Block that the operations will be inserted into.
        location: Source location of the operations.
    """

    def __init__(
        self, operations: list[Operation], block: Block | None, location: SourceLocation | None
    ) -> None:
        self._operations = operations
        self._block = block
        self.location = location

    def operation(
        self,
        name: str,
        operands: Sequence[Value],
        types: Sequence[Type] = (),
        attributes: Mapping[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> Operation:
        op = Operation(
            name,
            attributes=dict(attributes or {}),
            regions=list(regions),
            location=self.location,
            parent=self._block,
        )
        for operand in operands:
            add_operand(op, operand)
        for type in types:
            add_result(op, type)
        for region in regions:
            region.parent = op
        self._operations.append(op)
        return op

    def value(
        self,
        name: str,
        operands: Sequence[Value],
        type: Type,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Value:
        """Insert an operation with one result, and return the result."""
        return self.operation(name, operands, [type], attributes).result

    def constant(self, type: Type, number: int) -> Value:
        """Insert an integer constant; for a tensor type, all of its elements are `number`."""
        element = element_type(type)
        assert isinstance(element, IntegerType)
        data = Constant(type, (number & ((1 << element.width) - 1),))
        return self.value("arith.constant", [], type, {"value": data})

    def spread(self, value: Value, like: Type) -> Value:
        """Splat a scalar to the shape of `like` if that is a tensor; return a tensor unchanged."""
        if value.is_tensor or not isinstance(like, TensorType):
            return value
        return self.value("tt.splat", [value], TensorType(like.shape, value.type))

    def binary(self, name: str, a: Value, b: Value) -> Value:
        """Insert `arith.<name>` of two values of the same type, one of which may be a scalar."""
        a, b = self.spread(a, b.type), self.spread(b, a.type)
        return self.value(f"arith.{name}", [a, b], a.type)

    def any_of(self, values: Sequence[Value]) -> Value:
        """Return the disjunction of one or more conditions."""
        first, *rest = values
        for value in rest:
            first = self.binary("ori", first, value)
        return first

    def negate(self, condition: Value) -> Value:
        return self.binary("xori", condition, self.constant(condition.type, 1))

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """Insert `arith.cmpi`; one of the operands may be a scalar."""
        a, b = self.spread(a, b.type), self.spread(b, a.type)
        type = with_element(a.type, BOOLEAN)
        return self.value("arith.cmpi", [a, b], type, {"predicate": predicate})

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Insert `arith.select`; the condition may be a scalar."""
        return self.value("arith.select", [condition, a, b], a.type)

    def cast(self, value: Value, element: Type, name: str) -> Value:
        """Insert the cast `name`, which changes the element type to `element`."""
        return self.value(name, [value], with_element(value.type, element))

    def signed(self, value: Value, width: int) -> Value:
        """Sign-extend an integer to `width` bits; return it unchanged if it is wide enough.

        An `i1` is zero-extended.
        """
        element = element_type(value.type)
        assert isinstance(element, IntegerType)
        if element.width >= width:
            return value
        name = "arith.extui" if element.width == 1 else "arith.extsi"
        return self.cast(value, IntegerType(width), name)

    def expand(self, value: Value, axis: int) -> Value:
        """Insert `tt.expand_dims`."""
        shape = shape_of(value.type)
        type = TensorType((*shape[:axis], 1, *shape[axis:]), element_type(value.type))
        return self.value("tt.expand_dims", [value], type, {"axis": axis})

    def broadcast(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Insert `tt.broadcast` to `shape`, unless the tensor has that shape already."""
        if shape_of(value.type) == shape:
            return value
        return self.value("tt.broadcast", [value], TensorType(shape, element_type(value.type)))

    def coordinate(self, shape: tuple[int, ...], axis: int) -> Value:
        """Return the coordinate of each lane of a tensor along an axis, as an i32."""
        extent = shape[axis]
        flat = TensorType((extent,), IntegerType(32))
        value = self.value("tt.make_range", [], flat, {"start": 0, "end": extent})
        for other in range(len(shape)):
            if other != axis:
                value = self.expand(value, other)
        return self.broadcast(value, shape)

    def region(
        self, types: Sequence[Type], fill: Callable[[Builder, Sequence[Value]], Sequence[Value]]
    ) -> Region:
        """Return a region of one block that yields the result of `fill` for its arguments.

        Args:
            types: Types of the block's arguments.
            fill: Inserts the operations of the block and returns the values that it yields.
        """
        block = Block()
        region = Region([block])
        block.parent = region
        arguments = [add_argument(block, type) for type in types]
        inner = Builder(block.operations, block, self.location)
        inner.operation("scf.yield", fill(inner, arguments))
        return region

    def combine(
        self, op_name: str, value: Value, axis: int, combine: str, *, reverse: bool = False
    ) -> Value:
        """Insert `tt.reduce` or `tt.scan` of a tensor.

        Args:
            combine: Name of the `arith` operation that combines two elements, for example `ori`.
            reverse: For scans, True to begin at the last element.
        """
        assert isinstance(value.type, TensorType)
        shape, element = value.type.shape, value.type.element
        block = Block()
        a, b = add_argument(block, element), add_argument(block, element)
        result = Builder(block.operations, block, self.location).binary(combine, a, b)
        end = Operation(f"{op_name}.return", location=self.location, parent=block)
        add_operand(end, result)
        block.operations.append(end)
        region = Region([block])
        block.parent = region
        type: Type = value.type
        attributes: dict[str, Attribute] = {"axis": axis}
        if op_name == "tt.reduce":
            rest = (*shape[:axis], *shape[axis + 1 :])
            type = TensorType(rest, element) if rest else element
        else:
            attributes["reverse"] = reverse
        return self.operation(op_name, [value], [type], attributes, [region]).result


def _unnamed(location: SourceLocation | None) -> SourceLocation | None:
    """Return the location without names of variables, because inserted operations define none."""
    if location is None:
        return location
    callers = tuple(replace(call, name=None) for call in location.callers)
    return replace(location, name=None, callers=callers)


class Rewriter:
    """Collects insertions into a module and applies them together.

    Insertions at one place keep the order in which they were made.
    """

    def __init__(self) -> None:
        self._before: defaultdict[Operation, list[Operation]] = defaultdict(list)
        self._after: defaultdict[Operation, list[Operation]] = defaultdict(list)
        self._start: defaultdict[Block, list[Operation]] = defaultdict(list)

    def before(self, op: Operation) -> Builder:
        """Return a builder whose operations come right before `op`."""
        return Builder(self._before[op], op.parent, _unnamed(op.location))

    def after(self, op: Operation) -> Builder:
        """Return a builder whose operations come right after `op`."""
        return Builder(self._after[op], op.parent, _unnamed(op.location))

    def start(self, block: Block, location: SourceLocation | None = None) -> Builder:
        """Return a builder whose operations come first in `block`."""
        if location is None and block.operations:
            location = block.operations[0].location
        return Builder(self._start[block], block, location)

    def apply(self) -> None:
        """Put all insertions in place; the rewriter may be used again afterwards."""
        blocks = {op.parent for op in (*self._before, *self._after)} | set(self._start)
        for block in blocks:
            assert block is not None
            operations = list(self._start.get(block, ()))
            for op in block.operations:
                operations += self._before.get(op, ())
                operations.append(op)
                operations += self._after.get(op, ())
            # The list is changed in place because other objects may refer to it.
            block.operations[:] = operations
        self._before.clear()
        self._after.clear()
        self._start.clear()
