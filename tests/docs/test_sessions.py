"""Commands in the documentation's console blocks produce the output that is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sessions import ROOT, blocks, run_session


def sessions() -> list[tuple[str, str]]:
    """Return the text of each console block of the documentation, by name."""
    return [
        (f"{page.relative_to(ROOT / 'docs')}-{number}", text)
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for number, text in enumerate(blocks(page), 1)
    ]


def marks(name: str) -> list[pytest.MarkDecorator]:
    """Mark a session as slow, except for those that find the planted bugs."""
    return [] if name.startswith("tutorials/planted_bugs") else [pytest.mark.slow]


@pytest.mark.parametrize(
    "block", [pytest.param(text, id=name, marks=marks(name)) for name, text in sessions()]
)
def test_a_session(block: str, tmp_path: Path) -> None:
    run_session(block, tmp_path)


def test_there_are_sessions() -> None:
    assert len(sessions()) >= 3
