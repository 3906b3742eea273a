"""The HTML page of every command: its origin, and that all of it can be read in any window."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.chromium import Chromium

Run = Callable[..., "subprocess.CompletedProcess[str]"]

_EXAMPLES = Path(__file__).parents[2] / "examples"
_CANDIDATES = Path(__file__).parents[1] / "verifier" / "kernels_for_verify.py"
_REPRODUCIBLE = _CANDIDATES.with_name("reproducible_kernels.py")
_FEW_CASES = ("--cases", "3", "--replay", "off", "--all-sizes-seconds", "0")
#: The words of each command that writes a page, without `--format` and `--output`.
COMMANDS = {
    "sanitize": ["sanitize", str(_EXAMPLES / "defects" / "softmax.py")],
    "prove": ["prove", f"{_EXAMPLES / 'learning' / 'all_sizes.py'}:run", "n=1:8589934592"],
    "interpret": ["interpret", str(_EXAMPLES / "softmax.py")],
    "inspect": ["inspect", "--gpu", "h100", str(_EXAMPLES / "softmax.py")],
    "configurations": [
        *("inspect", "--all-configs", "--gpu", "a100,h100"),
        str(_EXAMPLES / "autotuned.py"),
    ],
    "profile": ["profile", "--gpu", "h100", str(_EXAMPLES / "layer_norm.py")],
    "verify": ["verify", *_FEW_CASES, f"{_CANDIDATES}:keeps_dimension"],
    "reproduce": ["reproduce", "--runs", "--shapes", "rows=2", f"{_REPRODUCIBLE}:four_parts"],
    "tune": ["tune", "--gpu", "h100", str(_EXAMPLES / "autotuned.py")],
}
#: The commands whose pages are opened in each test run.
_USUAL = ("sanitize", "profile", "verify")
#: What a reader sees of a page: facts about its origin, the heading, and parts that are cut off,
#: too small to read, or visible only after scrolling sideways.
_SEEN = """(() => {
  const root = document.documentElement;
  const isCut = (text) => {
    const [own, picture] = [text, text.closest("svg")].map((part) => part.getBoundingClientRect());
    return own.width && (own.left < picture.left - 1 || own.right > picture.right + 1);
  };
  return {
    overflow: root.scrollWidth > root.clientWidth ? [...document.querySelectorAll("body *")]
      .filter((part) => part.getBoundingClientRect().right > root.clientWidth + 0.5)
      .map((part) => `${part.tagName} ${part.textContent.slice(0, 60)}`) : [],
    small: [...document.querySelectorAll("svg text")].filter((text) => {
      const { width, height } = text.getBoundingClientRect();
      return width && height < 8;
    }).map((text) => text.textContent),
    scrolling: [...document.querySelectorAll(".wide > table")]
      .filter((table) => table.offsetWidth > table.parentElement.clientWidth)
      .map((table) => table.textContent.slice(0, 60)),
    cut: [...document.querySelectorAll("svg text")].filter(isCut).map((text) => text.textContent),
    origin: document.getElementById("origin").innerText,
    heading: document.querySelector("h1").innerText,
    foreground: getComputedStyle(document.body).color,
  };
})()"""


@pytest.mark.parametrize(
    "command",
    [pytest.param(n, marks=() if n in _USUAL else pytest.mark.slow) for n in COMMANDS],
)
def test_a_page_fits_wide_and_narrow_windows(
    command: str, ttools: Run, tmp_path: Path, chromium: Chromium
) -> None:
    page = tmp_path / "page.html"
    # Tables contain the paths of source files, and checkouts often have long paths.
    examples = tmp_path / "a-folder-with-a-long-name" / ("and-another-folder-" * 4) / "examples"
    shutil.copytree(_EXAMPLES, examples)
    words = [word.replace(str(_EXAMPLES), str(examples)) for word in COMMANDS[command]]
    result = ttools(words[0], "--format", "html", "--output", str(page), *words[1:])
    assert result.returncode in {0, 1}, result.stderr
    colours = set()
    for width in (1280, 390):
        for dark in (False, True):
            seen: dict[str, Any] = chromium.evaluate(page, _SEEN, width=width, dark=dark)
            assert (seen["overflow"], seen["cut"], seen["small"]) == ([], [], []), width
            assert width < 1280 or seen["scrolling"] == []
            assert seen["heading"]
            colours.add(seen["foreground"])
    assert len(colours) == 2  # light and dark
    assert "2026-01-01 00:00 UTC" in seen["origin"]
    assert f"ttools {words[0]} --format html" in seen["origin"]
    assert "ttools 0." in seen["origin"]
    assert "Triton 3." in seen["origin"]
