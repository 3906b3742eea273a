"""Memory ranges of logged accesses by site, and a test that they are disjoint (`native_tiles.c`).

A record consists of runs of adjacent bytes at equal distances, such as the rows of a tile. Each
function reads the log once, in the memory to which native code has written it. NumPy would need
more time for a few columns of the log than a launch of many short programs takes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ttools.core.lazy_values import once
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_beside

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The number of integers in a row of the tables of `Spread` and `Bands`.
ROW = 6
_NO_STEP, _SEVERAL_STEPS = -1, -2


class Spread(NamedTuple):
    """The memory range of the records of a site.

    Attributes:
        low: Lowest start address of a record.
        high: Highest start address of a record; less than `low` if there are no records.
        end: Address after the highest byte.
        longest: Size of the longest run in bytes.
        most: Largest number of runs of a record.
        step: Bytes from the start of one run to the start of the next; 0 if each record has one
            run, None if the steps differ.
    """

    low: int
    high: int
    end: int
    longest: int
    most: int
    step: int | None


class Bands(NamedTuple):
    """The division of a site's memory into bands, and of each band into columns.

    For example, if each record is a tile of 32 rows of 64 bytes in a matrix with rows of 4096
    bytes, a band consists of 32 rows of the matrix, and a column is 64 bytes wide.

    Attributes:
        low: Address of the first band.
        band: Size of a band in bytes; 0 for sites whose records are omitted.
        step: Distance between runs of a record, and between rows of a band, in bytes.
        column: Width of a column in bytes.
        columns: Number of columns in a band.
        first: Index of the site's first column.
    """

    low: int
    band: int
    step: int
    column: int
    columns: int
    first: int


LEFT_OUT = Bands(0, 0, 0, 0, 0, 0)


def survey(log: NDArray[Any], sites: int) -> list[Spread] | None:
    """Return the memory range of each site's records; None if some accesses synchronise.

    Args:
        log: Contiguous array of `access_dtype`.
    """
    rows = (ctypes.c_int64 * (ROW * sites))(*(2**63 - 1, -1, 0, 0, 0, _NO_STEP) * sites)
    job = (ctypes.c_uint64 * 4)(log.ctypes.data, len(log), ctypes.addressof(rows), 0)
    _survey()(ctypes.addressof(job), 0)
    if job[3]:
        return None
    numbers = list(rows)
    spreads = []
    for n in range(0, len(numbers), ROW):
        low, high, end, longest, most, step = numbers[n : n + ROW]
        common_step = {_NO_STEP: 0, _SEVERAL_STEPS: None}.get(step, step)
        spreads.append(Spread(low, high, end, longest, most, common_step))
    return spreads


def lie_apart(log: NDArray[Any], bands: Sequence[Bands], columns: int) -> bool:
    """Return whether all runs of each record are in a column that no other record uses.

    Args:
        log: Contiguous array of `access_dtype`.
        bands: Division of the memory of each site.
        columns: Total number of columns that the records reach, over all sites.
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
    return module_beside(__file__, ("arrange", "survey"), name="arranging accesses")


@once
def _survey() -> Any:
    code = _code()  # never freed
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.symbols["survey"])
