"""The whole table of operations, family by family."""

from __future__ import annotations

from tools.gpu_op_table import elementwise, functions, libdevice, tiles
from tools.gpu_op_table.rows import Row


def table() -> list[Row]:
    """Return every row, in the order of the report."""
    return [*elementwise.rows(), *functions.rows(), *libdevice.rows(), *tiles.rows()]
