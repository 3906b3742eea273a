"""The HTML page of tunings in Chromium."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ttools.tuner.measure.trial import ProjectedInterval, Trial
from ttools.tuner.report.charts import heat_map, parallel_coordinates, progress
from ttools.tuner.report.html import write_page
from ttools.tuner.space.candidate import config_key
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry


def entry(n: int, *costs: float | None, kernel: str = "softmax<kernel>") -> TuningEntry:
    trials = [
        Trial(
            values={"BLOCK": 64 << place, "num_warps": 4},
            status="wrong" if cost is None else "ok",
            reason="" if cost is not None else "out_ptr[0] is 1, not <2>",
            samples=() if cost is None else (cost,) * 7,
        )
        for place, cost in enumerate(costs)
    ]
    best = min((t for t in trials if t.cost), key=lambda t: t.cost or 0.0, default=None)
    return TuningEntry(
        problem=Problem(
            kernel=kernel,
            source="",
            key=json.dumps({"n": n, "dtypes": ["float32"]}),
            device="cpu: here",
            versions="triton",
        ),
        trials=trials,
        winner=best.key if best else None,
        complete=True,
    )


def test_a_page_as_a_browser_sees_it(dump_dom: Callable[[Path], str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    entries = [entry(10, 2e-6, None, 1e-6), entry(1000, 1e-3, 4e-3, 2e-3)]
    page.write_text(write_page(entries), encoding="utf-8")
    text = page.read_text("utf-8")
    assert not re.search(r'(src|href)="(?!#)', text), "the page needs no network"
    dom = dump_dom(page)
    assert "<title>ttools: 1 kernel tuned for 2 shapes and types</title>" in dom
    assert "softmax&lt;kernel&gt;" in dom
    assert dom.count('<polyline class="best"') == 2
    assert dom.count('class="parallel"') == 2
    assert dom.count('<circle class="winner"') == 2
    assert dom.count('<circle class="rejected"') == 1
    assert "out_ptr[0] is 1, not &lt;2&gt;" in dom
    assert ">4.00</td>" in dom, "in the map of shapes"
    assert "1 us" in dom


def _summary(page: str) -> str:
    """Return the text of the first part of a page."""
    header = page[page.index("<h1>") : page.index("</header>")]
    lines = re.sub("</(h1|p|pre)>", " ", header)
    return " ".join(html.unescape(re.sub("<.*?>", "", lines)).split())


def test_the_summary_says_what_to_use_and_why() -> None:
    assert _summary(write_page([entry(10, 2e-6, None, 1e-6)])) == (
        "softmax<kernel> for n=10, float32: BLOCK=256 is the winner, 2.00 times as fast as the "
        "first configuration 3 configurations tried; cpu: here It is the fastest, measured: the "
        "next one takes 100.0% longer measured time: 1 us What to do: use triton.Config({'BLOCK': "
        "256}, num_warps=4)"
    )


def test_the_summary_of_a_tuning_without_a_winner_says_why() -> None:
    assert _summary(write_page([entry(5, None, None)])) == (
        "No configuration of softmax<kernel> for n=5, float32 can win 2 configurations tried; cpu: "
        "here out_ptr[0] is 1, not <2> (2 configurations)"
    )


def test_the_summary_of_many_tunings_names_the_first_winners() -> None:
    summary = _summary(write_page([entry(n, 2e-6, 1e-6) for n in (1, 2, 3, 4)]))
    assert summary.startswith("1 kernel tuned for 4 shapes and types")
    assert "softmax<kernel> for n=3, float32: BLOCK=128 is the winner" in summary
    assert "n=4" not in summary
    assert summary.endswith("1 further winner below.")


def test_a_page_without_tunings() -> None:
    assert "No tuning yet" in write_page([])
    nothing = entry(5, None)
    assert progress(nothing) is None
    assert parallel_coordinates(nothing) is None
    assert heat_map([nothing]) is None
    assert "1 cannot win" in write_page([nothing])


INTERVAL: ProjectedInterval = {"low": 0.7, "high": 2.5, "outside": ["spills registers"]}


def test_predicted_times_are_marked() -> None:
    measured = entry(5, 1.0, 2.0)
    trials = [
        replace(trial, samples=(), predicted=trial.cost, projection=INTERVAL)
        for trial in measured.trials
    ]
    text = write_page([replace(measured, trials=trials)])
    assert "<th>projected</th><th>ratio</th>" in text
    assert '<td class="number">1 s* (700 ms to 2.5 s)</td>' in text
    assert '<tr class="tied"><td>tied</td>' in text
    assert "* less certain: it spills registers." in text
    assert "<th>median</th>" not in text
    assert "<th>median</th><th>95% interval</th>" in write_page([measured])


def test_launches_without_programs_take_no_time() -> None:
    entries = [entry(0, 0.0, 0.0), entry(5, 1.0, 2.0)]
    assert write_page(entries).count(">1.00</td>") >= 3


def test_the_line_of_the_best_never_rises() -> None:
    chart = progress(entry(1, 3.0, 5.0, 2.0, None, 4.0, 1.0))
    assert chart is not None
    heights = [float(point.split(",")[1]) for point in chart["line"].split()]
    assert heights == sorted(heights), "lower points are faster"
    assert len(chart["dots"]) == 6


def test_a_map_has_a_cell_for_each_configuration_and_shape() -> None:
    chart = heat_map([entry(1, 1.0, 2.0), entry(2, None, 3.0)])
    assert chart is not None
    assert chart["columns"] == ["n=1", "n=2"]
    cells = {row["config"]: [cell["text"] for cell in row["cells"]] for row in chart["rows"]}
    assert cells == {"BLOCK=64": ["1.00", ""], "BLOCK=128": ["2.00", "1.00"]}
    assert [cell["winner"] for row in chart["rows"] for cell in row["cells"]].count(True) == 2
    assert config_key({"BLOCK": 64, "num_warps": 4})
