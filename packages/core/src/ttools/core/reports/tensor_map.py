"""Which programs touched which part of a tensor, small enough to draw.

Owns the folding of accesses to at most `ROWS` times `COLUMNS` cells. Must not know how accesses
are recorded nor how a map is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ttools.core.findings import Argument

ROWS = 64
COLUMNS = 512
#: Cells that are no program's id.
UNTOUCHED, SHARED, COLLISION = -1, -2, -3
_PROGRAMS_NAMED = 8


@dataclass(frozen=True, kw_only=True)
class Touch:
    """Elements `start` (inclusive) to `stop` of a storage that a program accessed.

    Attributes:
        start: the first element.
        stop: the element after the last.
        program: linear id.
        writes: whether it wrote them; atomically written elements count as read.
    """

    start: int
    stop: int
    program: int
    writes: bool


@dataclass(frozen=True, kw_only=True)
class TensorMap:
    """Who touched what of one argument's storage in the launches of one kernel.

    Attributes:
        kernel: its name.
        argument: the tensor.
        elements: how many elements the storage has.
        elements_per_cell: how many of them one cell stands for; the last may stand for fewer.
        cells: row by row, in the order of the elements: a program's linear id, `UNTOUCHED`,
            `SHARED` (several programs, at most reading together) or `COLLISION` (several programs
            touch an element and one of them writes it).
        sharers: the first few programs of each `SHARED` or `COLLISION` cell, by its index in
            row-major order.
    """

    kernel: str
    argument: Argument
    elements: int
    elements_per_cell: int
    cells: tuple[tuple[int, ...], ...]
    sharers: dict[int, tuple[int, ...]] = field(default_factory=dict, hash=False)

    @property
    def collisions(self) -> int:
        """How many cells hold elements that programs collide on."""
        return sum(row.count(COLLISION) for row in self.cells)


def fold(kernel: str, argument: Argument, elements: int, touches: Iterable[Touch]) -> TensorMap:
    """The map of a storage of `elements` elements; what lies outside it is left out.

    A collision is judged by element, not by cell: neighbours that write next to each other's
    elements share a cell without colliding.
    """
    per_cell = max(1, -(-elements // (ROWS * COLUMNS)))
    count = -(-elements // per_cell)
    users: dict[int, set[int]] = {}
    clipped = [
        (max(0, touch.start), min(elements, touch.stop), touch.program, touch.writes)
        for touch in touches
        if touch.start < elements and touch.stop > max(0, touch.start)
    ]
    for start, stop, program, _ in clipped:
        for cell in range(start // per_cell, -(-stop // per_cell)):
            users.setdefault(cell, set()).add(program)
    collided = {
        cell
        for start, stop in _collisions(clipped)
        for cell in range(start // per_cell, -(-stop // per_cell))
    }
    flat = [_code(users.get(cell, set()), cell in collided) for cell in range(count)]
    return TensorMap(
        kernel=kernel,
        argument=argument,
        elements=elements,
        elements_per_cell=per_cell,
        cells=tuple(tuple(flat[at : at + COLUMNS]) for at in range(0, count, COLUMNS)),
        sharers={
            cell: tuple(sorted(programs)[:_PROGRAMS_NAMED])
            for cell, programs in sorted(users.items())
            if len(programs) > 1
        },
    )


def _code(programs: set[int], collided: bool) -> int:
    if collided:
        return COLLISION
    if len(programs) > 1:
        return SHARED
    return next(iter(programs), UNTOUCHED)


def _collisions(touches: list[tuple[int, int, int, bool]]) -> list[tuple[int, int]]:
    """Intervals of elements that one program writes and another touches: a sweep over ends."""
    edges = sorted(
        edge
        for start, stop, program, writes in touches
        for edge in ((start, 1, program, writes), (stop, 0, program, writes))
    )
    active: dict[int, int] = {}
    writing: dict[int, int] = {}
    found: list[tuple[int, int]] = []
    previous = 0
    for position, opens, program, writes in edges:
        if position > previous and writing and len(active) > 1:
            found.append((previous, position))
        previous = position
        step = 1 if opens else -1
        for counts in (active, writing) if writes else (active,):
            counts[program] = counts.get(program, 0) + step
            if not counts[program]:
                del counts[program]
    return found
