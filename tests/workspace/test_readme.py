"""The tour is run as it stands, in a folder of its own; what the README shows comes back."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
import typer.core
from tests.forked_python import PYTHON
from tests.sessions import ROOT, blocks, run_session

from ttools.cli.app import app

README = ROOT / "README.md"
TOUR = (ROOT / "docs/tour.md").read_text(encoding="utf-8")
COMMAND = ".venv/bin/ttools "


def commands() -> list[list[str]]:
    """The tour's commands, continued lines joined, without the command's own name."""
    text = TOUR.replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.startswith("    " + COMMAND)]
    return [shlex.split(line.removeprefix(COMMAND)) for line in lines]


def snippet() -> str:
    """The tour's Python code."""
    (code,) = re.findall(r"```python\n(.*?)```", TOUR, re.DOTALL)
    return str(code)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the TTIR of the tour's kernel, made by the tour's own code."""
    place = tmp_path_factory.mktemp("readme")
    save = '\nopen("add_kernel.ttir", "w").write(kernel.asm["ttir"])\n'
    (place / "examples").symlink_to(ROOT / "examples")
    (place / "tour.py").write_text(snippet() + save)
    result = PYTHON.run(["tour.py"], cwd=place, timeout=240)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "8 programs\n"
    return place


def test_there_are_commands_of_every_kind() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    assert {words[0] for words in commands()} == {name.split()[0] for name in group.commands}


@pytest.mark.slow  # `make ci` has it all the same
@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_command(words: list[str], folder: Path) -> None:
    result = PYTHON.run(["-m", "ttools_entry", *words], cwd=folder, timeout=240)
    has_defects = words[0] == "sanitize" and words[-1].startswith("examples/defects/")
    assert result.returncode == int(has_defects), result.stderr
    for option in ("--dump-outputs", "--output"):
        if option in words:
            assert (folder / words[words.index(option) + 1]).is_file()


def test_the_readme_shows_outputs() -> None:
    assert len(blocks(README)) == 4


@pytest.mark.slow  # `make ci` has it all the same
@pytest.mark.parametrize("number", range(4))
def test_what_the_readme_shows(number: int, tmp_path: Path) -> None:
    run_session(blocks(README)[number], tmp_path)
