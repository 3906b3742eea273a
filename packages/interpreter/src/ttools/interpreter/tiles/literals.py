"""Constant folding of chunks whose lanes are all literals.

Examples are the masks of sorting networks, which are set in the lanes with coordinate 1 along an
axis. LLVM would fold them, too, but needs more time to parse and fold them than this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import and_, eq, ne, or_, xor

from ttools.interpreter.llvm.builder import Builder, register_type
from ttools.interpreter.llvm.value import FALSE, TRUE, integer
from ttools.interpreter.tiles.chunk import Affine, Chunk, Vector, uniform
from ttools.ir import IntegerType, Operation, element_type

# Predicates by name and by number; MLIR prints either.
_COMPARISONS: dict[object, Callable[[int, int], bool]] = {"eq": eq, "ne": ne, 0: eq, 1: ne}


def fold(b: Builder, op: Operation, chunks: Sequence[Chunk]) -> Chunk | None:
    """Return the result of an operation on literal integers; None for any other operation."""
    if len(chunks) != 2 or (left := _numbers(chunks[0])) is None:
        return None
    bitwise = _bitwise(op)
    if bitwise is None and op.name != "arith.cmpi":
        return None
    right = _numbers(chunks[1])
    if right is None:
        return None
    pairs = zip(left, right, strict=True)
    element = element_type(op.result.type)
    if bitwise is not None:
        numbers = tuple(bitwise(x, y) for x, y in pairs)
        return Affine(
            element,
            integer(numbers[0], register_type(element)),
            tuple(n - numbers[0] for n in numbers),
        )
    test = _COMPARISONS.get(op.attributes["predicate"])
    if test is None:
        return None
    answers = [TRUE if test(x, y) else FALSE for x, y in pairs]
    if len(set(answers)) == 1:
        return uniform(element, answers[0], len(answers))
    return Vector(element, b.constant_vector(answers))


def _bitwise(op: Operation) -> Callable[[int, int], int] | None:
    match op.name:
        case "arith.andi":
            return and_
        case "arith.ori":
            return or_
        case "arith.xori":
            return xor
    return None


def _numbers(chunk: Chunk) -> tuple[int, ...] | None:
    """Return the lanes of a chunk as numbers.

    The result is None unless all lanes are literals that are not negative and fit the type.
    """
    if not isinstance(chunk, Affine) or chunk.guard is not None or chunk.exact is not None:
        return None
    if not isinstance(chunk.element, IntegerType) or not chunk.base.isdigit():
        return None
    numbers = tuple(int(chunk.base) + lane for lane in chunk.lanes)
    inside = min(numbers) >= 0 and max(numbers) < 1 << (chunk.element.width - 1)
    return numbers if inside else None
