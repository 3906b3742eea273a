"""Every script for learning is run by a page, and the index lists every tutorial page.

`tests/docs/test_sessions.py` runs the sessions themselves.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {path.name: path.read_text("utf-8") for path in (ROOT / "docs/tutorials").glob("*.md")}
SESSIONS = re.findall(
    r"^```console\n(.*?)^```", "\n".join(PAGES.values()), re.DOTALL | re.MULTILINE
)


def test_every_script_is_run_by_a_page() -> None:
    for folder in ("learning", "debugging"):
        inside = [text for text in SESSIONS if f"$ cd examples/{folder}\n" in text]
        scripts = list((ROOT / "examples" / folder).glob("*.py"))
        assert scripts
        for script in scripts:
            ran = re.compile(rf"^\$ .*\b{script.name}\b", re.MULTILINE)
            assert any(ran.search(text) for text in inside), script


def test_every_page_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\((\w+\.md)", PAGES["index.md"]))
    assert linked >= set(PAGES) - {"index.md"}


def test_targets_of_links_between_pages_exist() -> None:
    for name, text in PAGES.items():
        for link in re.findall(r"\]\(([^)#]+\.md)", text):
            assert (ROOT / "docs/tutorials" / link).is_file(), f"{name}: {link}"
