"""Proofs, before a launch runs, that accesses stay inside the memory of their tensors.

The grid, the scalars, and the position and size of each tensor are known numbers. Where possible,
an address is a linear expression of program ids, coordinates of tiles and iterations of loops; any
other integer is an unknown in an interval. An access is proved if its lowest and its highest
address are inside the memory of the parameter that its pointer derives from, given its mask, the
branches around it and its loops. An access that is not proved may still be in bounds.

For example, this load has the distance `1024*p + 4*i` in bytes from `x_ptr`:

    offs = tl.program_id(0) * 256 + tl.arange(0, 256)
    x = tl.load(x_ptr + offs, mask=offs < n)

In a launch with the grid (4,), `n` = 1000 and an f32 tensor of 4000 bytes, `p` is in [0, 3] and `i`
in [0, 255], so the distance may be 4092 by these intervals alone. The mask adds the condition
`256*p + i - 999 <= 0`. Subtracting four times its left side from the distance leaves 3996, which is
the last element, so the access needs no guard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ttools.interpreter.analysis.launch_values import KernelValues, Pointer
from ttools.interpreter.analysis.linear import Linear
from ttools.interpreter.llvm.builder import SIZES, memory_type
from ttools.ir import Block, Operation, PointerType, Value, element_type
from ttools.ir.dataflow import reachable
from ttools.ir.semantics import Comparison, comparison, logic, moved_lanes, number_of

#: A part of a mask: a condition, whether it is negated, and the views, such as broadcasts, through
#: which the mask refers to it.
_Step: TypeAlias = "tuple[Value, bool, tuple[Value, ...]]"
_NEGATED = {"slt": "sge", "sge": "slt", "sle": "sgt", "sgt": "sle", "eq": "ne", "ne": "eq"}
_NEGATED |= {"ult": "uge", "uge": "ult", "ule": "ugt", "ugt": "ule"}


class Memory(NamedTuple):
    """The memory that a pointer argument points to.

    Attributes:
        offset: Bytes from the beginning of the storage to the pointer.
        size: Size of the storage in bytes.
        address: The pointer, or another number with the same alignment.
    """

    offset: int
    size: int
    address: int


class AccessBounds:
    """The analysis of the kernel function for one launch.

    Args:
        grid: Number of programs along each axis.
        scalars: Values of integer parameters, by index.
        memory: The memory of each pointer parameter, by index; None if it is unknown. Accesses
            through such a pointer cannot be guarded, and count as proved.
    """

    def __init__(
        self,
        kernel: Operation,
        grid: Sequence[int],
        scalars: Mapping[int, int],
        memory: Mapping[int, Memory | None],
    ) -> None:
        self._memory = memory
        self._values = KernelValues(kernel, grid, scalars)
        self._bounds = self._values.bounds
        self._paths: dict[Block, list[Linear]] = {}

    def is_inside(self, access: Operation) -> bool:
        """Return whether all addresses of an access are proved to be inside its memory."""
        pointer = self._values.of(access.address)
        if not isinstance(pointer, Pointer):
            return False
        memory = self._memory[pointer.parameter]
        if memory is None:
            return True
        element = element_type(access.address.type)
        assert isinstance(element, PointerType)
        size = SIZES[memory_type(element.pointee)]
        distance = pointer.distance
        if (memory.address + distance.constant) % size:
            return False
        if any(factor % size for factor in distance.terms.values()):
            return False
        conditions = list(self._path(access.parent))
        if access.mask is not None:
            conditions += self._conditions(access.mask)
        bounds = self._bounds
        if any(bounds.interval(condition_value)[0] > 0 for condition_value in conditions):
            return True  # the access never happens
        last = memory.size - memory.offset - size
        return bounds.at_most(distance, last, conditions) and bounds.at_most(
            distance.times(-1), memory.offset, conditions
        )

    # ---- path conditions, as expressions that are not positive: `i < n` becomes `i - n + 1`
    def _path(self, block: Block | None) -> list[Linear]:
        """Return conditions that hold when a block runs, as expressions that are at most 0."""
        if block is None:
            return []
        if block not in self._paths:
            expressions = self._entered(block)
            holder = block.parent_op
            if holder is not None:
                expressions += self._path(holder.parent)
                condition = holder.operand("condition")
                if condition is not None:
                    otherwise = block.parent is not holder.regions[0]
                    expressions += self._conditions(condition, otherwise)
                elif holder.loop_bounds is not None:
                    last = self._values.last_iteration(holder)
                    if last is not None and last.constant < 0:
                        expressions.append(Linear(1))  # it has no iterations
            self._paths[block] = expressions
        return self._paths[block]

    def _entered(self, block: Block) -> list[Linear]:
        """Return the conditions of the branches that lead to a block.

        The predecessors of a block are followed as long as there is exactly one.
        """
        expressions: list[Linear] = []
        blocks = block.parent.blocks if block.parent is not None else []
        for _ in blocks:
            ways = [
                (other, n)
                for other in blocks
                for n, (target, _) in enumerate(other.terminator.successors)
                if target is block
            ]
            if len(ways) != 1 or block is blocks[0]:
                break
            ((block, place),) = ways
            condition = block.terminator.operand("condition")
            if condition is not None:
                expressions += self._conditions(condition, bool(place))
        return expressions

    def _conditions(self, mask: Value, negated: bool = False) -> list[Linear]:
        """Return conditions in lanes where a mask is True, as expressions that are at most 0.

        Args:
            mask: A condition, as a scalar or a tile.
            negated: If True, consider the lanes in which the mask is False instead.
        """
        holding: list[Linear] = []

        def visit(step: _Step) -> Iterable[_Step]:
            value, negated, views = step
            op = value.defining_op
            if op is None:
                return ()
            made = logic(op)
            if made is not None and made.kind != "not":
                joins = negated == (made.kind == "or")
                return [(operand, negated, views) for operand in made.operands if joins]
            if made is not None:
                return [(made.operands[0], not negated, views)]
            if moved_lanes(value) is not None:
                return [(op.operands[0], negated, (*views, value))]
            if not negated and number_of(value) == 0:
                holding.append(Linear(1))
            elif (compared := comparison(op)) is not None:
                for linear in self._compared(compared, negated):
                    moved: Linear | None = linear
                    for view in reversed(views):
                        moved = None if moved is None else self._values.viewed(view, moved)
                    if moved is not None:
                        holding.append(moved)
            return ()

        start: _Step = (mask, negated, ())
        deque(reachable([start], visit), maxlen=0)
        return holding

    def _compared(self, compared: Comparison, negated: bool) -> list[Linear]:
        predicate = _NEGATED[compared.predicate] if negated else compared.predicate
        a, b = self._values.of(compared.left), self._values.of(compared.right)
        if not isinstance(a, Linear) or not isinstance(b, Linear):
            return []
        if predicate in ("ugt", "uge"):
            predicate, a, b = {"ugt": "ult", "uge": "ule"}[predicate], b, a
        if predicate in ("ult", "ule"):
            if self._bounds.interval(b)[0] < 0:
                return []  # as an unsigned number, a negative one is large
            below = a.plus(b, -1).plus(Linear(int(predicate == "ult")))
            return [below, a.times(-1)]
        less, more = a.plus(b, -1), b.plus(a, -1)
        one = Linear(1)
        match predicate:
            case "slt":
                return [less.plus(one)]
            case "sle":
                return [less]
            case "sgt":
                return [more.plus(one)]
            case "sge":
                return [more]
            case "eq":
                return [less, more]
        return []
