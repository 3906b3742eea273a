"""Whether every read of a slot finds the value that is wanted there.

Tensors share slots: what a branch yields lies in its result's, what a loop yields in that of the
carried tensor. A schedule in which two values want one slot at the same time, or in which nothing
fills a slot, is a silent wrong answer. This is the check that register allocators have: a forward
dataflow analysis of which values each slot holds on every path, which knows nothing of how the
schedule was found. A load that waits until its value is wanted is looked at in the same way: as a
slot that each write to memory empties. Must not know anything of single elements: that an operation
may read and write one slot in place is decided in `schedule`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ttools.interpreter.abi.module import Facts
from ttools.interpreter.analysis.effects import Provenance, loads_unwritten
from ttools.interpreter.schedule.branches import is_observable
from ttools.interpreter.schedule.plan import Plan
from ttools.ir import Block, Operation, Region, Value
from ttools.ir.dataflow import carried_values, reachable
from ttools.ir.dialects.traits import BRANCH, COUNTED, LOOP, READS, STRUCTURED

#: The values that each slot, named by the value that owns it, holds.
_State = dict[Value, frozenset[Value]]


def verify_plan(function: Operation, plan: Plan, facts: Facts, provenance: Provenance) -> list[str]:
    """What is wrong with the schedule of a `tt.func`, one sentence each; empty if nothing is."""
    problems = [
        f"{v!r} has a slot of its own and another's" for v in plan.shares if v in plan.stored
    ]
    checker = _Checker(plan, facts, provenance)
    checker.region(function.regions[0])
    return problems + list(checker.problems)


def _meet(a: _State, b: _State) -> _State:
    """What slots hold on both of two paths."""
    return {slot: a[slot] & b[slot] for slot in a.keys() & b.keys()}


class _Checker:
    def __init__(self, plan: Plan, facts: Facts, provenance: Provenance) -> None:
        self.plan, self.state = plan, _State()
        self.facts, self.provenance = facts, provenance
        #: A dictionary for its order.
        self.problems: dict[str, None] = {}
        #: Tensors kept as their initial value plus an increment, and that initial value.
        self.initial: dict[Value, Value] = {}
        self.at_hand: set[Value] = set()

    def found(self, problem: str) -> None:
        self.problems[problem] = None

    # ---- slots
    def write(self, value: Value) -> None:
        self.state[self.plan.owner(value)] = frozenset((value,))

    def read(self, values: Iterable[Value], reader: Operation) -> None:
        """Reads all slots that expressions end in, where `reader` stands."""

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
                    self.found(f"{reader!r} reads {value!r}, which its slot does not hold")
            elif op is not None and self.waits(op) and value not in self.state:
                self.found(f"{reader!r} executes {op!r} after a write to memory")

    def waits(self, op: Operation) -> bool:
        """Whether an operation is a load that must not wait across a write, and does wait."""
        return (
            op.has(READS)
            and op.results[0].is_tensor
            and not self.plan.is_stored(op.results[0])
            and not loads_unwritten(op, self.facts.readonly, self.provenance)
        )

    def move(self, moves: Sequence[tuple[Value, Value]], reader: Operation) -> None:
        """Stores each source in its target's slot: slots as if at once, then what is computed."""
        moves = [(s, t) for s, t in moves if s.is_tensor and self.plan.is_stored(t)]
        self.read([s for s, _ in moves if self.plan.is_stored(s)], reader)
        for source, target in moves:
            if self.plan.is_stored(source):
                owner = self.plan.owner(target)
                held = self.state.get(owner, frozenset())
                stays = self.plan.owner(source) == owner
                self.state[owner] = held | {target} if stays else frozenset((target,))
        for source, target in moves:
            if not self.plan.is_stored(source):
                self.read([source], reader)
                self.write(target)

    # ---- program order
    def region(self, region: Region) -> None:
        """Follows all paths through a function's blocks, until nothing changes any more."""
        entry: dict[Block, _State] = {}
        for argument in region.entry.arguments:
            if self.plan.is_stored(argument):
                self.write(argument)
        entry[region.entry] = self.state
        pending = [region.entry]
        while pending:
            block = pending.pop()
            self.state = dict(entry[block])
            self.operations(block)
            left = self.state
            for target, forwarded in block.terminator.successors:
                self.state = dict(left)
                self.move(list(zip(forwarded, target.arguments, strict=True)), block.terminator)
                joined = _meet(entry[target], self.state) if target in entry else self.state
                if joined != entry.get(target):
                    entry[target] = joined
                    pending.append(target)

    def operations(self, block: Block) -> None:
        for op in block.operations:
            if op not in self.plan.skipped:
                self.operation(op)

    def body(self, block: Block) -> None:
        """A block of a structured operation, whose terminator belongs to that operation."""
        for op in block.operations[:-1]:
            if op not in self.plan.skipped:
                self.operation(op)

    def operation(self, op: Operation) -> None:
        traits = op.traits
        if BRANCH in traits:
            return  # along its edges
        if LOOP in traits:
            (self.for_loop if COUNTED in traits else self.while_loop)(op)
        elif STRUCTURED in traits:
            self.conditional(op)
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
                    self.read(op.operands, op)  # each result is computed by itself
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

    def for_loop(self, op: Operation) -> None:
        body, carried = op.regions[0].entry, carried_values(op)
        for init, argument, _, result in carried:
            if argument in self.plan.increments:
                self.initial[argument] = self.initial[result] = init
        self.move([(each.initial, each.argument) for each in carried], op)
        header = dict(self.state)
        while True:
            self.body(body)
            self.move([(each.yielded, each.argument) for each in carried], op)
            joined = _meet(header, self.state)
            if joined == header:
                break
            header, self.state = joined, dict(joined)
        self.state = header
        for _, argument, _, result in carried:
            if result in self.initial:
                if self.plan.is_stored(result):
                    self.read([self.initial[result]], op)
                    self.write(result)
            elif self.plan.is_stored(result):
                self.becomes(argument, result)

    def becomes(self, argument: Value, result: Value) -> None:
        """A loop ends: what its argument's slot holds is its result, if they have one slot."""
        owner = self.plan.owner(result)
        held = self.state.get(owner, frozenset())
        if argument in held:
            self.state[owner] = held | {result}

    def while_loop(self, op: Operation) -> None:
        before, after = (region.entry for region in op.regions)
        self.move(list(zip(op.operands, before.arguments, strict=True)), op)
        header = dict(self.state)
        passed = before.terminator.operands[1:]
        while True:
            self.body(before)
            left = dict(self.state)
            self.move(list(zip(passed, after.arguments, strict=True)), op)
            self.body(after)
            self.move(list(zip(after.terminator.operands, before.arguments, strict=True)), op)
            joined = _meet(header, self.state)
            if joined == header:
                break
            header, self.state = joined, dict(joined)
        self.state = left
        self.move(list(zip(passed, op.results, strict=True)), op)

    def conditional(self, op: Operation) -> None:
        before, ends = self.state, []
        for region in op.regions:
            self.state = dict(before)
            if region.blocks:
                block = region.entry
                self.body(block)
                self.move(list(zip(block.terminator.operands, op.results, strict=True)), op)
            ends.append(self.state)
        self.state = ends[0] if len(ends) == 1 else _meet(*ends)
