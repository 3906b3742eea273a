"""Tests of the picture of proved sizes in the HTML report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.core.reports.test_html import Page

from ttools.core.reports.html import write
from ttools.core.reports.report import Report
from ttools.core.reports.sizes import KernelSizes, SizesVerdict, Unproved
from ttools.core.reports.sizes_picture import Picture, picture

_LAST = 10**8
_HOLE = Unproved(reason="a <mask> decides", file="/w/k.py", line=7, sizes={"n": (101, 10_000)})
_PROVED = KernelSizes(kernel="proved", checked={"n": (1, _LAST)})
_PARTLY = KernelSizes(kernel="partly", checked={"n": (1, _LAST)}, unproved=(_HOLE,))
_FAILS = KernelSizes(
    kernel="fails",
    checked={"n": (1, _LAST), "m": (0, 1000)},
    failing={"n": 10_001, "m": 3},
    is_least=True,
    failure="an integer wraps",
)


def _drawn(*kernels: KernelSizes) -> Picture:
    drawn = picture(kernels, Path("/w"))
    assert drawn is not None
    return drawn


def test_the_axis_is_logarithmic() -> None:
    (row,) = _drawn(_PARTLY).rows
    proved, hole = row.parts
    assert (proved.kind, hole.kind) == ("proved", "unproved")
    # On a logarithmic axis from 1 to 10^8, 101 to 10,000 begins at a quarter and takes a quarter.
    assert hole.width / proved.width == pytest.approx(0.25, abs=0.001)
    assert (hole.x - proved.x) / proved.width == pytest.approx(0.25, abs=0.001)
    assert "not proved for n = 101 to 10,000: a <mask> decides (k.py:7)" in hole.title
    ticks = [label for _, label in _drawn(_PARTLY).ticks]
    assert ticks == ["1", "100", "10,000", "1,000,000", "100,000,000"]


def test_each_size_has_a_row_with_its_first_failure() -> None:
    n, m = _drawn(_FAILS).rows
    assert (n.label, m.label) == ("fails: n", "fails: m")
    assert [part.kind for part in n.parts] == ["proved", "failing", "first"]
    proved, _, first = n.parts
    assert proved.title.startswith("proved for n = 1 to 10,000, with the other sizes as")
    assert first.title == "first failing size: n = 10,001, m = 3: an integer wraps"
    assert m.parts[0].title.startswith("proved for m = 0 to 2,")


def test_sizes_below_a_failure_that_may_not_be_the_least_are_unproved() -> None:
    some = KernelSizes(kernel="k", checked={"n": (1, 99)}, failing={"n": 50}, failure="wraps")
    (row,) = _drawn(some).rows
    assert [part.kind for part in row.parts] == ["unproved", "failing", "first"]
    assert row.parts[2].title == "a failing size: n = 50: wraps"


def test_sizes_beyond_a_failure_are_not_called_unproved() -> None:
    sizes = KernelSizes(
        kernel="k", checked={"n": (1, 5000)}, failing={"n": 50}, is_least=True, unproved=(_HOLE,)
    )
    (row,) = _drawn(sizes).rows
    assert [part.kind for part in row.parts] == ["proved", "failing", "first"]


@pytest.mark.parametrize("ends", [(1, 1), (0, 0), (7, 7), (1, 2**62)])
def test_bars_are_within_the_picture(ends: tuple[int, int]) -> None:
    for row in _drawn(KernelSizes(kernel="k", checked={"n": ends})).rows:
        for part in row.parts:
            assert 10 <= part.x <= part.x + part.width <= 890.001


def test_no_picture_without_sizes() -> None:
    assert picture([KernelSizes(kernel="k", checked={})], Path()) is None


def _report(*kernels: KernelSizes) -> Report:
    sizes = SizesVerdict(checked={"n": (1, _LAST)}, verdict="not proved", kernels=kernels)
    return Report(findings=(), launches=(), sizes=sizes, root=Path("/w"))


def test_the_page_draws_it_in_chromium(dump_dom: Callable[[Path], str], tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    measure = """
    const seen = [...document.querySelectorAll("#sizes rect")].map((rect) => {
      const box = rect.getBoundingClientRect(), style = getComputedStyle(rect);
      return [rect.className.baseVal, box.width > 0, style.fill !== "rgb(0, 0, 0)"].join(" ");
    });
    document.body.dataset.seen = seen.join("; ");
    """
    text = write(_report(_PROVED, _PARTLY, _FAILS))
    file.write_text(text.replace("</body>", f"<script>{measure}</script></body>"), "utf-8")
    page = Page(dump_dom(file))
    (body,) = page.all("body")
    kinds = ["proved", "proved", "unproved", *["proved", "failing", "first"] * 2]
    assert body["data-seen"] == "; ".join(f"{kind} true true" for kind in kinds)
    shown = "".join(page.text)
    assert "3 kernels: 1 failed, 1 unknown, 1 proved" in shown
    assert "partly: unknown for n = 1 to 100,000,000: a <mask> decides (k.py:7)" in shown
    assert "proved: proved for n = 1 to 100,000,000" in shown
    assert shown.count("fails: failed at n = 10,001, m = 3, the least failing size") == 2
    assert "the least failing size: an integer wraps" in shown
    assert "not proved for n = 101 to 10,000: a <mask> decides" in shown


def test_pages_without_sizes_have_no_picture(report: Report) -> None:
    assert 'id="sizes"' not in write(report)
