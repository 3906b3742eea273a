"""Shadow values: which values need one, and how they follow the kernel's control flow.

A pass defines what it tracks by `Rules`. A *key* stands for one reason why lanes of a value may be
defective, for example one masked load; a value and a key have one shadow. `Tracking` works in three
steps:

1. A fixed point finds which keys may reach each value (`state`).
2. The pass demands the shadows that its checks need (`demand`), which also demands the shadows on
   which they depend.
3. `build` creates the demanded shadows, also through loops, branches and blocks.

In this loop, key `k` of the load reaches `acc` around the back edge, so the loop carries a shadow:

    acc = 0                                   acc, s = 0, false
    for i in range(n):                        for i in range(n):
        x = load(p + i, mask)     # key k         x = load(p + i, mask); s_x = not mask
        acc = acc + x                             acc = acc + x;  s = s or s_x
    store(q, acc)                             check(s); store(q, acc)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol, TypeAlias

from ttools.ir import Block, Operation, Type, Value
from ttools.ir.dataflow import (
    ForwardAnalysis,
    control_sources,
    passings,
    reachable,
)
from ttools.ir.dialects.traits import STRUCTURED
from ttools.ir.rewriting import (
    Builder,
    Rewriter,
    add_argument,
    add_operand,
    add_result,
    forward,
)
from ttools.sanitizer.passes.check import Note

Key: TypeAlias = Hashable
#: The keys that may reach a value, each with a mark whose meaning the rules define.
State: TypeAlias = "Mapping[Key, Hashable]"
Demand: TypeAlias = "tuple[Value, Key]"

_NOTHING: State = {}
#: Maximum number of keys that are followed per value, because N operations with N keys each take
#: N**2 steps.
_MOST_KEYS = 256
#: If this many shadows are demanded, further checks are left out.
_MOST_SHADOWS = 16_384


class Lookup(Protocol):
    """The states and shadows that rules may look up while a function is tracked."""

    def state(self, value: Value) -> State:
        """Return the keys that may reach a value."""

    def shadow(self, value: Value, key: Key) -> Value | None:
        """Return the shadow of a value for a key; None if the key cannot reach the value."""


class Rules(Protocol):
    """The rules by which a pass's keys and shadows propagate."""

    def transfer(self, op: Operation, index: int, lookup: Lookup) -> State:
        """Return the state of result `index` of an operation without control flow."""

    def join(self, first: object, second: object) -> Hashable:
        """Return the combined mark of a key that reaches a value on two paths."""

    def moved(self, target: Value, state: State) -> State:
        """Return the part of a state that remains when control flow passes it to `target`."""

    def depends(self, op: Operation, index: int, key: Key, lookup: Lookup) -> Iterator[Demand]:
        """Yield the shadows on which `build` depends."""

    def build(self, b: Builder, op: Operation, index: int, key: Key, lookup: Lookup) -> Value:
        """Build the shadow of a result, right after `op`."""

    def shadow_type(self, value: Value, key: Key) -> Type:
        """Return the type of a shadow."""

    def default(self, b: Builder, value: Value, key: Key) -> Value:
        """Build the shadow of a value that the key cannot reach."""


class Tracking(ForwardAnalysis[State]):
    """The shadows of one function.

    Args:
        function: The kernel, without calls.
        rules: The rules of the pass.
        rewriter: Receives the insertions, which the caller applies.
        most: Maximum number of keys that are followed per value; the first to reach the value are
            kept.

    Attributes:
        curtailed: True if a value has more keys than are followed.
    """

    def __init__(
        self, function: Operation, rules: Rules, rewriter: Rewriter, most: int = _MOST_KEYS
    ) -> None:
        super().__init__()
        self._function, self._rules, self._rewriter = function, rules, rewriter
        self._demanded: dict[Value, dict[Key, None]] = {}
        self._shadows: dict[Demand, Value] = {}
        self._most, self._count = most, 0
        self.curtailed = False
        self.solve(function)

    def state(self, value: Value) -> State:
        return self.states.get(value, _NOTHING)

    def shadow(self, value: Value, key: Key) -> Value | None:
        return self._shadows.get((value, key))

    # ---- what may reach a value
    def transfer(self, op: Operation, value: Value) -> State:
        return self._rules.transfer(op, value.index, self)

    def moved(self, value: Value) -> State:
        joined: dict[Key, Hashable] = {}
        for source in control_sources(value):
            for key, mark in self._rules.moved(value, self.state(source)).items():
                joined[key] = self._rules.join(joined[key], mark) if key in joined else mark
        return joined

    def update(self, value: Value, previous: State | None, new: State, iteration: int) -> State:
        """Limit the keys of a state.

        Keys of the previous state are kept, because otherwise the fixed point might not be reached.
        """
        if len(new) <= self._most:
            return new
        self.curtailed = True
        kept = dict.fromkeys((*(k for k in previous or () if k in new), *new))
        return {key: new[key] for key in islice(kept, self._most)}

    # ---- what is needed
    def demand(self, value: Value, key: Key) -> None:
        """Demand a shadow and all shadows on which it depends."""

        def needed(wanted: Demand) -> Iterable[Demand]:
            value, by = wanted
            if by not in self.state(value) or by in self._demanded.get(value, ()):
                return ()
            self._demanded.setdefault(value, {})[by] = None
            self._count += 1
            op = value.defining_op
            if op is None or op.has(STRUCTURED):
                return [(source, by) for source in control_sources(value)]
            return self._rules.depends(op, value.index, by, self)

        deque(reachable([(value, key)], needed), maxlen=0)

    def affordable(self, demands: Iterable[Sequence[Demand]]) -> int:
        """Demand the shadows of the checks, one check after the other, until the limit is reached.

        Returns:
            The number of checks whose shadows are demanded, at least one.
        """
        served = 0
        for wanted in demands:
            if self._count >= _MOST_SHADOWS:
                break
            for value, key in wanted:
                self.demand(value, key)
            served += 1
        return served

    def left_out(self, only: str, checked: int, wanted: int, what: str) -> list[Note]:
        """Return a note if there were too many checks to insert all of them.

        Args:
            only: The beginning of the note, for example `only 3`.
            checked: Number of checks that were inserted.
            wanted: Number of checks that were found for the followed keys.
            what: Noun phrase for the things that the checks examine.
        """
        if checked == wanted and not self.curtailed:
            return []
        count = f"{'more than ' if self.curtailed else ''}{wanted}"
        return [Note(self._function.location, f"{only} of {count} {what} are checked")]

    def _wanted(self, *values: Value) -> list[Key]:
        return list(dict.fromkeys(k for v in values for k in self._demanded.get(v, ())))

    # ---- building
    def build(self) -> None:
        """Build all demanded shadows; the rewriter collects the insertions."""
        blocks = _reverse_postorder(self._function.regions[0].blocks)
        passed: list[tuple[Value, Key]] = []
        for block in blocks[1:]:
            for argument in list(block.arguments):
                for key in self._wanted(argument):
                    self._add_argument(block, argument, key)
                    passed.append((argument, key))
        for block in blocks:
            self._block(block)
        for argument, key in passed:
            self._forward(argument, key)

    def _block(self, block: Block) -> None:
        for op in list(block.operations):
            if op.has(STRUCTURED):
                self._structured(op)
                continue
            wanted = [(value, key) for value in op.results for key in self._wanted(value)]
            # Shadows that are derived from other shadows of the same operation come last.
            for value, key in sorted(wanted, key=lambda demand: self._is_derived(op, demand)):
                b = self._rewriter.after(op)
                self._shadows[value, key] = self._rules.build(b, op, value.index, key, self)

    def _is_derived(self, op: Operation, demand: Demand) -> bool:
        value, key = demand
        needed = self._rules.depends(op, value.index, key, self)
        return any(source.owner is op for source, _ in needed)

    def _add_argument(self, block: Block, argument: Value, key: Key) -> None:
        self._shadows[argument, key] = add_argument(block, self._rules.shadow_type(argument, key))

    def _passed(self, at: Operation, value: Value, key: Key) -> Value:
        """Return the shadow of a value that the control flow operation `at` passes on."""
        shadow = self._shadows.get((value, key))
        if shadow is not None:
            return shadow
        return self._rules.default(self._rewriter.before(at), value, key)

    def _forward(self, argument: Value, key: Key) -> None:
        assert isinstance(argument.owner, Block)
        region = argument.owner.parent
        assert region is not None
        for block in region.blocks:
            branch = block.terminator
            for number, (target, values) in enumerate(branch.successors):
                if target is argument.owner:
                    value = values[argument.index]
                    forward(branch, number, [self._passed(branch, value, key)])

    def _structured(self, op: Operation) -> None:
        """Pass shadows along with the values of a loop or branch, and build its blocks."""
        edges = passings(op)
        demands: list[list[tuple[Value, Value, Key]]] = []
        for edge in edges:
            # A value is passed along all edges from the same source, so its shadows are passed,
            # too.
            alike = [other.receivers for other in edges if other.source is edge.source]
            demands.append(
                [
                    (value, edge.receivers[n], key)
                    for n, value in enumerate(edge.values)
                    for key in self._wanted(*(receivers[n] for receivers in alike))
                ]
            )

        def passes(source: Block | None) -> None:
            end = op if source is None else source.terminator
            own = (
                wanted for edge, wanted in zip(edges, demands, strict=True) if edge.source is source
            )
            for value, _, key in next(own, []):
                add_operand(end, self._passed(end, value, key))

        def receives(target: Block | None) -> None:
            own = (
                wanted for edge, wanted in zip(edges, demands, strict=True) if edge.target is target
            )
            for _, receiver, key in next(own, []):
                if target is not None:
                    self._add_argument(target, receiver, key)
                else:
                    shadow = add_result(op, self._rules.shadow_type(receiver, key))
                    self._shadows[receiver, key] = shadow

        passes(None)
        for region in op.regions:
            if region.blocks:
                receives(region.entry)
                self._block(region.entry)
                passes(region.entry)
        receives(None)


def _reverse_postorder(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks of a function, each after the blocks that dominate it."""
    order: list[Block] = []
    visited: set[Block] = {blocks[0]}
    stack: list[tuple[Block, Iterator[tuple[Block, list[Value]]]]] = [
        (blocks[0], iter(blocks[0].terminator.successors))
    ]
    while stack:
        block, successors = stack[-1]
        target = next((t for t, _ in successors if t not in visited), None)
        if target is None:
            order.append(block)
            stack.pop()
        else:
            visited.add(target)
            stack.append((target, iter(target.terminator.successors)))
    return [*reversed(order), *(block for block in blocks if block not in visited)]
