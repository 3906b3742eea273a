"""Tests of the HTML page that shows the stages of a compilation beside the source."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

from tests.core.compilation.compiled_kernels import copy_kernel, inspected, line_of

from ttools.core.compilation.html import write_page

DumpDom = Callable[[Path], str]

POINT = """
<script>
const kernel = document.querySelector("section.kernel");
%s
const lit = [...kernel.querySelectorAll(".line.lit")].map((line) => line.textContent.trim());
const shown = [...kernel.querySelectorAll("[role=tabpanel]")].filter((p) => !p.hidden);
const text = kernel.innerText;
const result = document.createElement("script");
result.type = "application/json";
result.id = "result";
result.textContent = JSON.stringify({ lit, shown: shown.map((p) => p.id), text });
document.body.append(result);
</script>
"""


def test_page_needs_no_network_and_contains_every_stage() -> None:
    text = write_page([inspected("copy", "sm_80"), inspected("copy", "gfx942")])
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//|@import|url\(", text)
    assert re.findall(r'aria-controls="kernel-0-(\w+)"', text) == [
        *("summary", "layouts", "stages"),
        *("ast", "ttir", "ttgir", "llir", "ptx", "sass"),
    ]
    assert re.findall(r'aria-controls="kernel-1-(\w+)"', text)[-1] == "amdgcn"
    assert "&lt;{sizePerThread = [4]" in text  # escaped


def test_figures_of_two_compilations_are_side_by_side() -> None:
    pair = (inspected("copy", "sm_80"), inspected("strided copy", "sm_80"))
    text = write_page(pair, ["ttir"], pair)
    row = re.search(r"<td>narrow accesses</td>\s*<td>(\d+)</td>\s*<td>(\d+)</td>", text)
    assert row is not None
    assert (row[1], row[2]) == ("0", "8")


def act(script: str, tmp_path: Path, dump_dom: DumpDom) -> dict[str, Any]:
    page = tmp_path / "page.html"
    text = write_page([inspected("copy", "sm_80")])
    page.write_text(text.replace("</body>", POINT % script + "</body>"), "utf-8")
    match = re.search(r'id="result">(.*?)</script>', dump_dom(page), re.DOTALL)
    assert match is not None
    result: dict[str, Any] = json.loads(unescape(match[1]))
    return result


def test_pointing_at_a_line_highlights_its_instructions(tmp_path: Path, dump_dom: DumpDom) -> None:
    line = line_of(copy_kernel, "tl.store")
    script = f"""
    const line = kernel.querySelector('.source .line[data-at="{line}"]');
    line.dispatchEvent(new MouseEvent("mouseover", {{ bubbles: true }}));
    """
    state = act(script, tmp_path, dump_dom)
    assert state["shown"] == ["kernel-0-summary", "kernel-0-ptx"]
    assert "tl.store(out_ptr + offs" in state["lit"][0]
    assert sum("st.global.v4" in text for text in state["lit"]) == 2
    assert not any("ld.global" in text for text in state["lit"])


def test_tabs_choose_the_stage(tmp_path: Path, dump_dom: DumpDom) -> None:
    line = line_of(copy_kernel, "tl.load")
    script = f"""
    kernel.querySelector('[aria-controls="kernel-0-ttgir"]').click();
    const line = kernel.querySelector('.source .line[data-at="{line}"]');
    line.dispatchEvent(new MouseEvent("mouseover", {{ bubbles: true }}));
    """
    state = act(script, tmp_path, dump_dom)
    assert state["shown"] == ["kernel-0-summary", "kernel-0-ttgir"]
    assert any("tt.load" in text for text in state["lit"])


def test_the_summary_is_shown_first_and_tabs_show_the_rest(
    tmp_path: Path, dump_dom: DumpDom
) -> None:
    state = act("", tmp_path, dump_dom)
    assert state["shown"][0] == "kernel-0-summary"
    assert "per thread" in state["text"]
    assert "sizePerThread" not in state["text"]
    script = "kernel.querySelector('[aria-controls=\"kernel-0-layouts\"]').click();"
    state = act(script, tmp_path, dump_dom)
    assert state["shown"][0] == "kernel-0-layouts"
    assert "sizePerThread" in state["text"]
    assert "per thread" not in state["text"].partition("sizePerThread")[0]
    script = "kernel.querySelector('[aria-controls=\"kernel-0-stages\"]').click();"
    state = act(script, tmp_path, dump_dom)
    assert state["shown"] == ["kernel-0-stages", "kernel-0-ptx"]
    assert "ld.global" in state["text"]
