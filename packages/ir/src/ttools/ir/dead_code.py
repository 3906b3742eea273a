"""Dead code elimination through loops and branches.

After a rewrite that removes stores, most operations of a kernel are unnecessary. Three kinds of
operations remain: those that the caller keeps, those that compute operands of kept operations, and
those that determine whether kept operations run.
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.ir import Block, Operation, Value
from ttools.ir.dataflow import control_sources, deciding_values
from ttools.ir.dialects.traits import BRANCH, FUNCTION, LOOP, STRUCTURED, TERMINATOR
from ttools.ir.rewriting import Builder, set_operand


def remove_dead_code(function: Operation, keep: Callable[[Operation], bool]) -> None:
    """Remove, in place, the operations on which no kept operation depends.

    Where loops and branches pass unused values, they pass undefined values (`ub.poison`) instead,
    so that the number of passed values does not change.

    Args:
        function: The `tt.func` to rewrite.
        keep: Returns whether an operation must be kept even if its results are unused.
    """
    live = _Liveness(function, keep)
    for region in function.regions:
        for block in region.blocks:
            _sweep(block, live)


def operations_without_purpose(
    function: Operation, keep: Callable[[Operation], bool]
) -> list[Operation]:
    """Return the operations that `remove_dead_code` would remove, in program order."""
    live = _Liveness(function, keep)
    return [op for op in function.walk() if op not in live.operations]


def values_needed(function: Operation, keep: Callable[[Operation], bool]) -> set[Value]:
    """Return the values that are used by operations that `remove_dead_code` would keep."""
    return _Liveness(function, keep).values


class _Liveness:
    """The operations and values of a function that are needed."""

    def __init__(self, function: Operation, keep: Callable[[Operation], bool]) -> None:
        self.operations: set[Operation] = set()
        self.values: set[Value] = set()
        self._pending: list[Value] = []
        for op in function.walk():
            if keep(op) or op.has(BRANCH):
                self._run(op)
        while self._pending:
            self._reach(self._pending.pop())

    def _need(self, value: Value) -> None:
        if value not in self.values:
            self.values.add(value)
            self._pending.append(value)

    def _run(self, op: Operation) -> None:
        """Mark an operation, and all operations around it, as operations that run."""
        current: Operation | None = op
        while current is not None and current not in self.operations:
            self.operations.add(current)
            self._decide(current)
            current = current.parent_op

    def _decide(self, op: Operation) -> None:
        """Mark the values that must be computed before an operation can run."""
        if op.has(STRUCTURED, FUNCTION):
            needed = deciding_values(op)
        else:
            needed = list(op.operands)
            for region in op.regions:  # the combine function of a reduction, for example
                for block in region.blocks:
                    self.operations.update(block.operations)
                    for inner in block.operations:
                        needed += inner.operands
        for value in needed:
            self._need(value)

    def _reach(self, value: Value) -> None:
        """Mark everything that a needed value is computed from."""
        owner = value.owner
        if isinstance(owner, Operation):
            if owner.has(STRUCTURED):
                for source in control_sources(value):
                    self._need(source)
            self._run(owner)
            return
        around = owner.parent_op
        if around is not None and around.has(LOOP):
            for source in control_sources(value):
                self._need(source)
            self._run(around)


def _sweep(block: Block, live: _Liveness) -> None:
    kept: list[Operation] = []
    for op in block.operations:
        if op.has(TERMINATOR) or op in live.operations:
            _disconnect(op, kept, live)
            kept.append(op)
            for region in op.regions:
                for inner_block in region.blocks:
                    _sweep(inner_block, live)
        else:
            for inner in op.walk():
                for index, operand in enumerate(inner.operands):
                    operand.uses.remove((inner, index))
    block.operations[:] = kept


def _disconnect(op: Operation, kept: list[Operation], live: _Liveness) -> None:
    """Replace the unneeded operands of a kept operation by undefined values."""
    for index, operand in enumerate(op.operands):
        if operand in live.values or op.has(BRANCH):
            continue
        b = Builder(kept, op.parent, op.location)
        set_operand(op, index, b.value("ub.poison", [], operand.type))
