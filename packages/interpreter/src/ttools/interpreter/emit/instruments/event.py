"""Events: reports of lanes that failed a test, with their coordinates and the values of variables.

If a lane has failed, the code that is emitted here stores the coordinates of the lanes, the
iterations of the enclosing loops and the values of named variables in the payload of the event.
This code is emitted out of line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import ttools.interpreter.elementwise as elementwise
from ttools.core.location import SourceLocation, loop_variable, subscripted_variable
from ttools.interpreter.abi.module import Shown
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.probe import Prober, call
from ttools.interpreter.llvm.builder import SIZES, Builder, memory_type
from ttools.interpreter.llvm.value import ARENA, SSAValue, integer, lanes_of
from ttools.interpreter.tiles.chunk import Affine, Coords, moved
from ttools.interpreter.tiles.representation import to_memory
from ttools.ir import Block, Operation, PointerType, Value, element_type, shape_of
from ttools.ir.dataflow import carried_values, counted_loop
from ttools.ir.dialects.traits import (
    COUNTED,
    DISPLACES,
    FROM_COORDINATES,
    LOADS,
    READS,
    UNCOUNTED,
    VIEW,
)
from ttools.ir.semantics import moved_lanes

#: Maximum number of variables that an event carries. A finding shows only the first of them.
_MOST_SHOWN = 12
_DEEPEST = 24
_WITH_SIGN = (
    "divsi",
    "extsi",
    "maxsi",
    "minsi",
    "remsi",
    "shrsi",
    "sitofp",
    "ceildivsi",
    "floordivsi",
)
_WITHOUT_SIGN = ("divui", "extui", "maxui", "minui", "remui", "shrui", "uitofp", "ceildivui")
#: Operations that treat their operands as signed or unsigned.
_SIGN = {
    **{f"arith.{name}": "signed" for name in _WITH_SIGN},
    **{f"arith.cmpi s{name}": "signed" for name in ("lt", "le", "gt", "ge")},
    **{f"arith.{name}": "unsigned" for name in _WITHOUT_SIGN},
    **{f"arith.cmpi u{name}": "unsigned" for name in ("lt", "le", "gt", "ge")},
}


@dataclass(frozen=True)
class Variable:
    """A value to show, with the coordinates of its elements that belong to the lanes of the event.

    The coordinates may differ from those of the event. For example, a row index that a broadcast
    expands has only one axis.
    """

    name: str
    value: Value
    at: Coords

    @property
    def capacity(self) -> int:
        """Return the maximum number of bytes that the value needs in the payload."""
        width = self.at[0].width if self.at else 1
        return (SIZES[memory_type(element_type(self.value.type))] * width + 7) // 8 * 8


@dataclass(frozen=True)
class Destination:
    """The site and payload of events.

    They are SSA values, even though they are constant, so that the code for several sites is
    identical and is emitted only once (see `out_of_line`).

    Attributes:
        site: The number of the site, an i32.
        payload: The address of the payload.
    """

    site: SSAValue
    payload: SSAValue

    @classmethod
    def of(cls, b: Builder, number: int, payload: int) -> Destination:
        """Emit the number of a site and the address of its payload as SSA values.

        Args:
            number: The number of the site.
            payload: The offset of the payload in the arena.
        """
        address = b.offset(ARENA, payload)
        return cls(b.binary("or", integer(number, "i32"), 0), address)

    def store(self, b: Builder, offset: int, value: SSAValue) -> SSAValue:
        """Store a value in the payload; return its address."""
        cell = b.offset(self.payload, offset)
        b.store(value, cell, 8)
        return cell


def payload_bytes(first: int, at: Coords, loops: int, variables: Sequence[Variable]) -> int:
    """Return the size of a payload.

    Args:
        first: The offset of the part that depends on the site.
        at: The coordinates of the lanes.
        loops: The number of enclosing loops.
        variables: The variables to show.
    """
    return first + 8 * (len(at) + loops) + sum(v.capacity for v in variables)


def report(
    e: Emitter,
    prober: Prober,
    number: int,
    to: Destination,
    failed: SSAValue,
    first: int,
    at: Coords,
    variables: Sequence[Variable],
) -> None:
    """Emit code that reports an event if any lane has failed.

    Args:
        prober: The instruments of the function.
        number: The number of the site.
        to: The destination of events of the site.
        failed: The lanes that have failed, as bits.
        first: The offset of coordinates, iterations and variables in the payload.
        at: The coordinates of the lanes.
        variables: The variables to show.
    """
    b = e.b
    some = b.compare("icmp ne", failed, 0)
    yes, no = b.label("failed"), b.label("fine")
    b.cond_branch(some, yes, no)
    b.start(yes)
    with e.cold():
        offset = first
        for axis in at:
            to.store(b, offset, b.cast("zext", axis.base, "i64"))
            offset += 8
        explains = prober.instruments.explains
        for iteration in iterations(e) if explains else ():
            to.store(b, offset, iteration)
            offset += 8
        shown = []
        for variable in variables:
            shown.append(_store_variable(e, variable, to, offset))
            offset += variable.capacity
    site = replace(
        prober.sites[number],
        loops=len(e.iterations) if explains else 0,
        shown=tuple(shown),
        payload=payload_bytes(first, at, len(e.iterations), variables),
    )
    if prober.sites[number].payload and prober.sites[number] != site:
        # A copy of the access in unrolled code that shows other variables needs another site.
        number = len(prober.sites)
        prober.sites.append(site)
        to = replace(to, site=integer(number, "i32"))
    prober.sites[number] = site
    call(b, "report", to.site, to.payload)
    b.branch(no)
    b.start(no)


def iterations(e: Emitter) -> Iterator[SSAValue]:
    """Yield the number of completed iterations of each enclosing loop."""
    b = e.b
    for counter, lower, step in e.iterations:
        way = b.binary("sub", counter, lower)
        iteration = b.binary("sdiv", way, step) if step != "1" else way
        yield e.integers.convert(iteration, "i64")


def _store_variable(e: Emitter, variable: Variable, to: Destination, offset: int) -> Shown:
    element = element_type(variable.value.type)
    chunk = e.operand(variable.value, variable.at)
    alike = isinstance(chunk, Affine) and chunk.is_uniform
    ssa = chunk.base if isinstance(chunk, Affine) and alike else e.vector(chunk)
    to.store(e.b, offset, to_memory(e.b, ssa, element))
    width = lanes_of(ssa.type)
    return Shown(variable.name, str(element), offset, width, is_unsigned(variable.value))


def is_unsigned(value: Value) -> bool:
    """Return whether the uses of an integer treat it as unsigned; MLIR's integers are signless.

    At least one use must treat the value as unsigned, and no use may treat it as signed. Zero
    extension alone proves nothing, because it is also applied to signed values that are known to be
    non-negative.
    """
    signs = {_SIGN.get(_predicated(user)) for user, _ in value.uses}
    return "unsigned" in signs and "signed" not in signs


def _predicated(op: Operation) -> str:
    return f"{op.name} {op.attributes['predicate']}" if op.name == "arith.cmpi" else op.name


# ---- selection of the variables to show


def variables_of(e: Emitter, roots: Sequence[Value], at: Coords) -> list[Variable]:
    """Return the named values from which `roots` were computed, nearest first.

    Kernel parameters are named `%n`. The result of a load is shown, but its address is not followed
    further.

    Args:
        roots: The values to explain.
        at: The coordinates of their lanes.
    """
    variables: dict[str, Variable] = {}
    visited: set[tuple[Value, Coords]] = set()
    pending: list[tuple[Value, Coords, Operation | None]] = [(value, at, None) for value in roots]
    for _ in range(_DEEPEST):
        following = []
        for value, where, user in pending:
            # One value may occur with different coordinates, such as a range used along two axes.
            if (value, where) in visited:
                continue
            visited.add((value, where))
            name = _name(e, value) or (subscripted_name(value, user) if user is not None else "")
            # Triton gives all parts of an expression the name of the assigned variable; the
            # operation that comes last computes the whole expression.
            if name and (
                name not in variables or _order(e, variables[name].value) < _order(e, value)
            ):
                variables[name] = Variable(name, value, where)
            user = value.defining_op
            following += [(operand, theirs, user) for operand, theirs in _operands(value, where)]
        pending = following
    shown = (v for v in variables.values() if e.is_at_hand(v.value, v.at) or _is_cheap(e, v.value))
    return list(shown)[:_MOST_SHOWN]


def _order(e: Emitter, value: Value) -> int:
    """Return the index of the operation that defines a value; -1 for parameters and arguments."""
    op = value.defining_op
    return -1 if op is None or e.prober is None else e.prober.numbers[op]


def _name(e: Emitter, value: Value) -> str:
    if isinstance(element_type(value.type), PointerType):
        return ""
    if value.defining_op is None:
        index = e.signature.parameters.get(value)
        if index is None:
            return argument_name(value)
        # A descriptor becomes several parameters, whose names have a dot.
        name = value.location.name if value.location is not None else None
        return name if name and "." in name else f"%{index}"
    return variable_name(value)


def variable_name(value: Value) -> str:
    """Return the Python variable that a value is assigned to.

    The result is `""` if there is none, or if the value is only a part of the assigned expression.
    """
    location = value.location
    if (
        location is None
        or not location.name
        or any(_is_part_of(value, user) for user, _ in value.uses)
    ):
        return ""
    return location.name


def _is_part_of(value: Value, user: Operation) -> bool:
    """Return whether a value is only part of the value that its user's statement assigns.

    In `y = x * 2 + 1`, Triton gives both the product and the sum the name `y`. The product is a
    part, because the rest of the expression uses it. Columns are not compared, because a column is
    the beginning of the expression or the position of its operator, depending on Triton's version.
    """
    part, whole = value.location, user.location
    return (
        part is not None
        and whole is not None
        and (part.file, part.name, part.callers) == (whole.file, whole.name, whole.callers)
        and whole.line <= part.line
    )


def _is_cheap(e: Emitter, value: Value, depth: int = 0) -> bool:
    """Return whether a value can be evaluated again without accessing memory of the user."""
    op = value.defining_op
    if not value.is_tensor:
        return value in e.scalars
    if e.plan.is_stored(value):
        return True
    if op is None or depth > _DEEPEST or op.has(LOADS):
        return value in e.deltas
    return all(_is_cheap(e, v, depth + 1) for v in op.operands if v.is_tensor)


def _operands(value: Value, at: Coords) -> list[tuple[Value, Coords]]:
    """Return the operands from which a value was computed, each with its coordinates.

    Args:
        at: The coordinates of the value's lanes.
    """
    op = value.defining_op
    if op is None:
        return _carried_pointer(value, at)
    if op.has(READS, FROM_COORDINATES) or op.regions:
        return []
    if (lanes := moved_lanes(value)) is not None:
        return [(op.operands[lanes.operand], moved(lanes, at))]
    if op.has(DISPLACES) or elementwise.is_elementwise(op.name):
        return [(v, at if v.is_tensor else ()) for v in op.operands]
    return []


def _carried_pointer(value: Value, at: Coords) -> list[tuple[Value, Coords]]:
    """Return the values from which a pointer that a loop advances is computed.

    These are the pointer before the loop, the counter and the bound of the counter. Integers that a
    loop carries are not followed, because their earlier values would be mistaken for current ones.
    """
    counted = counted_loop(value)
    if counted is None or not isinstance(element_type(value.type), PointerType):
        return []
    loop, number = counted
    bounds = loop.loop_bounds
    if number < 0 or bounds is None:
        return []
    counter = loop.regions[0].entry.arguments[0]
    return [(carried_values(loop)[number].initial, at), (counter, ()), (bounds[1], ())]


def subscripted_name(value: Value, user: Operation) -> str:
    """Return the variable in the expression that adds axes to a value, or `""` if unknown.

    Triton computes equal ranges once, under the name of the first. After `rm = tl.arange(0, 64)`
    and `rk = tl.arange(0, 64)`, the name `rk` is found only in expressions such as `p + rk[None,
    :]`.
    """
    if not user.has(VIEW) or user.location is None or variable_name(value):
        return ""
    # The location of a broadcast is where the whole expression begins: at `rows` in `rows[:, None]
    # * n + p`.
    if not value.is_tensor or len(user.result_shape) <= len(shape_of(value.type)):
        return ""
    if isinstance(element_type(value.type), PointerType):
        return ""  # pointers are not shown, because their addresses would not help a reader
    return subscripted_variable(user.location)


def named_operands(op: Operation) -> list[Value]:
    """Return the operands that a report of an access explains: its address and mask."""
    return [op.address] if op.mask is None else [op.address, op.mask]


def argument_name(value: Value) -> str:
    """Return the name of the variable that a block argument holds, or `""` if it is unknown.

    Triton records the names of assigned values and of the arguments of a `while`. The name of a
    variable that a `for` carries is that of the yielded value. The name of the loop variable is
    only in the source.
    """
    block = value.owner
    if not isinstance(block, Block) or (loop := block.parent_op) is None:
        return ""
    if loop.has(UNCOUNTED):
        return _recorded_name(value.location)
    if not loop.has(COUNTED):
        return ""
    if value.index == 0:
        return _counter(loop)
    carried = block.terminator.operands[value.index - 1]
    made = carried.defining_op
    return _recorded_name(carried.location) if made is not None and not made.regions else ""


def _recorded_name(location: SourceLocation | None) -> str:
    return location.name or "" if location is not None else ""


def _counter(loop: Operation) -> str:
    location = loop.location
    return loop_variable(location.file, location.line) if location else ""
