"""The HTML page of a profile: its data, its independence of the network, its behaviour."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import triton
import triton.language as tl
import triton.profiler as proton
from tests.chromium import Chromium

from ttools.core.location import SourceLocation
from ttools.profiler import ProfileAnalysis, profile
from ttools.profiler.metrics import Kind, text
from ttools.profiler.report.advice import Hint, grouped_advice, lines_text
from ttools.profiler.report.html import write_page

DumpDom = Callable[[Path], str]


@triton.jit
def scale_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2.0, mask=offs < n)


@triton.jit
def square_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(x_ptr + offs, x * x, mask=offs < n)


@pytest.fixture(scope="module")
def profiled() -> ProfileAnalysis:
    x = torch.ones(1000)
    # Samples of the lines of such short launches are random.
    with profile(gpu="h100", line_times=False) as prof:
        for _ in range(2):
            with proton.scope("<step>", {"flops": 500.0}):
                scale_kernel[(4,)](x, 1000, BLOCK=256)
        square_kernel[(4,)](x, 1000, BLOCK=256)
    return prof.analyse()


class Page(HTMLParser):
    """Collects elements with their attributes, and all text."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._spans: list[tuple[str, str]] = []
        self._kind = ""
        self.feed(document)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        self._kind = dict(attributes).get("class") or "" if tag == "span" else ""
        if self._kind:
            self._spans.append((self._kind, ""))

    def handle_endtag(self, tag: str) -> None:
        self._kind = ""

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self._kind:
            self._spans[-1] = self._kind, self._spans[-1][1] + data

    def texts(self, kind: str) -> list[str]:
        """Return the texts of all spans of a class."""
        return [text for span_class, text in self._spans if span_class == kind]

    def all(self, tag: str, kind: str = "") -> list[dict[str, str | None]]:
        return [a for t, a in self.elements if t == tag and kind in (a.get("class") or "")]


def test_page_needs_no_network_and_contains_its_data(profiled: ProfileAnalysis) -> None:
    document = write_page(profiled, target="<script>x</script>.py")
    page = Page(document)
    assert not [a for _, a in page.elements if {"src", "srcset", "data"} & set(a)]
    assert all((a.get("href") or "#").startswith("#") for _, a in page.elements)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest", document)
    assert "<script>x" not in document
    policy = next(a["content"] for a in page.all("meta") if "http-equiv" in a)
    assert (policy or "").startswith("default-src 'none'")
    match = re.search(r'id="data">(.*?)</script>', document)
    assert match
    data = json.loads(match[1])
    assert [child["name"] for child in data["tree"]["children"]] == ["<step>", "square_kernel"]
    assert data["tree"]["children"][0]["flops"] == 1000.0
    assert len(data["events"]) == 3
    assert {point["name"] for point in data["roofline"]["points"]} == {
        *("scale_kernel", "square_kernel")
    }


def test_without_a_device_and_without_launches(tmp_path: Path, dump_dom: DumpDom) -> None:
    with profile() as prof:
        pass
    page = opened(prof.analyse(), tmp_path, dump_dom)
    assert "Name a GPU with --gpu to see its roofline." in page.words
    assert "No source could be read." in page.words


#: The names in the tree, and whether each lies within its rectangle.
_NAMES_IN_TREE = """[...document.querySelectorAll("#tree g")].flatMap((group) => {
  const [text, rect] = ["text", "rect"].map((part) => group.querySelector(part));
  if (!text) return [];
  const [own, room] = [text, rect].map((part) => part.getBoundingClientRect());
  return [[text.textContent, own.left >= room.left && own.right <= room.right]];
})"""


def opened(prof: ProfileAnalysis, folder: Path, dump_dom: DumpDom, act: str = "") -> Page:
    """Return the page in Chromium after a script of user actions."""
    path = folder / "page.html"
    script = f"<script>addEventListener('load', () => {{ {act} }});</script></body>"
    path.write_text(write_page(prof).replace("</body>", script), "utf-8")
    return Page(dump_dom(path))


def test_charts_are_drawn(profiled: ProfileAnalysis, tmp_path: Path, dump_dom: DumpDom) -> None:
    page = opened(profiled, tmp_path, dump_dom)
    assert len(page.all("circle", "point projected")) == 2
    assert len(page.all("line", "interval")) == 2
    assert len(page.all("polyline", "roof")) == 1
    groups = [a["data-name"] for a in page.all("g")]
    assert groups == ["run", "<step>", "scale_kernel", "square_kernel"]
    (canvas,) = page.all("canvas")
    assert canvas["data-drawn"] == "3"


def test_names_in_the_tree_fit_into_their_parts(
    profiled: ProfileAnalysis, tmp_path: Path, chromium: Chromium
) -> None:
    def part(name: str, seconds: float, children: list[dict[str, Any]]) -> dict[str, Any]:
        facts = {"kind": "kernel", "launches": 1, "flops": 0, "bytes": 0, "metrics": {}}
        return {"name": name, "seconds": seconds, "children": children, **facts}

    children = [part(f"mmmWWW{n}_kernel", 1.0 + n, []) for n in range(20)]
    tree = part("run", sum(child["seconds"] for child in children), children)
    document = write_page(profiled)
    match = re.search(r'id="data">(.*?)</script>', document)
    assert match is not None
    data = json.dumps({**json.loads(match[1]), "tree": tree})
    page = tmp_path / "page.html"
    page.write_text(document.replace(match[1], data), "utf-8")
    names = chromium.evaluate(page, _NAMES_IN_TREE)
    assert ["run", True] in names
    assert any(name.endswith("…") for name, _ in names)
    assert all(fits for _, fits in names), names


def test_the_page_opens_with_the_roofline_and_the_hottest_lines(
    profiled: ProfileAnalysis, tmp_path: Path, dump_dom: DumpDom
) -> None:
    click = "document.querySelector('#hottest button[data-kernel=square_kernel]').click();"
    page = opened(profiled, tmp_path, dump_dom, click)
    assert [a["id"] for a in page.all("section")][:3] == ["roofline", "hottest", "kernels"]
    (advice, _) = [a for a in page.all("details") if a.get("id")]
    assert advice["id"] == "advice"
    hot = [a["data-kernel"] for a in page.all("button", "kernel") if "data-kernel" in a]
    assert set(hot) == {"scale_kernel", "square_kernel"}
    assert [a["data-kernel"] for a in page.all("tr", "chosen")] == ["square_kernel"]


LONG = {"config": "A_LONG_PARAMETER=128, ANOTHER_LONG_PARAMETER=256, num_warps=4, num_stages=3"}


def test_labels_of_the_roofline_lie_inside_and_apart(
    profiled: ProfileAnalysis, tmp_path: Path, dump_dom: DumpDom
) -> None:
    """Draw kernels with long names that stand at the same place and near the right edge."""
    row = profiled.frame[profiled.frame["kernel"] == "square_kernel"].iloc[0].to_dict() | LONG
    others = [row | {"kernel": f"kernel_{n}", "intensity": row["intensity"] * n} for n in (1, 2, 9)]
    rows = pd.concat([profiled.frame, pd.DataFrame(others)], ignore_index=True)
    boxes = """
    const at = (e) => e.getBoundingClientRect();
    const labels = [...document.querySelectorAll('#roofline text.label')].map(at);
    const svg = at(document.querySelector('#roofline svg'));
    const inside = labels.every((b) => b.left >= svg.left && b.right <= svg.right
      && b.top >= svg.top && b.bottom <= svg.bottom);
    const apart = labels.every((a, n) => labels.slice(n + 1).every((b) => a.right <= b.left
      || b.right <= a.left || a.bottom <= b.top + 6 || b.bottom <= a.top + 6));
    document.body.dataset.labels = `${labels.length} ${inside} ${apart}`;
    const source = document.querySelector('.source .wide');
    document.body.dataset.source = source.scrollHeight - source.clientHeight;
    """
    page = opened(replace(profiled, frame=rows), tmp_path, dump_dom, boxes)
    (body,) = page.all("body")
    assert body["data-labels"] == f"{len(rows)} true true"
    assert int(body["data-source"] or 99) <= 20, "source is shown in full height"


def test_every_figure_has_a_description(
    profiled: ProfileAnalysis, tmp_path: Path, dump_dom: DumpDom
) -> None:
    page = opened(profiled, tmp_path, dump_dom)
    figures = [a for a in page.all("td", "number") if "data-value" in a]
    assert figures
    assert all(": " in (a["title"] or "") for a in figures)
    assert all(a["title"] for a in page.all("th", "number") if "data-column" in a)


def _summary(page: str) -> str:
    """Return the text of the first part of a page."""
    header = page[page.index("<h1>") : page.index("</header>")]
    lines = re.sub("</(h1|p|pre)>", " ", header)
    return " ".join(html.unescape(re.sub("<.*?>", "", lines)).split())


def test_the_summary_names_the_kernel_its_limit_and_advice(profiled: ProfileAnalysis) -> None:
    frame = profiled.frame.assign(projected_s=[1e-6, 3e-6], launches=[2, 2])
    name = frame["kernel"].iloc[1]
    hint = Hint(
        kind="narrow_access",
        kernel=name,
        config="",
        location=SourceLocation(file="k.py", line=3, column=1),
        number=1.0,
        evidence="a load is narrow",
        advice="widen it",
    )
    others = [replace(hint, advice=f"step {n}") for n in range(3)]
    analysis = replace(profiled, frame=frame, advice=(hint, *others))
    summary = _summary(write_page(analysis, target="train.py"))
    assert summary.startswith(
        f"{name} takes 75.0% of the projected time on h100: 6 us in 2 launches train.py; 2 kernels,"
    )
    assert "On h100, a launch is limited by memory: it takes at least " in summary
    assert f"{name}: a load is narrow k.py:3 What to do: widen it" in summary
    assert "step 1" in summary
    assert "step 2" not in summary
    assert summary.endswith("1 further piece of advice below.")


def test_the_summary_of_a_run_on_the_cpu_names_the_option_for_a_gpu(
    profiled: ProfileAnalysis,
) -> None:
    frame = profiled.frame.drop(columns=["projected_s"]).assign(total_s=[3e-3, 1e-3])
    summary = _summary(write_page(replace(profiled, frame=frame, device=None, advice=())))
    assert summary.startswith(f"{frame['kernel'].iloc[0]} takes 75.0% of the CPU time: 3 ms in ")
    assert "`--gpu" not in summary
    assert "--gpu h100, or another GPU, adds bounds" in summary


def test_equal_advice_is_given_once() -> None:
    at = [SourceLocation(file="k.py", line=n, column=1) for n in (3, 5, 9)]
    hint = Hint(
        kind="narrow_access",
        kernel="k",
        config="",
        location=at[0],
        number=1.0,
        evidence="a load is narrow",
        advice="widen it",
    )
    others = [replace(hint, location=at[1]), replace(hint, location=at[2], evidence="a store is")]
    (group,) = grouped_advice([hint, *others])
    lines = {sentence: lines_text(where) for sentence, where in group.evidence.items()}
    assert lines == {"a load is narrow": "k.py:3, 5", "a store is": "k.py:9"}


def test_a_click_on_a_kernel_shows_its_source(
    profiled: ProfileAnalysis, tmp_path: Path, dump_dom: DumpDom
) -> None:
    row = "document.querySelector('tr[data-kernel=square_kernel] button')"
    page = opened(profiled, tmp_path, dump_dom, f"{row}.click();")
    shown = [a["data-kernel"] for a in page.all("div", "source") if "hidden" not in a]
    assert shown == ["square_kernel"]
    assert [a["data-kernel"] for a in page.all("tr", "chosen")] == ["square_kernel"]
    heats = [(a["style"] or "").removeprefix("--heat: ") for a in page.all("div", "line")]
    hot = [heat for heat in heats if float(heat) > 0]
    assert len(hot) == 3  # the line of the first kernel, and the load and store of the second one


def test_lines_are_coloured_by_their_times(tmp_path: Path, dump_dom: DumpDom) -> None:
    x = torch.ones(1 << 22)
    with profile(gpu="h100", line_times=True) as prof:
        square_kernel[(1 << 14,)](x, 1 << 22, BLOCK=256)
    analysis = prof.analyse()
    frame = analysis.lines.set_index("line")
    # Few samples belong to no line: about one if there are only forty samples.
    assert 0.8 < frame["time_share"].sum() <= 1.001
    page = opened(analysis, tmp_path, dump_dom)
    assert "The colour shows the share of the CPU time, by samples." in page.words
    shown = {
        int(number): float((a["style"] or "").removeprefix("--heat: "))
        for a, number in zip(page.all("div", "line"), page.texts("number"), strict=True)
    }
    assert "Hottest lines by CPU time" in page.words
    most = frame["time_share"].max()
    for line, share in frame["time_share"].dropna().items():
        assert shown[int(str(line))] == pytest.approx(share / most, abs=0.002)
    facts = [text for text in page.texts("facts") if text]
    # A line may be too short to have samples.
    timed = [text for text in facts if re.match(r"about \d+\.\d% of the CPU time\b", text)]
    assert len(timed) == (frame["time_share"] > 0).sum()
    assert "projected" in page.words
    assert any("nine in ten were within" in word for word in page.words)


def test_lines_without_times_are_coloured_by_their_work(tmp_path: Path, dump_dom: DumpDom) -> None:
    x = torch.ones(1000)
    with profile(line_times=False) as prof:
        square_kernel[(4,)](x, 1000, BLOCK=256)
    page = opened(prof.analyse(), tmp_path, dump_dom)
    assert "The colour shows the share of bytes, or of operations if those are more." in page.words


def test_headings_sort(profiled: ProfileAnalysis, tmp_path: Path, dump_dom: DumpDom) -> None:
    shown = (
        "[...document.querySelectorAll('tr[data-kernel]')].map((r) => r.dataset.kernel).join(' ')"
    )
    act = "".join(
        f"document.querySelector('th[data-column={column}]').click();"
        f"document.body.insertAdjacentHTML('beforeend', `<p data-order='${{{shown}}}'></p>`);"
        for column in ("launches", "launches", "total_s", "total_s")
    )
    page = opened(profiled, tmp_path, dump_dom, act)
    orders = [(a["data-order"] or "").split() for a in page.all("p") if "data-order" in a]
    assert orders == [
        list(profiled.frame.sort_values(column, ascending=ascending)["kernel"])
        for column in ("launches", "total_s")
        for ascending in (False, True)
    ]


def test_a_click_in_the_tree_zooms_to_a_scope(
    profiled: ProfileAnalysis, tmp_path: Path, dump_dom: DumpDom
) -> None:
    scope = "[...document.querySelectorAll('#tree g')].find((g) => g.dataset.name === '<step>')"
    act = f"{scope}.dispatchEvent(new MouseEvent('click'));"
    page = opened(profiled, tmp_path, dump_dom, act)
    assert [a["data-name"] for a in page.all("g")] == ["<step>", "scale_kernel"]
    page = opened(profiled, tmp_path, dump_dom, act + "document.getElementById('reset').click();")
    assert len(page.all("g")) == 4


@pytest.mark.slow
def test_the_timeline_zooms_and_goes_back(
    profiled: ProfileAnalysis, tmp_path: Path, dump_dom: DumpDom
) -> None:
    zoom = (
        "const c = document.querySelector('canvas');"
        "const at = c.getBoundingClientRect();"
        "for (let n = 0; n < 30; n += 1) c.dispatchEvent(new WheelEvent('wheel',"
        " { deltaY: -1, clientX: at.left + 131, clientY: at.top + 5, cancelable: true }));"
    )
    (canvas,) = opened(profiled, tmp_path, dump_dom, zoom).all("canvas")
    assert canvas["data-drawn"] == "1"
    fit = "document.getElementById('fit').click();"
    (canvas,) = opened(profiled, tmp_path, dump_dom, zoom + fit).all("canvas")
    assert canvas["data-drawn"] == "3"


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (None, "time", ""),
        (0.00123, "time", "1.23 ms"),
        (0.0, "bytes", "0 B"),
        (2_000_000, "bytes", "2 MB"),
        (0.5, "share", "50.0%"),
        (1234567, "count", "1,234,567"),
        (1024, "amount", "1.02k"),
        ("memory", "text", "memory"),
    ],
)
def test_numbers_as_text(value: float | str | None, kind: Kind, shown: str) -> None:
    assert text(value, kind) == shown
