"""What can be seen of index tiles without running anything: uniform, regular, incremented."""

from __future__ import annotations

from ttools.interpreter import elementwise
from ttools.interpreter.dialects.traits import DIVIDES, FROM_COORDINATES, REGULAR, VIEW
from ttools.interpreter.ir import Operation, Value, operands_first


class Regularity:
    """Looks at the tiles of one function, at each once."""

    def __init__(self) -> None:
        self._uniform: dict[Value, bool] = {}
        self._regular: dict[Value, bool] = {}

    def is_uniform(self, value: Value) -> bool:
        """Whether all elements of a tensor are the same by construction."""
        for inner in operands_first(value, self._uniform):
            self._uniform[inner] = self._looks_uniform(inner)
        return self._uniform[value]

    def _looks_uniform(self, value: Value) -> bool:
        op = value.defining_op
        if not value.is_tensor or op is None:
            return not value.is_tensor
        if op.name == "tt.splat":
            return True
        if op.name == "arith.constant":
            return getattr(op.attributes["value"], "is_splat", False)
        if op.has(VIEW) and len(op.operands) == 1:
            return self._uniform[op.operands[0]]
        return elementwise.is_elementwise(op.name) and all(self._uniform[v] for v in op.operands)

    def is_regular(self, value: Value) -> bool:
        """Whether a pointer or index is built of ranges and uniform values only."""
        for inner in operands_first(value, self._regular):
            self._regular[inner] = self._looks_regular(inner)
        return self._regular[value]

    def _looks_regular(self, value: Value) -> bool:
        op = value.defining_op
        if not value.is_tensor or op is None:
            return True  # carried: classified by its initial value elsewhere
        if op.has(VIEW, FROM_COORDINATES, REGULAR):
            return all(self._regular[v] for v in op.operands)
        return self.is_uniform(value)

    def is_index_arithmetic(self, op: Operation) -> bool:
        """Whether an operation only moves a regular index, which costs nothing per lane."""
        match op.name:
            case "tt.addptr" | "arith.addi" | "arith.muli":
                return self.is_regular(op.results[0])
        return False

    def is_index_division(self, op: Operation) -> bool:
        """Whether an operation divides a regular index by one number: mostly once per chunk.

        Stored, the result would no longer be seen to be the same, or contiguous, within a chunk.
        """
        if not op.has(DIVIDES):
            return False
        index, divisor = op.operands
        regular = self.is_regular(index) and not self.is_uniform(index)
        return regular and self.is_uniform(divisor)

    def increments(self, argument: Value, yielded: Value) -> tuple[Value, ...] | None:
        """The uniform addends that make `yielded` of `argument`; None if there is more to it."""
        addends: list[Value] = []
        value = yielded
        while value is not argument:
            op = value.defining_op
            if op is None or op.name not in ("tt.addptr", "arith.addi"):
                return None
            first, second = op.operands
            if op.name == "arith.addi" and self.is_uniform(first) and not self.is_uniform(second):
                first, second = second, first
            if not self.is_uniform(second):
                return None
            addends.append(second)
            value = first
        return tuple(addends)
