"""The gallery shows what its commands make, and the commands make it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.gallery import PAGE, commands, make


def test_what_is_shown_is_what_commands_make() -> None:
    text = PAGE.read_text("utf-8")
    made = list(commands())
    assert re.findall(r'<iframe src="(.*?)"', text) == made
    assert re.findall(r"^\[Open the page\]\((.*?)\)$", text, re.M) == made
    assert len(made) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", commands())
def test_a_page_is_made(name: str, tmp_path: Path) -> None:
    text = make(name, tmp_path).read_text("utf-8")
    assert text.lower().startswith("<!doctype html>")
    assert not re.search(r"""(?:src|href)=["']https?:""", text), "it needs no network"
