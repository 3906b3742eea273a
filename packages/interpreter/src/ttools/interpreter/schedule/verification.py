"""Verification of schedules: each read of a slot must find the value that it expects.

Tensors share slots: a value that a branch yields may be stored in the slot of the result, and one
that a loop yields in the slot of the carried tensor. If two values needed the same slot at the same
time, or if a slot were not filled, results would be wrong without any message. As for register
allocators, a forward data-flow analysis computes which values each slot contains on each path,
independently of how the schedule was created. A load that is executed later than at its place in
the program is treated as a slot that each write to memory empties.

Example: a schedule gives `a` a slot and lets `b` share it.

    a = exp(x)          # slot of a: {a}
    if c:
        b = a + 1       # reads a: its slot holds it.   Afterwards, slot of a: {b}
    d = a * 2           # slot of a after the branch: {b} on one path, {a} on the other

Where paths meet, a slot holds the values that it holds on both paths, here {b} & {a} = {}. The read
of `a` for `d` is therefore reported: it would find `b` if the branch was taken. Without the last
line the schedule is correct, because nothing reads `a` after `b` has been computed. In loops the
states at the start of a block only shrink, so the analysis repeats until they no longer change.

Single elements are not modelled. `schedule.py` decides which operations may overwrite an operand in
place, element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import TypeAlias

from ttools.interpreter.abi.module import Facts
from ttools.interpreter.analysis.effects import Provenance, loads_unwritten
from ttools.interpreter.schedule.branches import is_observable
from ttools.interpreter.schedule.plan import Plan
from ttools.ir import Block, Operation, Region, Value
from ttools.ir.dataflow import carried_values, passings, reachable
from ttools.ir.dialects.traits import BRANCH, COUNTED, READS, STRUCTURED, TERMINATOR

#: The values that each slot contains, keyed by the value that owns the slot.
_State = dict[Value, frozenset[Value]]
#: An edge of control flow: the block that is entered, or None at the end of an operation; the
#: values that are passed; and the values that receive them.
_Edge: TypeAlias = "tuple[Block | None, Sequence[Value], Sequence[Value]]"


def verify_plan(function: Operation, plan: Plan, facts: Facts, provenance: Provenance) -> list[str]:
    """Return a sentence for each error in the schedule of a `tt.func`."""
    problems = [
        f"{v!r} has its own slot and shares another one" for v in plan.shares if v in plan.stored
    ]
    checker = _Checker(plan, facts, provenance)
    checker.region(function.regions[0])
    return problems + list(checker.problems)


def _meet(a: _State, b: _State) -> _State:
    """Return the values that each slot contains on both of two paths."""
    return {slot: a[slot] & b[slot] for slot in a.keys() & b.keys()}


class _Checker:
    def __init__(self, plan: Plan, facts: Facts, provenance: Provenance) -> None:
        self.plan, self.state = plan, _State()
        self.facts, self.provenance = facts, provenance
        #: The problems found, as keys of a dictionary, which unlike a set keeps their order.
        self.problems: dict[str, None] = {}
        #: The initial values of tensors that are represented as an initial value and an increment.
        self.initial: dict[Value, Value] = {}
        #: Members of the current fusion group, whose chunks are in registers.
        self.at_hand: set[Value] = set()

    def report(self, problem: str) -> None:
        self.problems[problem] = None

    # ---- slots
    def write(self, value: Value) -> None:
        self.state[self.plan.owner(value)] = frozenset((value,))

    def read(self, values: Iterable[Value], reader: Operation) -> None:
        """Check all slots that are read when expressions are evaluated at an operation's place."""

        def below(value: Value) -> list[Value]:
            op = value.defining_op
            if value in self.at_hand or self.plan.is_stored(value):
                return []
            if value in self.initial:
                return [self.initial[value]]
            if op in self.plan.lane_swaps:
                return [self.plan.lane_swaps[op][0]]
            return [v for v in op.operands if v.is_tensor] if op is not None else []

        for value in reachable((v for v in values if v.is_tensor), below):
            op = value.defining_op
            if value in self.at_hand:
                continue
            if self.plan.is_stored(value):
                if value not in self.state.get(self.plan.owner(value), frozenset()):
                    self.report(f"{reader!r} reads {value!r}, but its slot contains another value")
            elif op is not None and self.waits(op) and value not in self.state:
                self.report(f"{reader!r} executes {op!r} after a write to memory")

    def waits(self, op: Operation) -> bool:
        """Return whether an operation is a load that is delayed but must precede later writes."""
        return (
            READS in op.traits
            and op.results[0].is_tensor
            and not self.plan.is_stored(op.results[0])
            and not loads_unwritten(op, self.facts.readonly, self.provenance)
        )

    def move(self, moves: Sequence[tuple[Value, Value]], reader: Operation) -> None:
        """Copy values to slots: all stored values as if at the same time, and then expressions.

        Args:
            moves: Pairs of a source and the value whose slot receives it.
            reader: The operation at whose place the values are copied.
        """
        moves = [(s, t) for s, t in moves if s.is_tensor and self.plan.is_stored(t)]
        self.read([s for s, _ in moves if self.plan.is_stored(s)], reader)
        for source, target in moves:
            if self.plan.is_stored(source):
                owner = self.plan.owner(target)
                values = self.state.get(owner, frozenset())
                stays = self.plan.owner(source) == owner
                self.state[owner] = values | {target} if stays else frozenset((target,))
        for source, target in moves:
            if not self.plan.is_stored(source):
                self.read([source], reader)
                self.write(target)

    # ---- control flow
    def region(self, region: Region) -> None:
        """Check a function."""
        for argument in region.entry.arguments:
            if self.plan.is_stored(argument):
                self.write(argument)

        def edges(block: Block) -> Iterator[_Edge]:
            for target, forwarded in block.terminator.successors:
                yield target, forwarded, target.arguments

        self.follow({region.entry: self.state}, edges)

    def follow(self, entry: dict[Block, _State], edges: Callable[[Block], Iterable[_Edge]]) -> None:
        """Follow all paths through blocks until the states at the starts of blocks do not change.

        Args:
            entry: The states at the starts of the blocks that are entered first. The states of all
                other blocks are added.
            edges: Returns the edges of control flow that leave a block.
        """
        exits: list[_State] = []
        pending = list(entry)
        while pending:
            block = pending.pop()
            self.state = dict(entry[block])
            for op in block.operations:
                if op not in self.plan.skipped:
                    self.operation(op)
            left = self.state
            for target, values, receivers in edges(block):
                self.state = dict(left)
                self.move(list(zip(values, receivers, strict=True)), block.terminator)
                if target is None:
                    exits.append(self.state)
                    continue
                joined = _meet(entry[target], self.state) if target in entry else self.state
                if joined != entry.get(target):
                    entry[target] = joined
                    pending.append(target)
        if exits:
            self.state = reduce(_meet, exits)

    def structured(self, op: Operation) -> None:
        """Check a loop or branch, along the edges of control flow that the operation declares."""
        is_counted = COUNTED in op.traits
        if is_counted:
            for carried in carried_values(op):
                if carried.argument in self.plan.increments:
                    self.initial[carried.argument] = carried.initial
                    self.initial[carried.result] = carried.initial
        edges = [edge for edge in passings(op) if edge.target is not None or not is_counted]
        before, entry = self.state, dict[Block, _State]()
        for edge in edges:
            if edge.source is None and edge.target is not None:
                self.state = dict(before)
                self.move(list(zip(edge.values, edge.receivers, strict=True)), op)
                entry[edge.target] = self.state
        self.follow(
            entry,
            lambda block: [
                (edge.target, edge.values, edge.receivers) for edge in edges if edge.source is block
            ],
        )
        if is_counted:
            self.state = dict(entry[op.regions[0].entry])
            self.end_counted_loop(op)
        elif not all(region.blocks for region in op.regions):
            self.state = _meet(self.state, before)  # the path of a missing `else`

    def end_counted_loop(self, op: Operation) -> None:
        """Record that the carried values of a loop become its results, which share their slots."""
        for _, argument, _, result in carried_values(op):
            if not self.plan.is_stored(result):
                continue
            if result in self.initial:
                self.read([self.initial[result]], op)
                self.write(result)
                continue
            owner = self.plan.owner(result)
            values = self.state.get(owner, frozenset())
            if argument in values:
                self.state[owner] = values | {result}

    # ---- operations
    def operation(self, op: Operation) -> None:
        traits = op.traits
        holder = op.parent_op
        ends_region = TERMINATOR in traits and holder is not None and STRUCTURED in holder.traits
        if BRANCH in traits or ends_region:
            return  # the values that it passes are handled by the edges of control flow
        if STRUCTURED in traits:
            self.structured(op)
        elif op in self.plan.fusion_groups:
            self.fusion_group(op)
        else:
            if is_observable(op):
                waiting = [v for v in self.state if not self.plan.is_stored(v)]
                for value in waiting:
                    del self.state[value]
            stored = [v for v in op.results if self.plan.is_stored(v)]
            if not op.results or stored or not all(v.is_tensor for v in op.results):
                self.read(op.operands, op)
            for n, value in enumerate(stored):
                if n > 0:
                    self.read(op.operands, op)  # each result is computed by its own loop
                self.write(value)
            if READS in traits and self.waits(op):
                self.write(op.results[0])

    def fusion_group(self, last: Operation) -> None:
        for member in self.plan.fusion_groups[last].members:
            assert member.defining_op is not None
            self.read(member.defining_op.operands, last)
            if self.plan.is_stored(member):
                self.write(member)
            self.at_hand.add(member)
        self.at_hand.clear()
