"""The HTML page of a configuration matrix: a heat map of the occupancy by configuration and GPU.

Markup and style are in `matrix_page/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttools.core.compilation.config_matrix import (
    Cell,
    ConfigMatrix,
    ConfigRow,
    KernelMatrix,
    cell_text,
    column_line,
    reasons,
    row_label,
)
from ttools.core.gpus.launch_rules import limits_of
from ttools.core.gpus.targets import LIMIT_SOURCES, read_target
from ttools.core.reports.page_template import PageSummary, Point, render_page
from ttools.core.reports.report import config_text, counted

_PAGE = Path(__file__).parent / "matrix_page"
#: Maximum colour intensity of a cell, in percent; text on it is still legible.
_STRONGEST = 60


def matrix_page(matrix: ConfigMatrix, compared: Sequence[Sequence[str]] = ()) -> str:
    """Return the matrix as an HTML document.

    Args:
        compared: For each other version of Triton, a heading followed by the differences from that
            version.
    """
    return render_page(
        _PAGE,
        gpu=", ".join(matrix.targets.values()),
        summary=_summary(matrix),
        targets=list(matrix.targets.values()),
        kernels=[_kernel(matrix, kernel, number) for number, kernel in enumerate(matrix.kernels)],
        compared=[{"heading": lines[0], "lines": lines[1:]} for lines in compared],
        limits=[_limit(name, shown) for name, shown in matrix.targets.items()],
    )


def _summary(matrix: ConfigMatrix) -> PageSummary:
    refused, total = matrix.refused(), len(list(matrix.cells()))
    fitting = f"{total - len(refused):,} of {counted(total, 'combination')}"
    unusable = matrix.unusable()
    return PageSummary(
        conclusion=f"{fitting} of a configuration and a GPU can be launched",
        verdict="failed" if unusable else "passed",
        about=f"Compiled by Triton {matrix.triton}; no GPU was needed.",
        points=tuple(
            Point(text=f"No configuration of `{kernel.kernel}` can be launched on {gpu}")
            for kernel, gpu in unusable
        ),
    )


def _kernel(matrix: ConfigMatrix, kernel: KernelMatrix, number: int) -> dict[str, Any]:
    only = ConfigMatrix(targets=matrix.targets, kernels=[kernel], triton=matrix.triton)
    return {
        "id": f"kernel-{number}",
        "title": kernel.title,
        "common": config_text(kernel.common),
        "rows": [_row(kernel, row) for row in kernel.rows],
        "lines": [column_line(kernel, *names) for names in matrix.targets.items()],
        "reasons": list(reasons(only)),
    }


def _row(kernel: KernelMatrix, row: ConfigRow) -> dict[str, Any]:
    return {
        "number": row.number,
        "label": row_label(row, kernel.common),
        "cells": [
            {
                "verdict": cell.verdict,
                "text": cell_text(cell),
                "heat": _heat(kernel, cell),
                "detail": _detail(kernel, cell),
            }
            for cell in row.cells
        ],
    }


def _heat(kernel: KernelMatrix, cell: Cell) -> int | None:
    lost = kernel.lost(cell)
    return None if lost is None else round((1 - lost) * _STRONGEST)


def _detail(kernel: KernelMatrix, cell: Cell) -> str:
    needs = cell.needs
    lost = kernel.lost(cell)
    parts = [
        cell.reason,
        "" if needs.registers is None else f"{counted(needs.registers, 'register')} per thread",
        f"spills {counted(cell.spilled, 'byte')} per thread" if cell.spilled else "",
        "" if needs.shared is None else f"{counted(needs.shared, 'byte')} of shared memory",
        "" if needs.threads is None else f"{counted(needs.threads, 'thread')} per block",
    ]
    if cell.occupancy is not None:
        parts.append(f"limited by {cell.occupancy.limited_by}")
    if lost:
        parts.append(f"{lost:.0%} less than the best configuration")
    return "; ".join(filter(None, parts))


def _limit(name: str, shown: str) -> dict[str, Any]:
    target = read_target(name)
    limits = limits_of(target)
    figures = (limits.shared, limits.registers, limits.registers_per_thread, limits.threads)
    return {
        "figures": [shown, *("unknown" if n is None else f"{n:,}" for n in figures)],
        "source": LIMIT_SOURCES[target.backend],
    }
