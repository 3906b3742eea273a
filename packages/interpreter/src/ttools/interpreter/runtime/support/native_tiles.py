"""Where logged accesses lie, site by site, and whether they lie apart: `native_tiles.c`.

A record is runs of adjacent bytes that follow each other by a step, as the rows of a tile. The log
is read where native code has written it, once for each question: a launch of many short programs
takes less time than NumPy does for a few columns of its log. Must not know what sites do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ttools.core.once import once
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_text, native_module

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Numbers in a row of either table.
ROW = 6
_NO_STEP, _SEVERAL_STEPS = -1, -2


class Spread(NamedTuple):
    """The records of a site.

    Attributes:
        low: the lowest first byte.
        high: the highest first byte; below `low` if there are no records.
        end: one past the highest byte.
        longest: bytes of the longest run.
        most: runs of a record, at most.
        step: bytes from the beginning of one run to that of the next; 0 where each record is one
            run, None where steps differ.
    """

    low: int
    high: int
    end: int
    longest: int
    most: int
    step: int | None


class Bands(NamedTuple):
    """How the memory of a site is divided: into bands, and these into columns.

    Attributes:
        low: where the first band begins.
        band: bytes of a band; 0 for sites whose records are left out.
        step: of the runs of a record, and of columns that they may lie in.
        column: bytes of a column.
        columns: of a band.
        first: the number of the first column.
    """

    low: int
    band: int
    step: int
    column: int
    columns: int
    first: int


LEFT_OUT = Bands(0, 0, 0, 0, 0, 0)


def survey(log: NDArray[Any], sites: int) -> list[Spread] | None:
    """Where the records of each site lie; None if some synchronise.

    Args:
        log: of `access_dtype`, contiguous.
    """
    rows = (ctypes.c_int64 * (ROW * sites))(*(2**63 - 1, -1, 0, 0, 0, _NO_STEP) * sites)
    job = (ctypes.c_uint64 * 4)(log.ctypes.data, len(log), ctypes.addressof(rows), 0)
    _survey()(ctypes.addressof(job), 0)
    if job[3]:
        return None
    numbers = list(rows)
    found = []
    for n in range(0, len(numbers), ROW):
        low, high, end, longest, most, step = numbers[n : n + ROW]
        known = {_NO_STEP: 0, _SEVERAL_STEPS: None}.get(step, step)
        found.append(Spread(low, high, end, longest, most, known))
    return found


def lie_apart(log: NDArray[Any], bands: Sequence[Bands], columns: int) -> bool:
    """Whether each record lies in a column, with all of its runs, and no two in the same.

    Args:
        log: as for `survey`.
        bands: of each site.
        columns: of all bands together, which are as many as the records reach.
    """
    rows = (ctypes.c_int64 * (ROW * len(bands)))(*(n for row in bands for n in row))
    taken = bytearray(columns + 1)
    memory = (ctypes.c_char * len(taken)).from_buffer(taken)
    addresses = (ctypes.addressof(rows), ctypes.addressof(memory))
    job = (ctypes.c_uint64 * 5)(log.ctypes.data, len(log), *addresses, 0)
    _code().function(ctypes.addressof(job), 0)
    return bool(job[4])


@once
def _code() -> jit.NativeCode:
    text = module_text(Path(__file__).with_name("native_tiles.ll"))
    return native_module(text, ("arrange", "survey"), name="arranging accesses", opt=2)


@once
def _survey() -> Any:
    code = _code()  # never freed
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.symbols["survey"])
