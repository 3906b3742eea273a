"""Tests of the HTML report: its contents, no network access, and its behaviour in Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import msgspec.structs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.reports.test_formats import LINES, OUTPUT

from ttools.core.findings.findings import Finding
from ttools.core.location import SourceLocation
from ttools.core.reports.html import visible_lines, write
from ttools.core.reports.report import Report

DumpDom = Callable[[Path], str]


class Page(HTMLParser):
    """Parsed page: elements with their attributes in order, and text by the id of its element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str, kind: str = "") -> list[dict[str, str | None]]:
        """Return the attributes of the elements with a tag and a class that begins with `kind`."""
        return [a for t, a in self.elements if t == tag and (a.get("class") or "").startswith(kind)]


def test_page_has_findings_inside_their_source(report: Report) -> None:
    page = Page(write(report))
    kinds = [article["data-kind"] for article in page.all("article", "finding")]
    # In the order of the source; the finding without a location is the last.
    assert kinds == ["view_oob", "oob_load", "overlapping_store", "deadlock"]
    text = "".join(page.text)
    assert "x_ptr: float32[4000] (16,000 bytes); the access is 288 bytes past its end" in text
    assert '"<b>é & co</b>"' in text
    assert "padded by the caller" in text
    assert "elements 48 to 63: programs 0, 1 collide" in text


def test_page_needs_no_network(report: Report) -> None:
    text = write(report)
    page = Page(text)
    assert not [a for _, a in page.elements if {"src", "srcset", "data", "poster"} & set(a)]
    assert all((a.get("href") or "#").startswith("#") for _, a in page.elements)
    assert not page.all("link")
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|https?://", text)
    policy = next(a["content"] for a in page.all("meta") if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")


def test_map_data_cannot_end_its_element(report: Report) -> None:
    argument = msgspec.structs.replace(
        report.maps[0].argument, name="</script><script>alert(1)</script>"
    )
    text = write(replace(report, maps=(replace(report.maps[0], argument=argument),)))
    assert "<script>alert" not in text


def test_page_shows_the_accuracy_of_outputs_and_lines(report: Report, source: str) -> None:
    here = SourceLocation(source, 9, 0)
    output = replace(OUTPUT, shares=((here, 0.75),))
    lines = (replace(LINES[0], location=here), LINES[0])
    page = Page(write(replace(report, accuracy=(output,), line_errors=lines)))
    (section,) = (a for a in page.all("section") if a.get("id") == "accuracy")
    assert section
    bars = [float(a["height"] or 0) for a in page.all("rect")]
    assert bars == [20.0, 80.0, 15.0, 5.0, *[0.0] * 9]
    text = "".join(page.text)
    assert "norm: o_ptr (float16): stored elements by error in ulp, up to" in text
    assert "o_ptr[3, 5] has the largest error: it is 1.25 and should be 1.2515" in text
    assert "suggested tolerance: rtol=0.002, atol=1e-05" in text
    assert "addition, exp" in text
    assert "75% of o_ptr" in text
    (link,) = (a["href"] for a in page.all("a") if (a.get("href") or "").endswith("L9"))
    assert link in {f"#{a['id']}" for a in page.all("div", "line")}


@given(total=st.integers(0, 1200), near=st.sets(st.integers(1, 1200), max_size=4))
def test_visible_lines_are_those_near_findings(total: int, near: set[int]) -> None:
    near = {line for line in near if line <= total}
    visible = visible_lines(total, near)
    numbers = [number for number, _ in visible]
    assert numbers == sorted(set(numbers))
    assert near <= set(numbers) <= set(range(1, total + 1))
    for (number, gap), before in zip(visible, [0, *numbers], strict=False):
        assert gap == (number - 1 != before)


# --- in Chromium ------------------------------------------------------------------------------


def open_page(text: str, path: Path, dump_dom: DumpDom, act: str = "") -> Page:
    """Open the page in Chromium, run the script `act` in place of a user, and parse the page."""
    path.write_text(text.replace("</body>", f"<script>{act}</script></body>"), "utf-8")
    return Page(dump_dom(path))


def shown(page: Page) -> list[str | None]:
    return [a["data-kind"] for a in page.all("article", "finding") if "hidden" not in a]


@pytest.fixture
def open_report(report: Report, tmp_path: Path, dump_dom: DumpDom) -> Callable[[str], Page]:
    return lambda act: open_page(write(report), tmp_path / "report.html", dump_dom, act)


def test_everything_is_shown_at_first(open_report: Callable[[str], Page]) -> None:
    page = open_report("")
    assert len(shown(page)) == 4


@pytest.mark.parametrize(
    ("name", "value", "remaining"),
    [
        ("severity", "error", ["view_oob", "deadlock"]),
        ("kind", "oob_load", ["view_oob", "overlapping_store", "deadlock"]),
        ("kernel", "kernel", ["deadlock"]),
    ],
)
def test_filters_hide_findings(
    open_report: Callable[[str], Page], name: str, value: str, remaining: list[str]
) -> None:
    page = open_report(f"document.querySelector('input[name={name}][value={value}]').click();")
    assert shown(page) == remaining
    assert f"{len(remaining)} of 4 findings shown" in page.text
    entries = [a for a in page.all("li") if "data-for" in a]
    assert len([a for a in entries if "hidden" not in a]) == len(remaining)


def test_filters_can_be_reset(open_report: Callable[[str], Page]) -> None:
    box = "document.querySelector('input[value=error]').click();"
    assert len(shown(open_report(box + box))) == 4


@pytest.mark.parametrize(
    ("element", "text"),
    [
        (0, "element 0: program 0"),
        (50, "element 50: programs 0, 1 collide"),
        (70, "element 70: program 1"),
        (110, "element 110: programs 2, 3"),
        (150, "element 150: untouched"),
    ],
)
def test_pointing_at_the_map_shows_the_programs(
    open_report: Callable[[str], Page], element: int, text: str
) -> None:
    page = open_report(
        f"""
        const canvas = document.querySelector("canvas.map");
        const box = canvas.getBoundingClientRect();
        const width = canvas.width / 200;
        canvas.dispatchEvent(new MouseEvent("mousemove",
          {{clientX: box.left + ({element} + 0.5) * width, clientY: box.top + 2}}));
        """
    )
    assert text in page.text


def test_map_is_drawn_in_the_colours_of_the_programs(open_report: Callable[[str], Page]) -> None:
    page = open_report(
        """
        const canvas = document.querySelector("canvas.map");
        const pixels = canvas.getContext("2d");
        const width = canvas.width / 200;
        const at = (cell) => [...pixels.getImageData((cell + 0.5) * width, 4, 1, 1).data];
        document.body.dataset.pixels = JSON.stringify([0, 40, 50, 70, 110, 150].map(at));
        """
    )
    body = page.all("body")[0]
    first, second, collision, other, shared, untouched = json.loads(body["data-pixels"] or "")
    assert first == second
    assert untouched[3] == 0
    assert len({tuple(first), tuple(collision), tuple(other), tuple(shared)}) == 4
    assert page.all("canvas", "map")[0]["data-drawn"] == "128"


def test_source_cannot_run_as_script(tmp_path: Path, dump_dom: DumpDom) -> None:
    source = tmp_path / "evil.py"
    source.write_text('x = tl.load("</code><script>document.title = 1</script>")\n')
    finding = Finding(
        kind="oob_load",
        check="memcheck",
        severity="error",
        message="<img onerror='document.title = 2' src=x>",
        kernel="</script><script>document.title = 3</script>",
        location=SourceLocation(str(source), 1, 5),
    )
    text = write(Report(findings=(finding,), root=tmp_path))
    page = open_page(text, tmp_path / "evil.html", dump_dom)
    assert "ttools: 1 error" in page.text
    assert len(page.all("script")) == 3  # two scripts of the page, and that of the test
    assert not page.all("img")


def test_empty_report_opens(tmp_path: Path, dump_dom: DumpDom) -> None:
    page = open_page(write(Report(findings=())), tmp_path / "empty.html", dump_dom)
    assert "no Triton kernel was launched, so nothing was checked" in page.text
