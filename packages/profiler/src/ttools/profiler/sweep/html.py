"""A sweep as one page that needs no network: charts, and the table beneath them.

Owns what the page shows; `page/` owns its markup and style, `charts` the pictures.
"""

from __future__ import annotations

from pathlib import Path

from ttools.core.reports.numbers import seconds
from ttools.core.reports.page_template import page_template
from ttools.profiler.sweep import charts
from ttools.profiler.sweep.sweep import Measurement, Sweep, shown_value

_PAGE = Path(__file__).parent / "page"


def write_page(sweep: Sweep, title: str) -> str:
    """An HTML document.

    Args:
        sweep: as far as it has come.
        title: what was swept, as the user wrote it.
    """
    shown, left_out = charts.charts_of(sweep.rows, sweep.varying)
    return page_template(_PAGE).render(
        title=title,
        timed_on=sweep.timed_on,
        baseline=sweep.baseline,
        of_pass=sweep.of_pass,
        measured=sweep.done,
        total=sweep.total,
        size=charts,
        charts=shown,
        left_out=left_out,
        names=sweep.varying,
        rows=[_row(row, sweep) for row in sweep.rows],
        flops=any(row.flops for row in sweep.rows),
    )


def _row(row: Measurement, sweep: Sweep) -> dict[str, object]:
    values = row.as_dict()
    time = row.time
    return {
        "shape": [shown_value(row.shape.get(name)) for name in sweep.varying],
        "implementation": row.implementation,
        "failure": row.failure,
        "numbers": [
            seconds(time.median) if time else "",
            f"{seconds(time.low)} to {seconds(time.high)}" if time else "",
            *(_text(values[name], form) for name, form in _NUMBERS),
        ],
        "tflops": _text(values["tflops"], ".3g"),
    }


_NUMBERS = (("speedup", ".2f"), ("error", ".1e"), ("gbytes", ".3g"))


def _text(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form) if value else "0"
