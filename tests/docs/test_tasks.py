"""Links, sections, commands and options in the documentation exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
import typer.core

from tools import gallery
from ttools.cli.app import app

ROOT = Path(__file__).parents[2]
TASKS = sorted((ROOT / "docs" / "tasks").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def section(title: str) -> str:
    """Return the anchor of a heading, as GitHub and MkDocs generate it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_targets_of_links_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "", text)
    broken = []
    for link in _LINK.findall(text):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        if page == gallery.PAGE and name in gallery.commands():
            continue  # generated with the site
        if not target.exists():
            broken.append(link)
        elif anchor and target.suffix == ".md":
            titles = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.M)
            if anchor not in map(section, titles):
                broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", TASKS, ids=lambda page: page.stem)
def test_commands_of_a_task_exist(page: Path) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    text = page.read_text("utf-8")
    typed = re.findall(r"^(?: {4}| {8})(ttools .+)$", text, re.M)
    typed += re.findall(r"`(ttools [^`]+)`", text)
    for words in map(shlex.split, typed):
        command = group.commands.get(" ".join(words[1:3])) or group.commands[words[1]]
        options = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words[2:] if word.startswith("--")} <= options


def test_every_task_is_listed() -> None:
    index = (ROOT / "docs" / "tasks" / "index.md").read_text("utf-8")
    others = {page.name for page in TASKS} - {"index.md"}
    assert set(re.findall(r"\]\((\w+\.md)\)", index)) == others
