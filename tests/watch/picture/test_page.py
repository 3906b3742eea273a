"""The page of pictures: no use of the network, its size, and its behaviour in Chromium."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pictured_kernels import scale, transposed_copy

from ttools.watch import watch
from ttools.watch.api import WatchedRun
from ttools.watch.picture import picture as picture_module

DumpDom = Callable[[Path], str]

SET = """
const set = (id, value, kind = "input") => {
  $(id).value = value;
  $(id).dispatchEvent(new Event(kind));
};
const point = (id, x, y, kind = "mousemove") => {
  const box = $(id).getBoundingClientRect();
  const place = { clientX: box.left + 1 + x, clientY: box.top + 1 + y, bubbles: true };
  $(id).dispatchEvent(new MouseEvent(kind, place));
};
const chip = (name, line) => [...document.querySelectorAll(".chip")]
  .find((each) => each.dataset.name === name && (!line || each.dataset.line === String(line)));
const text = (id) => $(id).textContent;
const colourAt = (id, x, y) => [...$(id).getContext("2d").getImageData(
  x * (window.devicePixelRatio || 1), y * (window.devicePixelRatio || 1), 1, 1).data].join();
"""


@pytest.fixture(scope="module")
def run() -> WatchedRun:
    x, out = torch.arange(60.0), torch.zeros(64)
    x[20] = float("nan")
    base = torch.arange(35.0).reshape(7, 5)
    with watch(picture=True) as watched:
        scale[(4,)](out, x, 50, 3, BLOCK=16)
        transposed_copy[(2, 2)](torch.zeros(2, 3, 5, 7), base.t(), 5, 7, 1, 5, BLOCK_M=4, BLOCK_N=4)
    return watched


@pytest.fixture
def ask(run: WatchedRun, tmp_path: Path, dump_dom: DumpDom) -> Callable[[str], Any]:
    """Return a function that runs a script of user actions in Chromium and returns its `answer`."""

    def asked(script: str) -> Any:
        act = (
            "<script>(function wait() {"
            "if (!document.body.dataset.ready) { setTimeout(wait, 10); return; }"
            f"{SET} const found = {{}}; {script};"
            "const pre = document.createElement('pre'); pre.id = 'answer';"
            "pre.textContent = JSON.stringify(found); document.body.append(pre);"
            "})();</script></body>"
        )
        path = tmp_path / "page.html"
        path.write_text(run.picture("a <b>script</b>.py").html().replace("</body>", act), "utf-8")
        answer = re.search(r'<pre id="answer">(.*?)</pre>', dump_dom(path), re.DOTALL)
        assert answer
        return json.loads(html.unescape(answer[1]))

    return asked


def test_the_page_does_not_use_the_network(run: WatchedRun) -> None:
    text = run.picture("a <b>script</b>.py").html()
    assert "a &lt;b&gt;script&lt;/b&gt;.py" in text
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|https?://| src=| href=", text)
    assert "default-src 'none'" in text


def test_sliders_move_through_programs_and_iterations(ask: Callable[[str], Any]) -> None:
    response = ask("""
      const line = Number(chip("iteration").dataset.line) + 1;
      found.first = [text("program-text"), text("iteration-text"), chip("iteration").textContent];
      set("iteration", 2);
      const held = [chip("iteration"), chip("x", line)].map((each) => each.textContent);
      found.second = [text("iteration-text"), ...held];
      set("program", 3);
      found.third = [text("program-text"), chip("pid").textContent, chip("offs").textContent];
      found.tail = chip("x", line - 2).textContent;
      found.store = chip("tl.store").textContent;
      found.max = [$("program").max, $("iteration").max];
      found.code = document.querySelector(".line code").textContent;
    """)
    assert response["first"] == ["(0, 0, 0)", "0", "iteration int32  = 0"]
    assert response["second"][:2] == ["2", "iteration int32  = 2"]
    # ((x * 2 + 0) * 2 + 1) * 2 + 2 for x from 0 to 15.
    assert "min 4  max 124" in response["second"][2]
    assert response["third"] == [
        "(3, 0, 0)",
        "pid int32  = 3",
        "offs int32[16]  min 48  max 63  mean 55.5  [48 49 50 51 52 53 …]",
    ]
    assert "masked off 14 of 16" in response["store"]
    assert "masked off 14 of 16" in response["tail"]
    assert response["max"] == ["3", "2"]
    assert response["code"] == "@triton.jit"


def test_constants_are_named(run: WatchedRun) -> None:
    packed = re.search(r'id="data">([^<]*)<', run.picture().html())
    assert packed
    launches = json.loads(zlib.decompress(base64.b64decode(packed[1])))["launches"]
    texts = {
        argument["name"]: argument["text"]
        for launch in launches
        for argument in launch["arguments"]
    }
    assert texts["BLOCK"] == "constant 16"
    assert texts["BLOCK_M"] == texts["BLOCK_N"] == "constant 4"
    # Triton specialises on a stride of 1.
    assert texts["stride_m"] == "constant 1"
    assert texts["steps"] == "i32 3"


def test_a_value_in_detail(ask: Callable[[str], Any]) -> None:
    response = ask("""
      const line = Number(chip("iteration").dataset.line) - 1;
      set("program", 1);
      chip("x", line).click();
      found.title = text("value-title");
      found.pressed = chip("x", line).getAttribute("aria-pressed");
      const size = $("value-cells").clientWidth / 16;
      point("value-cells", size * 4.5, 2);
      found.nan = text("value-readout");
      found.red = colourAt("value-cells", size * 4.5, 2);
      point("value-cells", size * 5.5, 2);
      found.next = text("value-readout");
      found.bins = text("bins-readout");
      point("value-bins", 318, 40);
      found.last = text("bins-readout");
      set("program", 3);
      point("value-cells", size * 8.5, 2);
      found.masked = text("value-readout");
    """)
    assert response["title"].startswith(
        "x float32[16] min 16  max 31  mean of finite 23.7333  nan 1 of 16"
    )
    assert response["pressed"] == "true"
    assert response["nan"] == "lane 4: nan"
    assert response["red"] == "213,0,0,255"
    assert response["next"] == "lane 5: 21"
    assert response["bins"] == "16 to 31: 15 finite elements"
    assert response["last"].endswith(" to 31.00: 1 elements")
    assert response["masked"] == "lane 8: masked off"


def test_maps_of_tensors(ask: Callable[[str], Any]) -> None:
    response = ask("""
      found.tensors = [...$("tensor").options].map((option) => option.textContent);
      set("tensor", 1, "change");
      found.summary = text("map-summary");
      const [width] = sizeOf(launchNow().maps[1]);
      point("map", width * 17.5, 3);
      found.middle = text("map-readout");
      found.own = $("map").dataset.own;
      point("map", width * 55.5, 3);
      found.tail = text("map-readout");
      const colours = new Set();
      for (const element of [0, 15, 16, 33, 49, 55])
        colours.add(colourAt("map", width * element + width / 2, 10));
      found.colours = colours.size;
      set("colouring", "times", "change");
      found.times = colourAt("map", width * 0.5, 10) === colourAt("map", width * 40.5, 10);
    """)
    assert response["tensors"] == ["out_ptr", "x_ptr"]
    assert response["summary"] == "x_ptr [60]: 60 elements; 50 loaded; 10 never"
    assert response["middle"] == "element 17: loaded by program 1, once each"
    assert response["tail"] == "element 55: never loaded"
    assert response["own"] == "16"
    # One colour for each of four programs, and one for elements without access.
    assert response["colours"] == 5
    assert response["times"]


def test_launches_slices_and_the_grid(ask: Callable[[str], Any]) -> None:
    response = ask("""
      set("launch", 1, "change");
      found.arguments = text("arguments");
      found.iterations = $("iteration-label").hidden;
      found.summary = text("map-summary");
      found.slice = text("slice-text");
      const [width, height] = sizeOf(launchNow().maps[0]);
      point("map", width * 5.5, height * 4.5);
      found.cell = text("map-readout");
      set("slice", 5);
      found.last = [text("slice-text"), text("map-summary")];
      point("grid", layout.size * 1.5, layout.size * 0.5);
      found.grid = text("grid-readout");
      point("grid", layout.size * 1.5, layout.size * 1.5, "click");
      found.program = text("program-text");
      set("tensor", 1, "change");
      found.own = $("map").dataset.own;
    """)
    assert "x_ptrfp32[5, 7], strides 1, 5" in response["arguments"]
    assert response["iterations"]
    start = "out_ptr [2, 3, 5, 7]: 35 elements in this slice; "
    assert response["summary"] == start + "35 stored; 0 never"
    assert response["slice"] == "[0, 0, :, :]"
    assert response["cell"] == "row 4, column 5: stored by program 3, once each"
    assert response["last"] == ["[1, 2, :, :]", start + "0 stored; 35 never"]
    assert response["grid"] == "program (1, 0, 0)"
    assert response["program"] == "(1, 1, 0)"
    assert response["own"] == "3"


def test_keys_work_like_the_mouse(ask: Callable[[str], Any]) -> None:
    response = ask("""
      const press = (id, ...keys) => keys.forEach((key) =>
        $(id).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })));
      set("tensor", 1, "change");
      press("map", "ArrowRight");
      found.first = text("map-readout");
      press("map", ...Array(17).fill("ArrowRight"));
      found.later = text("map-readout");
      press("grid", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "Enter");
      found.program = [text("grid-readout"), text("program-text")];
      press("grid", "ArrowLeft", " ");
      found.back = text("program-text");
      set("program", 1);
      chip("x", Number(chip("iteration").dataset.line) - 1).click();
      press("value-cells", ...Array(5).fill("ArrowRight"));
      found.lane = text("value-readout");
      press("value-bins", "ArrowRight");
      found.bin = text("bins-readout");
      found.ignored = $("map").dispatchEvent(
        new KeyboardEvent("keydown", { key: "Tab", cancelable: true }));
    """)
    assert response["first"] == "element 0: loaded by program 0, once each"
    assert response["later"] == "element 17: loaded by program 1, once each"
    assert response["program"] == ["program (3, 0, 0)", "(3, 0, 0)"]
    assert response["back"] == "(2, 0, 0)"
    assert response["lane"] == "lane 4: nan"
    assert response["bin"].startswith("16.00 to ")
    assert response["ignored"]  # keys such as Tab


def test_a_page_with_much_data_stays_small(
    monkeypatch: pytest.MonkeyPatch, run: WatchedRun, tmp_path: Path
) -> None:
    def data_of(page: str) -> str:
        match = re.search(r'id="data">(.*?)</script>', page)
        assert match
        return match[1]

    limit = len(data_of(run.picture().html())) * 2 // 3
    monkeypatch.setattr(picture_module, "_LARGEST_DATA", limit)
    run.picture().save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert len(data_of(page)) <= limit
    data = json.loads(zlib.decompress(base64.b64decode(data_of(page))))
    assert any("values of later iterations are left out" in n for n in data["launches"][0]["notes"])


@pytest.mark.slow
def test_a_hundred_million_elements(tmp_path: Path, dump_dom: DumpDom) -> None:
    n = 10_000
    x = torch.randint(0, 9, (n, n), dtype=torch.uint8)
    out = torch.zeros_like(x)
    with watch(picture=True) as watched:
        transposed_copy[(40, 40)](out, x.t(), n, n, 1, n, BLOCK_M=256, BLOCK_N=256)
    assert torch.equal(out, x.t())
    path = tmp_path / "page.html"
    watched.picture().save(path)
    assert path.stat().st_size < 5_000_000
    assert 'data-ready="yes"' in dump_dom(path)


def test_notebooks_show_the_page_in_a_frame(run: WatchedRun) -> None:
    shown = run.picture()._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"')
    page = re.search(r'srcdoc="([^"]*)"', shown)
    assert page
    assert html.unescape(page[1]) == run.picture().html()
