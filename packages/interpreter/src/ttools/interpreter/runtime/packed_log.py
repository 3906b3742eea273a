"""A compact form of access logs, in which constant columns are stored as a single number.

For example, a kernel that scatters logs a record of 48 bytes for each element, but consecutive
records differ only in address and lane. The log is divided into blocks, and in most blocks, only
these two columns need an array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from ttools.interpreter.runtime.access_log import access_dtype

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: The largest number of records in a log. Analysing them takes about 200 bytes for each record.
MOST_RECORDS = 1 << 24
#: The number of records in a block, and its columns by name. A column is an array, or a number if
#: it is the same in all records.
_Block: TypeAlias = "tuple[int, dict[str, Any]]"


class PackedLog:
    """Records of `access_dtype` in the order in which they were added.

    Attributes:
        is_full: True if the log reached its limit, so that records are missing.
    """

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._length = 0
        self.is_full = False

    def __len__(self) -> int:
        return self._length

    def add(self, records: NDArray[Any]) -> None:
        """Append a copy of the records, unless the log would exceed its limit."""
        if self._length + len(records) > MOST_RECORDS:
            self.is_full = True
        elif len(records):
            self._blocks.append((len(records), _packed(records)))
            self._length += len(records)

    def shorten(self, most: int) -> None:
        """Drop whole blocks from the end until at most `most` records are left."""
        while self._blocks and self._length > most:
            self._length -= self._blocks.pop()[0]
            self.is_full = True

    def bounds(self, name: str) -> tuple[int, int]:
        """Return the lowest and the highest number in a column.

        The column `bytes` is the size of a record, `end - start`.

        Raises:
            ValueError: There are no records.
        """
        ends = [
            (column, column) if isinstance(column, int) else (int(column.min()), int(column.max()))
            for column in (block[name] for _, block in self._blocks)
        ]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def pieces(self, name: str) -> Iterator[NDArray[Any]]:
        """Return a column as one array per block.

        If the column is constant in a block, the array is a broadcast, which takes no memory.
        """
        import numpy as np

        return (np.broadcast_to(np.asarray(block[name]), length) for length, block in self._blocks)

    def column(self, name: str) -> NDArray[np.int64]:
        import numpy as np

        column, start = np.empty(self._length, np.int64), 0
        for length, block in self._blocks:
            column[start : start + length] = block[name]
            start += length
        return column

    def records(self) -> NDArray[Any]:
        import numpy as np

        records, start = np.empty(self._length, access_dtype()), 0
        for length, block in self._blocks:
            part = records[start : start + length]
            for name in access_dtype().names:
                part[name] = block[name] if name != "end" else _ends(block)
            start += length
        return records


def _packed(records: NDArray[Any]) -> dict[str, Any]:
    """Return the columns of a block, with the size `bytes` in place of `end`."""
    columns = {name: records[name] for name in access_dtype().names}
    columns["bytes"] = columns.pop("end") - columns["start"]
    return {name: _number_or_copy(column) for name, column in columns.items()}


def _ends(block: dict[str, Any]) -> Any:
    import numpy as np

    return np.asarray(block["start"]) + block["bytes"]  # 64 bits, even if each column has 32


def _number_or_copy(column: NDArray[Any]) -> Any:
    import numpy as np

    first = int(column[0])
    if (column == first).all():
        return first
    low, high = int(column.min()), int(column.max())
    return column.astype(np.int32 if low >= -(2**31) and high < 2**31 else np.int64)
