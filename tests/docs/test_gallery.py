"""The gallery shows the output of its commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.gallery import PAGE, commands, make


def test_the_gallery_shows_the_output_of_commands() -> None:
    text = PAGE.read_text("utf-8")
    generated = list(commands())
    assert re.findall(r'<iframe src="(.*?)"', text) == generated
    assert re.findall(r"^\[Open the page\]\((.*?)\)$", text, re.M) == generated
    assert len(generated) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", commands())
def test_a_page_is_generated(name: str, tmp_path: Path) -> None:
    text = make(name, tmp_path).read_text("utf-8")
    assert text.lower().startswith("<!doctype html>")
    assert not re.search(r"""(?:src|href)=["']https?:""", text), "the page needs no network"
