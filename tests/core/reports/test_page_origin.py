"""Tests of the line at the top of each page that says where the page comes from."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from ttools.core.process.command_line import command_line, shown_command_line
from ttools.core.reports.page_template import render_page


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "page.html.jinja").write_text('{% extends "base.html.jinja" %}', "utf-8")
    (tmp_path / "page.css").write_text("", "utf-8")
    return tmp_path


def _origin(page: str) -> str:
    match = re.search(r'<p id="origin".*?>(.*?)</p>', page, re.DOTALL)
    assert match is not None
    return " ".join(re.sub("<.*?>", "", match[1]).split())


def test_a_page_names_date_command_versions_and_gpu(folder: Path) -> None:
    token = command_line.set(("ttools", "profile", "my file.py"))
    try:
        text = _origin(render_page(folder, gpu="h100"))
    finally:
        command_line.reset(token)
    torch = f", torch {version('torch')}" if find_spec("torch") else ""
    assert text == (
        "2026-01-01 00:00 UTC ttools profile &#39;my file.py&#39; "
        f"ttools {version('ttools-core')}, Triton {version('triton')}{torch} GPU: h100"
    )


def test_the_date_is_that_of_the_clock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC ", _origin(render_page(folder)))


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/home/me/run.py", "--n", "3 4"], "run.py --n '3 4'"),
        (["/lib/ipykernel_launcher.py", "-f", "kernel.json"], "a notebook"),
        (["-c"], ""),
        ([""], ""),
        ([], ""),
    ],
)
def test_programs_that_use_the_packages(
    argv: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    assert shown_command_line() == expected
