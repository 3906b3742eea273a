"""The schedule: which tensors are stored in memory, and which are recomputed where they are used.

The schedule is decided before code is emitted; the result is a `Plan`. A tensor that is stored has
a slot, which is filled at the place where the tensor is defined. Any other tensor is an expression,
which is evaluated chunk by chunk at each use. There are two schedules. `materialised`, the oracle
in tests, stores each tensor except constants. `fused` stores a tensor only in these cases: an
operation needs the whole tile; a loop carries it; it would otherwise be computed at a time at which
memory may have changed; or it is expensive and would be computed more than once. For the third
reason, a load is an expression only if the launch never writes the memory (`Facts.readonly`) or if
nothing can happen between its place and its use.

Example, with a read-only `x_ptr` and 1024 columns:

    x = tl.load(x_ptr + cols)                        # a cheap expression
    e = tl.exp(x - tl.max(x, axis=0))                # expensive and used twice, so it is stored
    tl.store(out_ptr + cols, e / tl.sum(e, axis=0))

This becomes four loops: the maximum, which loads `x`; the slot of `e`, which loads `x` again; the
sum, which reads this slot; and the store, which reads it again and divides. The index `cols`, the
pointers, the difference and the quotient have no slot. If the launch might write the memory of
`x_ptr`, another loop would first store `x`, and the first two loops would read its slot.
`docs/design/pipeline.md` follows this kernel through all steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ttools.interpreter.elementwise as elementwise
from ttools.interpreter.abi.module import EmitOptions, Facts
from ttools.interpreter.analysis.effects import Provenance, loads_unwritten
from ttools.interpreter.analysis.lane_swap import is_only_swapped, swapped_as_bits, swapped_lanes
from ttools.interpreter.schedule.branches import (
    blocks_of,
    share_results,
    waits_for_yield,
    yielded_twice,
)
from ttools.interpreter.schedule.fusion_groups import plan_fusion_groups
from ttools.interpreter.schedule.plan import Plan
from ttools.ir import Block, Operation, Value, operands_first
from ttools.ir.dataflow import carried_values, reachable
from ttools.ir.dialects.traits import (
    ATOMIC,
    BRANCH,
    CALL,
    CONDITIONAL,
    CONSTANT,
    COUNTED,
    CROSS_LANE,
    DISPLACES,
    ELEMENTWISE,
    FROM_COORDINATES,
    FUNCTION,
    GATHERS,
    LOADS,
    LOOP,
    STRUCTURED,
    VIEW,
)
from ttools.ir.domains.regularity import Regularity
from ttools.ir.nesting import (
    ancestor_in,
    around,
    definition_depth,
    loop_depth,
    outside_combines,
)

#: A value of at least this cost is stored if several operations use it.
COSTLY = 8
#: A value of at least this cost is stored if a broadcast or a loop would compute it repeatedly.
COSTLY_REPEATED = 3
#: A value of at least this cost is always stored. LLVM's time for a basic block grows with the
#: square of its length, and compared with this cost, a store adds little to the run time.
COSTLY_AT_ONCE = 400
#: Elementwise operations and views with none of these traits need no tile in memory, except for
#: some inline assembly.
_FORCING = frozenset({ATOMIC, BRANCH, CALL, COUNTED, CROSS_LANE, FUNCTION, LOADS, STRUCTURED})
#: The largest number of successive operations that change coordinates before a tile is stored. Each
#: is emitted inside the next one and deepens Python's stack.
_MOST_VIEWS = 16


def make_plan(
    function: Operation, facts: Facts, options: EmitOptions, provenance: Provenance
) -> Plan:
    """Return the schedule of a `tt.func`."""
    planner = _Planner(function, facts, options, provenance)
    planner.run()
    return planner.plan


class _Planner:
    def __init__(
        self, function: Operation, facts: Facts, options: EmitOptions, provenance: Provenance
    ) -> None:
        self.function, self.facts, self.provenance = function, facts, provenance
        self.fused = options.schedule == "fused"
        instruments = options.instruments
        self.guarded = instruments.guards and instruments.explains
        self.lanes = options.lanes
        self.plan, self.regularity = Plan(), Regularity()
        self._cost: dict[Value, int] = {}
        self._views: dict[Value, int] = {}

    def run(self) -> None:
        ops = list(outside_combines(self.function))
        if self.fused:
            self._find_lane_swaps(ops)
        for op in ops:
            if op not in self.plan.skipped:
                self._store_forced(op)
        chosen: set[Value] = set()
        for op in ops:
            for value in op.results if op not in self.plan.skipped else ():
                if not value.is_tensor or self.plan.is_stored(value):
                    continue
                cost = self.cost(value) if self.fused else 0
                cut = self._is_too_long(value, cost)
                if cut or self._should_store(value, cost):
                    self.plan.store(value)
                    self._cost.pop(value, None)
                    self._views[value] = 0
                    if not cut:
                        chosen.add(value)
        if self.guarded:
            self._keep_loads_in_place(ops)
        if self.fused:
            for op in ops:
                if COUNTED in op.traits:
                    self._share_carried(op)
                elif CONDITIONAL in op.traits:
                    share_results(op, self.plan)
            plan_fusion_groups(self.plan, ops, chosen, self.lanes)

    def _keep_loads_in_place(self, ops: Sequence[Operation]) -> None:
        """Store loads that would otherwise be executed later than in the program, or repeatedly.

        A guarded load reports its accesses, so it must be executed at its place in the program. It
        may be executed again in later branches, because repeated reports of the same lanes are
        counted once.
        """
        for op in ops:
            if LOADS in op.traits and op.result.is_tensor and not self.plan.is_stored(op.result):
                users = self._evaluators(op.result)
                blocks = {id(user.parent) for user in users}
                if blocks != {id(op.parent)} and not self._only_again_in_branches(op, users):
                    self.plan.store(op.result)

    def _only_again_in_branches(self, load: Operation, users: Sequence[Operation]) -> bool:
        """Return whether a load is executed in its own block, and elsewhere only in later branches.

        Args:
            users: The operations at whose places the load is evaluated.
        """
        assert load.parent is not None
        order = {op: n for n, op in enumerate(load.parent.operations)}
        in_place = [
            order[user]
            for user in users
            if user.parent is load.parent
            and user.name in ("tt.store", "tt.reduce")
            and user not in self.plan.lane_swaps
            and user not in self.plan.skipped
        ]
        for user in users:
            if user.parent is load.parent:
                continue
            outermost = ancestor_in(user, load.parent)
            if outermost is None or not in_place or order[outermost] < min(in_place):
                return False
            if any(CONDITIONAL not in op.traits for op in around(user, load.parent)):
                return False
        return True

    def _evaluators(self, value: Value) -> list[Operation]:
        """Return the operations at whose places an expression is evaluated."""

        def expressions(current: Value) -> list[Value]:
            results = [result for user, _ in current.uses for result in user.results]
            return [v for v in results if v.is_tensor and not self.plan.is_stored(v)]

        return [user for inner in reachable([value], expressions) for user, _ in inner.uses]

    def _find_lane_swaps(self, ops: Sequence[Operation]) -> None:
        for op in ops:
            swap = swapped_lanes(op) or swapped_as_bits(op)
            if swap is not None:
                self.plan.lane_swaps[op] = swap
            if op.name == "tt.reduce" and is_only_swapped(op):
                expands = [user for user, _ in op.results[0].uses]
                self.plan.skipped |= {op, *expands}
                self.plan.skipped |= {user for e in expands for user, _ in e.results[0].uses}

    # ---- values that must be stored
    def _store_forced(self, op: Operation) -> None:
        """Store those operands and results of an operation that must be in memory."""
        traits = op.traits
        if (ELEMENTWISE in traits or VIEW in traits) and traits.isdisjoint(_FORCING):
            self._inline_assembly(op)
            return
        if op.has(CROSS_LANE, ATOMIC, CALL):  # the operation itself fills a whole tile
            self._store_all(op.results)
        for value in _addressed(op):
            if value not in self.plan.stored:
                self.plan.store(value, widened=op.name == "tt.dot")
        if LOADS in op.traits:
            self._load(op)
        elif FUNCTION in op.traits:
            self._block_arguments(op)
        elif COUNTED in op.traits:
            self._carry(op)
        elif STRUCTURED in op.traits:
            self._store_all(op.results)
            (self._yields if LOOP in op.traits else self._branches)(op)
        elif op.name == "tt.dot_scaled":
            self._scaled_operands(op)

    def _store_all(self, values: Sequence[Value]) -> None:
        for value in values:
            self.plan.store(value)

    def _load(self, op: Operation) -> None:
        if not (self._is_readonly(op) or (self.fused and waits_for_yield(op))):
            self.plan.store(op.result)

    def _scaled_operands(self, op: Operation) -> None:
        self._store_all([v for n, v in enumerate(op.operands) if n != 2])

    def _inline_assembly(self, op: Operation) -> None:
        """Store the results of assembly that has effects or packs several elements per register."""
        if elementwise.has_effects(op) or not elementwise.is_lanewise(op):
            self._store_all([v for v in op.results if v.is_tensor])

    def _block_arguments(self, op: Operation) -> None:
        for block in op.regions[0].blocks:
            self._store_all(block.arguments)

    def _yields(self, op: Operation) -> None:
        for region in op.regions:
            if region.blocks:
                self._store_all(region.entry.arguments)
                self._store_all(region.entry.terminator.operands)

    def _branches(self, op: Operation) -> None:
        for block in blocks_of(op):
            yielded = block.terminator.operands
            self._store_all(yielded_twice(block) if self.fused else yielded)

    def _carry(self, op: Operation) -> None:
        for _, argument, yielded, result in carried_values(op):
            if not result.is_tensor:
                continue
            addends = self.regularity.increments(argument, yielded) if self.fused else None
            if addends is not None:
                self.plan.increments[argument] = addends
                continue
            self.plan.store(argument)
            self.plan.store(yielded)
            self.plan.share(result, argument)

    def _is_readonly(self, op: Operation) -> bool:
        return self.fused and loads_unwritten(op, self.facts.readonly, self.provenance)

    # ---- values that are stored because that is faster
    def _should_store(self, value: Value, cost: int) -> bool:
        if not self.fused:
            op = value.defining_op
            return op is None or not (CONSTANT in op.traits or op.name == "ub.poison")
        op = value.defining_op
        if op is None or COUNTED in op.traits:
            return False
        if cost < COSTLY_REPEATED:
            return False
        users = {id(user): user for user, _ in value.uses}
        if cost >= COSTLY and len(users) > 1:
            return True
        return cost >= COSTLY_REPEATED and any(
            self._repeats(value, user) for user in users.values()
        )

    def _is_too_long(self, value: Value, cost: int) -> bool:
        """Return whether a value must be stored in order to limit the compilation time."""
        op = value.defining_op
        if not self.fused or op is None or COUNTED in op.traits:
            return False
        return cost >= COSTLY_AT_ONCE or self._views_below(value) > _MOST_VIEWS

    def _views_below(self, value: Value) -> int:
        """Return the length of the longest chain of coordinate changes, down to stored values."""
        for inner in operands_first(value, self._views):
            op = inner.defining_op
            if op is None or self.plan.is_stored(inner):
                self._views[inner] = 0
            else:
                below = max((self._views[v] for v in op.operands), default=0)
                renames = op.has(VIEW, FROM_COORDINATES, GATHERS) or op in self.plan.lane_swaps
                self._views[inner] = below + renames
        return self._views[value]

    def _repeats(self, value: Value, user: Operation) -> bool:
        if user.name == "tt.broadcast":
            return True
        if COUNTED in user.traits:  # the initial value of a carried tensor that is an expression
            return any(v in self.plan.increments for v in user.regions[0].entry.arguments)
        if user.name == "tt.expand_dims":
            return any(self._repeats(user.result, use) for use, _ in user.result.uses)
        return loop_depth(user.parent) > definition_depth(value)

    def cost(self, value: Value) -> int:
        """Return the estimated number of cycles for evaluating 16 lanes of a value at a use."""
        if not value.is_tensor:
            return 0
        if self.plan.is_stored(value):
            return 1
        remembered = self._cost.get(value)
        if remembered is not None:
            return remembered
        op = value.defining_op
        if op in self.plan.lane_swaps:
            return self.cost(self.plan.lane_swaps[op][0]) + 2
        cost = 0
        if op is not None and COUNTED not in op.traits:
            cost = sum(self.cost(v) for v in op.operands)
            if LOADS in op.traits:
                cost = 2 if self.regularity.is_regular(op.operands[0]) else 24
                if self.guarded:
                    cost = max(cost, COSTLY_REPEATED)
            elif op.name == "tt.gather":
                cost += 8
            elif self.regularity.is_index_division(op):
                cost += 3
            elif not op.has(VIEW, FROM_COORDINATES) and not self.regularity.is_index_arithmetic(op):
                cost += elementwise.cost(op) if elementwise.is_elementwise(op.name) else 1
        self._cost[value] = cost
        return cost

    # ---- values that share a slot
    def _share_carried(self, op: Operation) -> None:
        """Let values that a loop yields share the slots of the carried values, if that is safe."""
        body = op.regions[0].entry
        for _, argument, yielded, _ in carried_values(op):
            target = yielded.defining_op
            if (
                argument not in self.plan.stored
                or yielded in self.plan.shares
                or target is None
                or target.parent is not body
                or target.has(STRUCTURED, CALL)
                or target.name == "tt.cat"
                or self.plan.stored.get(yielded) != self.plan.stored[argument]
                or sum(v is yielded for v in body.terminator.operands) > 1
            ):
                continue
            if self._reads_allow(argument, body, target):
                self.plan.share(yielded, argument)

    def _reads_allow(self, argument: Value, body: Block, target: Operation) -> bool:
        """Return whether `argument` is never read after `target` begins to write its slot.

        Args:
            body: The body of the loop.
            target: The operation that computes the value of the next iteration.
        """
        order = {id(op): n for n, op in enumerate(body.operations)}
        limit = order[id(target)]

        def expressions(step: tuple[Value, bool]) -> Iterator[tuple[Value, bool]]:
            value, same_element = step
            for user, _ in value.uses:
                stays = same_element and not user.has(VIEW, GATHERS)
                for result in user.results if user is not target else ():
                    if result.is_tensor and not self.plan.is_stored(result):
                        yield result, stays

        for value, same_element in reachable([(argument, True)], expressions):
            for user, position in value.uses:
                top = ancestor_in(user, body)
                if top is None or order[id(top)] > limit:
                    return False
                if user is target:
                    if not same_element or not _writes_after_reading(user, position):
                        return False
                elif top is target or user in self.plan.lane_swaps:
                    return False
        return True


def _addressed(op: Operation) -> Sequence[Value]:
    """Return those operands of an operation that must be in memory.

    Their elements are accessed by address, or one by one. In the latter case, if such an operand
    were an expression, it would be evaluated without vectors.
    """
    if op.has(CALL, BRANCH):
        return op.operands
    match op.name:
        case "tt.dot":
            return op.operands[:2]
        case "tt.gather" | "tt.histogram":
            return op.operands[:1]
        case "tt.print" | "tt.return" | "tt.map_elementwise":
            return op.operands
    return ()


def _writes_after_reading(op: Operation, position: int) -> bool:
    """Return whether the result of `op` may overwrite an operand in place.

    This is possible if each element of the operand is read before the same element of the result is
    written, and not again afterwards.

    Args:
        position: The index of the operand.
    """
    if len(op.results) > 1:
        return False  # each result is computed in a separate loop, which reads the operands again
    if op.name in ("tt.dot", "tt.dot_scaled"):
        return position == 2
    return elementwise.is_elementwise(op.name) or DISPLACES in op.traits
