"""Data-flow solvers for analyses of the IR, and functions that return the sources of values.

There are three solvers:

- `reachable` visits every node that can be reached from some start nodes, each of them once. It
  computes slices, forwards or backwards.
- `OnDemand` computes a property of a value on request, after the same property of its inputs. It
  suits chains of index arithmetic, where an analysis stops at control flow or handles it itself.
- `ForwardAnalysis` computes a fixed point over all values of a function. It passes over the
  function in program order until nothing changes, and follows loops, branches and blocks.

In structured control flow, values follow the edges that the operations declare (`dialects.flow`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from ttools.core.process.phases import tick
from ttools.ir.core import Block, Operation, Value
from ttools.ir.dialects.flow import Edge
from ttools.ir.dialects.traits import FUNCTION, LOOP, STRUCTURED
from ttools.ir.nesting import outside_combines

T = TypeVar("T")
Node = TypeVar("Node", bound=Hashable)


def reachable(
    starts: Iterable[Node], following: Callable[[Node], Iterable[Node]]
) -> Iterator[Node]:
    """Yield the given nodes and all nodes reachable from them, once each, in breadth-first order.

    Args:
        following: Returns the successors of a node; called after the node was yielded.
    """
    queue = list(dict.fromkeys(starts))
    visited = set(queue)
    for node in queue:  # the loop appends to the queue
        yield node
        for other in following(node):
            if other not in visited:
                visited.add(other)
                queue.append(other)


class OnDemand(ABC, Generic[T]):
    """Computes a property of values on request, once for each value, without deep recursion."""

    def __init__(self) -> None:
        self.known: dict[Value, T] = {}

    def inputs(self, value: Value) -> Sequence[Value]:
        """Return the values whose property must be known before that of `value` is computed."""
        op = value.defining_op
        return op.operands if op is not None else ()

    @abstractmethod
    def compute(self, value: Value) -> T:
        """Return the property of a value; `self.known` contains the property of its inputs."""

    def of(self, value: Value) -> T:
        """Return the property of a value, which is computed at the first request."""
        computed = self.known
        if value not in computed:
            pending = [value]
            while pending:
                current = pending[-1]
                if current in computed:
                    pending.pop()
                    continue
                missing = [v for v in self.inputs(current) if v not in computed]
                if missing:
                    pending += missing
                    continue
                pending.pop()
                computed[current] = self.compute(current)
        return computed[value]


class ForwardAnalysis(ABC, Generic[T]):
    """Computes the state of every value of a function as a fixed point of transfer functions.

    Attributes:
        states: Maps each reached value to its state.
    """

    def __init__(self) -> None:
        self.states: dict[Value, T] = {}

    def follows(self, value: Value) -> bool:
        """Return whether a value is analysed."""
        return True

    @abstractmethod
    def transfer(self, op: Operation, value: Value) -> T | None:
        """Return the state of an operation's result; None if an operand has no state yet."""

    @abstractmethod
    def moved(self, value: Value) -> T | None:
        """Return the state of a block argument or a result of control flow; None if unknown."""

    def update(self, value: Value, known: T | None, new: T, iteration: int) -> T:
        """Return the next state of a value; the default is `new`.

        An analysis with loops must join both states, and widen the result after some iterations so
        that a fixed point is reached.

        Args:
            known: Current state; None if the value has none yet.
            new: State that was just computed from the current states of other values.
            iteration: Number of the pass over the function, counted from 0.
        """
        return new

    def solve(self, function: Operation) -> None:
        """Compute the states of a function, starting from those that `states` already contains."""
        ops = [op for op in outside_combines(function) if op is not function]
        flowing = [function, *(op for op in ops if op.has(STRUCTURED))]
        # Without control flow, every operand is computed before its uses, so one pass is enough.
        straight = len(flowing) == 1 and len(function.regions[0].blocks) == 1
        sources: list[tuple[Operation | None, Value]] = []
        for op in [function, *ops]:
            moves = op is function or op.has(STRUCTURED)
            values = [*op.results, *block_arguments(op)] if moves else op.results
            sources += [(None if moves else op, value) for value in values if self.follows(value)]
        states = self.states
        for iteration in count():
            changed = False
            tick()
            for made, value in sources:
                new = self.moved(value) if made is None else self.transfer(made, value)
                if new is None:
                    continue
                state = states.get(value)
                new = self.update(value, state, new, iteration)
                if new != state:
                    states[value] = new
                    changed = True
            if straight or not changed:
                return


def block_arguments(op: Operation) -> Iterator[Value]:
    """Yield the arguments of all blocks of an operation."""
    for region in op.regions:
        for block in region.blocks:
            yield from block.arguments


def control_sources(value: Value) -> list[Value]:
    """Return the values that may flow into a block argument or a result of a region."""
    op = value.defining_op
    if op is not None:
        return region_result_sources(op, value.index)
    assert isinstance(value.owner, Block)
    return [v for v in block_argument_sources(value, value.owner) if v is not None]


def block_argument_sources(value: Value, block: Block) -> list[Value | None]:
    """Return the values that may flow into a block argument; None stands for an unknown value.

    For example, the result for a parameter of a function is `[None]`.
    """
    region = block.parent
    op = block.parent_op
    if region is None or op is None:
        return [None]
    edges = op.declaration.flow
    if edges:
        number = 0 if region is op.regions[0] else op.regions.index(region)
        sources: list[Value | None] = []
        for edge in edges:
            if edge.target == number and value.index >= edge.own:
                sources.append(_passed(op, edge)[value.index - edge.own])
        return sources
    if op.has(FUNCTION) and block is region.entry:
        return [None]
    incoming: list[Value | None] = []
    for other in region.blocks:
        for target, forwarded in other.terminator.successors:
            if target is block:
                incoming.append(forwarded[value.index])
    return incoming or [None]


def region_result_sources(op: Operation, index: int) -> list[Value]:
    """Return the values that may flow into result `index` of structured control flow."""
    return [
        _passed(op, edge)[index]
        for edge in op.declaration.flow
        if edge.target is None and _is_taken(op, edge)
    ]


def _is_taken(op: Operation, edge: Edge) -> bool:
    """Return whether the regions that an edge connects exist; `scf.if` may have no else region."""
    numbers = (number for number in (edge.source, edge.target) if number is not None)
    return all(number < len(op.regions) and op.regions[number].blocks for number in numbers)


def _passed(op: Operation, edge: Edge) -> list[Value]:
    """Return the values that an operation passes along an edge."""
    source = op if edge.source is None else op.regions[edge.source].entry.terminator
    return source.operands[edge.skipped :]


class Passing(NamedTuple):
    """Values that structured control flow passes along one edge.

    Attributes:
        source: The block whose terminator passes the values; None if the operation passes them.
        target: The block that receives the values as arguments; None if they become results.
        values: The values that are passed.
        receivers: The block arguments or results that receive them, in the same order.
    """

    source: Block | None
    target: Block | None
    values: list[Value]
    receivers: list[Value]


def passings(op: Operation) -> list[Passing]:
    """Return the values that a structured operation passes along each edge, in declared order."""
    passed: list[Passing] = []
    for edge in op.declaration.flow:
        if _is_taken(op, edge):
            source = None if edge.source is None else op.regions[edge.source].entry
            target = None if edge.target is None else op.regions[edge.target].entry
            receivers = op.results if target is None else target.arguments
            passed.append(Passing(source, target, _passed(op, edge), receivers[edge.own :]))
    return passed


class Carried(NamedTuple):
    """A value that a counted loop carries from iteration to iteration.

    In `acc = 0.0`, followed by a loop with the body `acc += x`, `initial` is 0.0, `argument` is
    `acc` before the addition, `yielded` is the sum, and `result` is `acc` after the loop.

    Attributes:
        initial: Operand of the loop: the value before the first iteration.
        argument: Block argument: the value at the start of an iteration.
        yielded: Operand of the terminator: the value at the end of an iteration.
        result: Result of the loop: the value after the last iteration.
    """

    initial: Value
    argument: Value
    yielded: Value
    result: Value


def carried_values(loop: Operation) -> list[Carried]:
    """Return the values that a loop of one region carries, in order."""
    enters = repeats = None
    for edge in loop.declaration.flow:
        if edge.target == 0:
            enters, repeats = (edge, repeats) if edge.source is None else (enters, edge)
    assert enters is not None
    assert repeats is not None
    arguments = loop.regions[0].entry.arguments[enters.own :]
    initial, yielded = _passed(loop, enters), _passed(loop, repeats)
    return [
        Carried(*fields) for fields in zip(initial, arguments, yielded, loop.results, strict=True)
    ]


def counted_loop(value: Value) -> tuple[Operation, int] | None:
    """Return the counted loop that carries a value, and the position of the value in the loop.

    Returns:
        The loop, and the index of the value in `carried_values(loop)`, or -1 for the loop's
        counter. None if no counted loop carries the value.
    """
    op = value.defining_op
    if op is not None:
        return (op, value.index) if op.has(LOOP) and op.loop_bounds else None
    assert isinstance(value.owner, Block)
    loop = value.owner.parent_op
    if loop is None or not loop.has(LOOP) or loop.loop_bounds is None:
        return None
    return loop, value.index - loop.declaration.flow[0].own


def deciding_values(op: Operation) -> list[Value]:
    """Return the values that determine which blocks of an operation run, and how often."""
    deciders = [op.operand("condition"), *(op.loop_bounds or ())]
    deciders += [
        region.entry.terminator.operand("condition") for region in op.regions if region.blocks
    ]
    return [value for value in deciders if value is not None]
