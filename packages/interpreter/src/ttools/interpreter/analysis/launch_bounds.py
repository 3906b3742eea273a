"""Which accesses of a launch are inside their tensors, decided before it runs.

Grid, scalars, and the place and size of each tensor are numbers here. An address is a linear
expression of program ids, coordinates of tiles and iterations of loops, as far as it is one; any
other integer is an unknown between bounds. An access is proved if its least and its greatest
address are inside the memory that they derive from, where its mask, the branches around it and its
loops let it happen. What is not proved may be inside all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ttools.interpreter.analysis.launch_values import LaunchValues, Pointer, is_view
from ttools.interpreter.analysis.linear import Linear
from ttools.interpreter.ir import Block, Constant, Operation, PointerType, Value, element_type
from ttools.interpreter.llvm.builder import SIZES, memory_type

_NEGATED = {"slt": "sge", "sge": "slt", "sle": "sgt", "sgt": "sle", "eq": "ne", "ne": "eq"}
_NEGATED |= {"ult": "uge", "uge": "ult", "ule": "ugt", "ugt": "ule"}


class Memory(NamedTuple):
    """What a pointer argument points to.

    Attributes:
        offset: Bytes from the begin of its storage to where it points.
        size: Bytes of the storage.
        address: Where it points, as far as alignment is concerned.
    """

    offset: int
    size: int
    address: int


class LaunchBounds:
    """The analysis of the kernel function for one launch.

    Args:
        kernel: The function.
        grid: How many programs there are along each axis.
        scalars: Values of integer parameters by index.
        memory: What each pointer parameter points to, by index, or None where nobody knows. What
            derives from such a one cannot be guarded, and counts as proved.
    """

    def __init__(
        self,
        kernel: Operation,
        grid: Sequence[int],
        scalars: Mapping[int, int],
        memory: Mapping[int, Memory | None],
    ) -> None:
        self._memory = memory
        self._values = LaunchValues(kernel, grid, scalars)
        self._bounds = self._values.bounds
        self._paths: dict[Block, list[Linear]] = {}

    def is_inside(self, access: Operation) -> bool:
        """Return whether all that an operation accesses is shown to be inside its memory."""
        pointer = self._values.value(access.address)
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
        if any(bounds.interval(each)[0] > 0 for each in conditions):
            return True  # it never happens
        last = memory.size - memory.offset - size
        return bounds.at_most(distance, last, conditions) and bounds.at_most(
            distance.times(-1), memory.offset, conditions
        )

    # ---- where control has to come along
    def _path(self, block: Block | None) -> list[Linear]:
        """Return expressions that are not positive wherever a block runs."""
        if block is None:
            return []
        if block not in self._paths:
            found = self._entered(block)
            holder = block.parent_op
            if holder is not None:
                found += self._path(holder.parent)
                if holder.name == "scf.if":
                    otherwise = block.parent is not holder.regions[0]
                    found += self._conditions(holder.operands[0], otherwise)
                elif holder.name == "scf.for":
                    last = self._values.last_iteration(holder)
                    if last is not None and last.constant < 0:
                        found.append(Linear(1))  # it has no iterations
            self._paths[block] = found
        return self._paths[block]

    def _entered(self, block: Block) -> list[Linear]:
        """Return what branches say that are the only way to a block."""
        found: list[Linear] = []
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
            if block.terminator.name == "cf.cond_br":
                found += self._conditions(block.terminator.operands[0], bool(place))
        return found

    def _conditions(self, mask: Value, negated: bool = False) -> list[Linear]:
        """Return expressions that are not positive where a condition holds, or does not."""
        found: list[Linear] = []
        pending: list[tuple[Value, bool, tuple[Operation, ...]]] = [(mask, negated, ())]
        seen: set[object] = set()
        while pending:
            value, negated, views = here = pending.pop()
            op = value.defining_op
            if op is None or here in seen:
                continue
            seen.add(here)
            if op.name in ("arith.andi", "arith.ori") and negated == (op.name == "arith.ori"):
                pending += [(operand, negated, views) for operand in op.operands]
            elif op.name == "arith.xori" and _is_true(op.operands[1]):
                pending.append((op.operands[0], not negated, views))
            elif is_view(op):
                pending.append((op.operands[0], negated, (*views, op)))
            elif op.name == "arith.constant" and not negated and _is_false(value):
                found.append(Linear(1))
            elif op.name == "arith.cmpi":
                for each in self._compared(op, negated):
                    moved: Linear | None = each
                    for view in reversed(views):
                        moved = None if moved is None else self._values.viewed(view, moved)
                    if moved is not None:
                        found.append(moved)
        return found

    def _compared(self, op: Operation, negated: bool) -> list[Linear]:
        predicate = str(op.attributes["predicate"])
        predicate = _NEGATED[predicate] if negated else predicate
        a, b = (self._values.value(operand) for operand in op.operands)
        if not isinstance(a, Linear) or not isinstance(b, Linear):
            return []
        if predicate in ("ugt", "uge"):
            predicate, a, b = {"ugt": "ult", "uge": "ule"}[predicate], b, a
        if predicate in ("ult", "ule"):
            if self._bounds.interval(b)[0] < 0:
                return []  # as a number without a sign it is large
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


def _splat_of(value: Value, wanted: int) -> bool:
    op = value.defining_op
    while op is not None and is_view(op):
        op = op.operands[0].defining_op
    data = op.attributes.get("value") if op is not None else None
    return isinstance(data, Constant) and {bool(bits) for bits in data.bits} == {bool(wanted)}


def _is_true(value: Value) -> bool:
    return _splat_of(value, 1)


def _is_false(value: Value) -> bool:
    return _splat_of(value, 0)
