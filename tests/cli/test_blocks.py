"""Blocks of text reports: paths and commands stay whole at any width of the terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from ttools.cli.blocks import block, paragraph, table
from ttools.cli.console import write_tables
from ttools.cli.doctor import command as doctor
from ttools.core.environment import Result

PATH = "/home/somebody/a folder with blanks/" + "a-long-name/" * 6 + "softmax.py:12"
WORD = PATH.replace(" ", "-")
COMMAND = "`ttools tune export --format csv --output trials.csv store.json`"
ADVICE = f"the others are left out; {COMMAND} writes all of them, and so does a look at {WORD}"


def rendered(part: RenderableType, width: int) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width).print(part, crop=False)
    return [line.rstrip() for line in file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_block_keeps_paths_and_commands(width: int) -> None:
    facts = [("tried", "12 configurations " * 9), ("", ""), ("advice", ADVICE)]
    lines = rendered(block("kernel [BLOCK=64]", facts, paragraph(ADVICE), place=PATH), width)
    assert sum(PATH in line for line in lines) == 1
    assert sum(COMMAND in line for line in lines) == 2
    assert sum(WORD in line for line in lines) == 2
    short = (line for line in lines if not {PATH, COMMAND, WORD} & set(_parts(line)))
    assert max(map(len, short)) <= min(width, 100)


def _parts(line: str) -> list[str]:
    return [part for part in (PATH, COMMAND, WORD) if part in line]


def test_the_layout_of_a_block() -> None:
    facts = [("tried", "12 configurations"), ("in all", "word " * 20), ("none", "")]
    rows = [("a", "1"), ("b", "2")]
    tables = (table(("name", "number"), rows, ["name"]), paragraph("one\n\ntwo"))
    assert rendered(block("kernel", facts, *tables, place="k.py:3"), 60) == [
        "kernel  k.py:3",
        "  tried   12 configurations",
        "  in all  word word word word word word word word word word",
        "          word word word word word word word word word word",
        "  name  number",
        "  a          1",
        "  b          2",
        "  one",
        "",
        "  two",
        "",
    ]


@pytest.mark.parametrize("width", [40, 80])
def test_a_table_keeps_paths_and_commands(width: int) -> None:
    rows = [("BLOCK=64", "1.2 us", ADVICE), ("BLOCK=128", "1.3 us", "it failed")]
    lines = rendered(table(("config", "time", "because"), rows, ["config", "because"]), width)
    assert sum(COMMAND in line for line in lines) == 1
    assert sum(WORD in line for line in lines) == 1
    assert sum("1.2 us" in line for line in lines) == 1


def test_constant_columns_are_below_the_table() -> None:
    rows = [("a", PATH), ("b", PATH)]
    lines = rendered(table(("name", "file"), rows, ["name", "file"]), 80)
    assert "".join(lines[-2:]).replace(" ", "") == f"inallrows:file{PATH}".replace(" ", "")


def test_files_of_reports_have_whole_paths(tmp_path: Path) -> None:
    output = tmp_path / "report.txt"
    write_tables([block("kernel", [("advice", ADVICE)], place=PATH)], output)
    text = output.read_text("utf-8")
    assert PATH in text
    assert COMMAND in text
    assert WORD in text


def test_doctor_shows_whole_paths_and_commands() -> None:
    result = Result(
        name="caches", status="warning", detail=f"{WORD} is not writable", help=f"run {COMMAND}"
    )
    lines = rendered(doctor._listed([result]), 60)
    assert lines[0].startswith("warning  caches  ")
    assert any(line.endswith(WORD) for line in lines)
    assert any(COMMAND in line for line in lines)
