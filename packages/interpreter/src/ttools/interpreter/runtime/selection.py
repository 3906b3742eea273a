"""Selection and order of the programs of a launch: the syntax of `--programs`.

For example, `0,5:8,last,random:64` selects program 0, programs 5 to 7, the last program, and a
random sample of 64 programs. The numbers are linear program ids, in which x varies fastest.
`(1,2,0)` selects a program by its coordinates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from ttools.core.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Programs = NDArray[np.int64]

Order = Literal["natural", "reverse", "random"]
Grid = tuple[int, int, int]

_HELP = "a list such as `0,5:8,last,random:64` or `(1,2,0)`; a range excludes its second number"

_ITEM = re.compile(
    r"""\s*(?:
        (?P<last>last)
      | random:(?P<sample>\d+)
      | (?P<start>\d*):(?P<stop>\d*)
      | (?P<program>\d+)
      | \(\s*(?P<coordinates>\d+(?:\s*,\s*\d+){0,2})\s*,?\s*\)
    )\s*(?:,|$)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Item:
    """A part of a selection.

    Attributes:
        kind: The kind of the item.
        numbers: For `program`, its linear id; for `range`, start and exclusive stop, which may be
            None; for `coordinates`, one to three of them; for `random`, the size of the sample.
        text: The item as the user wrote it.
    """

    kind: Literal["program", "range", "coordinates", "random", "last"]
    numbers: tuple[int | None, ...]
    text: str


@lru_cache(maxsize=64)
def parse(text: str) -> tuple[Item, ...]:
    """Parse a selection.

    Raises:
        UsageError: An item is invalid; the message contains it.
    """
    items: list[Item] = []
    position = 0
    while position < len(text) or not items:
        match = _ITEM.match(text, position)
        if match is None:
            rest = text[position:].strip() or text
            raise UsageError(f"programs `{text}`: cannot read `{rest}`; write {_HELP}")
        items.append(_item(match, text))
        position = match.end()
    if text.rstrip().endswith(","):
        raise UsageError(f"programs `{text}`: nothing follows the last comma; write {_HELP}")
    return tuple(items)


def _item(match: re.Match[str], text: str) -> Item:
    shown = match.group().strip().rstrip(",").strip()
    if match["last"]:
        return Item("last", (), shown)
    if match["sample"]:
        return Item("random", (int(match["sample"]),), shown)
    if match["program"]:
        return Item("program", (int(match["program"]),), shown)
    if match["coordinates"]:
        return Item("coordinates", tuple(int(n) for n in match["coordinates"].split(",")), shown)
    start = int(match["start"]) if match["start"] else None
    stop = int(match["stop"]) if match["stop"] else None
    if start is not None and stop is not None and stop <= start:
        raise UsageError(f"programs `{text}`: the range `{shown}` is empty; write {_HELP}")
    return Item("range", (start, stop), shown)


def select(text: str, grid: Grid, seed: int) -> Programs:
    """Return the selected linear ids of a grid in ascending order, without duplicates.

    Ranges end at the end of the grid, and samples are at most as large as the grid, so that one
    selection can be used for launches of several sizes. A single program must exist in the grid.
    """
    import numpy as np

    count = grid[0] * grid[1] * grid[2]
    parts = [_ids(item, grid, count, seed) for item in parse(text)]
    return np.unique(np.concatenate([np.asarray(part, dtype=np.int64) for part in parts]))


def _ids(item: Item, grid: Grid, count: int, seed: int) -> Any:
    import numpy as np

    if item.kind == "last":
        return [count - 1] if count else []
    if item.kind == "random":
        (size,) = item.numbers
        assert size is not None
        return np.random.default_rng(seed).choice(count, min(size, count), replace=False)
    if item.kind == "range":
        start, stop = item.numbers
        return np.arange(start or 0, count if stop is None else min(stop, count), dtype=np.int64)
    if item.kind == "coordinates":
        x, y, z = (*(n or 0 for n in item.numbers), 0, 0)[:3]
        inside = x < grid[0] and y < grid[1] and z < grid[2]
        program = x + grid[0] * (y + grid[1] * z)
    else:
        program = item.numbers[0] or 0
        inside = program < count
    if not inside:
        raise UsageError(
            f"there is no program {item.text} in the grid {grid}, which has {count:,} programs; "
            "select the kernel with --only, or use `last` or a range, which are valid for every "
            "grid"
        )
    return [program]


@lru_cache(maxsize=16)
def arrange(grid: Grid, order: Order, seed: int, programs: str | None) -> Programs | None:
    """Return the linear ids of the programs to run, in the order in which they start.

    The result is None for all programs in natural order.
    """
    import numpy as np

    if programs is None and order == "natural":
        return None
    count = grid[0] * grid[1] * grid[2]
    ids = np.arange(count, dtype=np.int64) if programs is None else select(programs, grid, seed)
    if order == "reverse":
        ids = ids[::-1]
    elif order == "random":
        ids = np.random.default_rng(seed).permutation(ids)
    ids = np.ascontiguousarray(ids)
    ids.flags.writeable = False
    return ids
