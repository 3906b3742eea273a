"""Runs the Python blocks of every documentation page, as one script per page.

A comment `<!-- not run: reason -->` before a block excludes it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n)?```python\n(.*?)```", re.DOTALL)


def blocks(page: Path) -> list[str]:
    return [code for skipped, code in BLOCK.findall(page.read_text("utf-8")) if not skipped]


PAGES = [p for p in sorted((ROOT / "docs").rglob("*.md")) if blocks(p)]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    # Files in /tmp may belong to another user, so the test's own folder is used instead.
    code = "\n".join(blocks(page)).replace("/tmp/", f"{tmp_path}/")
    script = tmp_path / "page.py"
    script.write_text(code, "utf-8")
    result = PYTHON.run([str(script)], cwd=ROOT, env={**os.environ, "TTOOLS_QUIET": "1"})
    assert result.returncode == 0, result.stderr
