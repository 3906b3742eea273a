"""Masks that compare an offset within a block with the bound of the whole tensor.

In the following kernel, the pointer has moved to the block of the program, but the mask has not:

    base = x_ptr + tl.program_id(0) * BLOCK
    offs = tl.arange(0, BLOCK)
    x = tl.load(base + offs, mask=offs < n)

Every lane passes such a mask. It is recognised for the arguments of a launch: the address contains
a multiple of a program id, or of the iteration of a loop, which advances it by exactly the extent
of the compared tile; the mask does not contain it; and as many tiles of this extent as there are
programs or iterations, and no fewer, cover the bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ttools.core.findings.causes import definition_text
from ttools.core.location import SourceLocation
from ttools.interpreter.analysis.launch_values import KernelValues, Pointer
from ttools.interpreter.analysis.linear import Atom, Linear
from ttools.interpreter.analysis.positions import position_of
from ttools.ir import Block, Module, Operation, Value
from ttools.ir.dataflow import control_sources, reachable
from ttools.ir.dialects.traits import ATOMIC, FUNCTION, LOOP, STRUCTURED, WRITES
from ttools.ir.semantics import comparison
from ttools.sanitizer.analysis.dataflow import is_access, program_axis
from ttools.sanitizer.causes.index_parts import named
from ttools.sanitizer.causes.masks import Conjunct, conjuncts

_LESS, _GREATER = ("lt", "le"), ("gt", "ge")


@dataclass(frozen=True)
class LocalMask:
    """A mask that ignores a part of the address.

    Attributes:
        location: Position of the comparison.
        compared: The compared index and its bound, as text.
        lacks: The part of the address that the mask ignores, as text, in units of the index.
        access: Position of the access.
        kind: Noun for the access, for use in messages.
    """

    location: SourceLocation
    compared: str
    lacks: str
    access: SourceLocation
    kind: str

    @property
    def text(self) -> str:
        return (
            f"the mask lacks {self.lacks}, by which the pointer has moved: every lane passes "
            f"{self.compared}"
        )


def masked_accesses(module: Module) -> Sequence[Operation]:
    """Return the accesses of a kernel whose masks may ignore a part of the address in some launch.

    In such an access, a condition of the mask compares a tile that depends on no program id and on
    no loop, and the address depends on a program id or a loop on which the mask does not depend.
    """
    accesses = [op for op in module.kernel.walk() if is_access(op)]
    return [op for op in accesses if _may_lack(op)]


def _may_lack(op: Operation) -> bool:
    if op.mask is None:
        return False
    parts = [_moving(part.condition) for part in conjuncts(op.mask) if sides_of(part)]
    return not all(parts) and not _moving(op.address) <= _moving(op.mask)


def _moving(value: Value) -> set[object]:
    """Return the axes of program ids, and the loops, on which a value depends."""
    dependences: set[object] = set()

    def sources(value: Value) -> Sequence[Value]:
        op = value.defining_op
        if op is None:
            assert isinstance(value.owner, Block)
            around = value.owner.parent_op
            if around is not None and around.has(LOOP):
                dependences.add(around)
            return () if around is None or around.has(FUNCTION) else control_sources(value)
        if (axis := program_axis(op)) is not None:
            dependences.add(axis)
        return control_sources(value) if op.has(STRUCTURED) else op.operands

    for _ in reachable([value], sources):
        pass
    return dependences


def local_masks(
    module: Module,
    accesses: Sequence[Operation],
    grid: Sequence[int],
    scalars: Mapping[int, int],
) -> tuple[LocalMask, ...]:
    """Return a launch's masks that ignore a part of the address, one per position of accesses.

    Args:
        accesses: The accesses of the kernel that have a mask.
        grid: Number of programs along each axis.
        scalars: Values of integer parameters, by index.
    """
    values = KernelValues(module.kernel, grid, scalars)
    masks = [mask for op in accesses for mask in _of_access(op, values, (*grid, 1, 1))]
    return tuple({position_of(mask.access): mask for mask in masks}.values())


def _of_access(op: Operation, values: KernelValues, grid: Sequence[int]) -> Iterator[LocalMask]:
    pointer = values.of(op.address)
    if not isinstance(pointer, Pointer) or op.location is None:
        return
    conditions = [(part, difference_of(part, values)) for part in conjuncts(op.mask)]
    if any(difference is None for _, difference in conditions):
        return
    compared = {atom for _, difference in conditions if difference for atom in difference.terms}
    for part, difference in conditions:
        location = part.condition.location
        if difference is None or location is None:
            continue
        extent = _extent(difference)
        unit = unit_of(difference, pointer.distance)
        for atom, factor in pointer.distance.terms.items():
            if not extent or not unit or factor != unit * extent or atom in compared:
                continue
            count = _count(atom, values, grid)
            if count > 1 and -(difference.constant // extent) == count:
                kind = "atomic access" if op.has(ATOMIC) else "store" if op.has(WRITES) else "load"
                yield LocalMask(location, _text(part), _lacks(atom, extent), op.location, kind)


def sides_of(part: Conjunct) -> tuple[int, int] | None:
    """Return the indices of a comparison's operands, lesser first; None for other conditions."""
    op = part.condition.defining_op
    compared = comparison(op) if op is not None else None
    if compared is None or compared.predicate[-2:] not in (*_LESS, *_GREATER):
        return None
    return (0, 1) if compared.predicate[-2:] in _LESS else (1, 0)


def difference_of(part: Conjunct, values: KernelValues) -> Linear | None:
    """Return an expression, in the access's coordinates, that is negative where a condition holds.

    The result is None if there is no such expression, or if it contains unknown values.
    """
    op, sides = part.condition.defining_op, sides_of(part)
    compared = comparison(op) if op is not None else None
    if sides is None or compared is None:
        return None
    both = compared.left, compared.right
    less, greater = (values.of(both[side]) for side in sides)
    if not isinstance(less, Linear) or not isinstance(greater, Linear):
        return None
    difference: Linear | None = less.plus(greater, -1)
    if compared.predicate[-2:] in ("le", "ge"):
        difference = less.plus(greater, -1).plus(Linear(-1))
    for view in part.views:
        difference = None if difference is None else values.viewed(view, difference)
    if difference is None or any(atom[0] in ("lane", "scalar") for atom in difference.terms):
        return None
    return difference


def _extent(difference: Linear) -> int:
    """Return the number of consecutive integers in a compared tile.

    The result is 0 if the tile has gaps or depends on anything other than coordinates.
    """
    if any(atom[0] != "axis" or factor <= 0 for atom, factor in difference.terms.items()):
        return 0
    extents = {atom: int(str(atom[2])) for atom in difference.terms}
    width = 1 + sum(f * (extents[atom] - 1) for atom, f in difference.terms.items())
    return width if width == prod(extents.values()) > 1 else 0


def unit_of(difference: Linear, distance: Linear) -> int:
    """Return the distance in bytes between neighbours of a compared tile; 0 if it varies."""
    quotients = {
        divmod(distance.terms.get(atom, 0), factor) for atom, factor in difference.terms.items()
    }
    ((unit, rest),) = quotients if len(quotients) == 1 else ((0, 0),)
    return 0 if rest else unit


def _count(atom: Atom, values: KernelValues, grid: Sequence[int]) -> int:
    """Return the number of values of a program id or of an iteration; 0 for other unknowns."""
    if atom[0] == "program":
        return grid[int(str(atom[1]))]
    return values.bounds.intervals[atom][1] + 1 if atom[0] == "iteration" else 0


def _lacks(atom: Atom, extent: int) -> str:
    if atom[0] == "program":
        return f"`{extent} * program_id({atom[1]})`"
    loop = atom[1]
    assert isinstance(loop, Operation)
    line = f" in line {loop.location.line}" if loop.location is not None else ""
    return f"{extent} for each iteration of the loop{line}"


def _text(part: Conjunct) -> str:
    """Return a comparison as text, such as `off < 40`."""
    location = part.condition.location
    name = next(filter(None, map(named, (part.condition, *part.views))), "")
    return f"`{definition_text(location, name)}`" if location is not None else "it"
