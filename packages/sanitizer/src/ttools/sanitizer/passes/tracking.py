"""Shadows of values: which values need one, and how they follow the kernel's control flow.

A pass says by `Rules` what it tracks. `Tracking` finds, by a fixed point, the keys that may reach
each value (a key is a source of undefined lanes, a multiplication that may wrap …); the pass then
demands shadows where they matter, and `Tracking.build` makes those and all that they depend on:
through loops, branches and blocks too. Must not know what a shadow means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol, TypeAlias

from ttools.ir import Block, Operation, Type, Value
from ttools.ir.dataflow import (
    ForwardAnalysis,
    carried_values,
    control_sources,
    reachable,
)
from ttools.ir.dialects.traits import COUNTED, LOOP, STRUCTURED
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
#: What may reach a value; what a mark says is the rules' business.
State: TypeAlias = "Mapping[Key, Hashable]"
Demand: TypeAlias = "tuple[Value, Key]"

_NOTHING: State = {}
#: More keys than this of one value are not followed: N operations of N keys each are too many.
_MOST_KEYS = 256
#: Shadows that checks may ask for, and then the last of them what it takes.
_MOST_SHADOWS = 16_384


class Known(Protocol):
    """What rules may ask while a function is tracked."""

    def state(self, value: Value) -> State:
        """What may reach a value."""

    def shadow(self, value: Value, key: Key) -> Value | None:
        """A shadow that was built; None where the key cannot reach the value."""


class Rules(Protocol):
    """What a pass tracks, and how."""

    def transfer(self, op: Operation, index: int, known: Known) -> State:
        """What may reach result `index` of an operation without control flow."""

    def join(self, first: object, second: object) -> Hashable:
        """The mark of a key that reaches a value on two ways."""

    def moved(self, target: Value, state: State) -> State:
        """What is left of a state that control flow moves to `target`."""

    def depends(self, op: Operation, index: int, key: Key, known: Known) -> Iterator[Demand]:
        """The shadows that `build` will ask for."""

    def build(self, b: Builder, op: Operation, index: int, key: Key, known: Known) -> Value:
        """Makes the shadow of a result, right after `op`."""

    def shadow_type(self, value: Value, key: Key) -> Type:
        """The type of a shadow."""

    def default(self, b: Builder, value: Value, key: Key) -> Value:
        """The shadow of a value that the key cannot reach."""


class Tracking(ForwardAnalysis[State]):
    """The shadows of one function.

    Args:
        function: the kernel, without calls.
        rewriter: takes the insertions.
        most: how many keys of one value are followed, those that reach it first.

    Attributes:
        curtailed: whether a value has more keys than are followed.
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
        """A shadow that was built; None where the key cannot reach the value."""
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

    def update(self, value: Value, known: State | None, new: State, iteration: int) -> State:
        """Return as much of a state as is followed; what is known stays, or loops never settle."""
        if len(new) <= self._most:
            return new
        self.curtailed = True
        kept = dict.fromkeys((*(k for k in known or () if k in new), *new))
        return {key: new[key] for key in islice(kept, self._most)}

    # ---- what is needed
    def demand(self, value: Value, key: Key) -> None:
        """Asks for a shadow, and with it for all that it depends on."""

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
        """Asks for the shadows of one check after the other, as long as they are not too many.

        Returns:
            How many checks have theirs: at least the first.
        """
        served = 0
        for each in demands:
            if self._count >= _MOST_SHADOWS:
                break
            for value, key in each:
                self.demand(value, key)
            served += 1
        return served

    def left_out(self, only: str, checked: int, wanted: int, what: str) -> list[Note]:
        """The note of checks that were too many, if they were.

        Args:
            only: `only 3`: how it says how many are made.
            wanted: how many there are, as far as they were followed.
            what: they look at.
        """
        if checked == wanted and not self.curtailed:
            return []
        count = f"{'more than ' if self.curtailed else ''}{wanted}"
        return [Note(self._function.location, f"{only} of {count} {what} are checked")]

    def _wanted(self, *values: Value) -> list[Key]:
        return list(dict.fromkeys(k for v in values for k in self._demanded.get(v, ())))

    # ---- building
    def build(self) -> None:
        """Makes all shadows that were demanded; insertions wait in the rewriter."""
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
                loop = self._for if op.has(COUNTED) else self._while
                (loop if op.has(LOOP) else self._if)(op)
                continue
            wanted = [(value, key) for value in op.results for key in self._wanted(value)]
            # Shadows that are made of others of the same operation come last.
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
        """The shadow of a value that control flow passes on at `at`."""
        known = self._shadows.get((value, key))
        if known is not None:
            return known
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

    def _for(self, op: Operation) -> None:
        body, carried = op.regions[0].entry, carried_values(op)
        wanted = [self._wanted(each.argument, each.result) for each in carried]
        for (initial, argument, _, _), keys in zip(carried, wanted, strict=True):
            for key in keys:
                add_operand(op, self._passed(op, initial, key))
                self._add_argument(body, argument, key)
        self._block(body)
        for (_, _, yielded, result), keys in zip(carried, wanted, strict=True):
            self._yield(body, yielded, keys)
            self._add_results(op, result, keys)

    def _while(self, op: Operation) -> None:
        before, after = (region.entry for region in op.regions)
        initial, results = list(op.operands), list(op.results)
        first, second = list(before.arguments), list(after.arguments)
        condition = list(before.terminator.operands)[1:]
        yielded = list(after.terminator.operands)
        for value, argument in zip(initial, first, strict=True):
            for key in self._wanted(argument):
                add_operand(op, self._passed(op, value, key))
                self._add_argument(before, argument, key)
        self._block(before)
        for value, argument, result in zip(condition, second, results, strict=True):
            keys = self._wanted(argument, result)
            self._yield(before, value, keys)
            for key in keys:
                self._add_argument(after, argument, key)
            self._add_results(op, result, keys)
        self._block(after)
        for value, argument in zip(yielded, first, strict=True):
            self._yield(after, value, self._wanted(argument))

    def _if(self, op: Operation) -> None:
        blocks = [region.entry for region in op.regions if region.blocks]
        yielded = [list(block.terminator.operands) for block in blocks]
        for block in blocks:
            self._block(block)
        for result in list(op.results):
            keys = self._wanted(result)
            for block, values in zip(blocks, yielded, strict=True):
                self._yield(block, values[result.index], keys)
            self._add_results(op, result, keys)

    def _yield(self, block: Block, value: Value, keys: Sequence[Key]) -> None:
        end = block.terminator
        for key in keys:
            add_operand(end, self._passed(end, value, key))

    def _add_results(self, op: Operation, result: Value, keys: Sequence[Key]) -> None:
        for key in keys:
            self._shadows[result, key] = add_result(op, self._rules.shadow_type(result, key))


def _reverse_postorder(blocks: Sequence[Block]) -> list[Block]:
    """The blocks of a function, each after those that dominate it."""
    order: list[Block] = []
    seen: set[Block] = {blocks[0]}
    stack: list[tuple[Block, Iterator[tuple[Block, list[Value]]]]] = [
        (blocks[0], iter(blocks[0].terminator.successors))
    ]
    while stack:
        block, successors = stack[-1]
        target = next((t for t, _ in successors if t not in seen), None)
        if target is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(target)
            stack.append((target, iter(target.terminator.successors)))
    return [*reversed(order), *(block for block in blocks if block not in seen)]
