"""Lines of 80 columns, in which paths and commands stay whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.reports.wrapping import (
    WIDTH,
    shortened,
    unbroken,
    width_of_whole_parts,
    with_blanks,
    wrapped,
)

COMMAND = "`ttools prove --script --sizes 'M=1:4096' --assume index=0:n-1 script.py --size 4`"
PATH = "/home/somebody/a folder with blanks/kernels/softmax-fused.py:12:5"
WORDS = st.lists(st.text("abc-/.`", min_size=1, max_size=30), max_size=40)


@given(words=WORDS, indent=st.integers(0, 8))
def test_lines_contain_all_words_in_their_order(words: list[str], indent: int) -> None:
    text = " ".join(words)
    lines = wrapped(text, " " * indent)
    assert " ".join(lines).split() == text.split()
    for line in lines:
        assert len(line) <= WIDTH or " " not in line.strip() or "`" in line


@pytest.mark.parametrize("before", range(0, 80, 7))
def test_a_command_is_in_one_line(before: int) -> None:
    text = f"{'x ' * (before // 2)}run {COMMAND} and then look at the report that it writes"
    assert sum(COMMAND in line for line in wrapped(text)) == 1


@pytest.mark.parametrize("before", range(0, 80, 7))
def test_a_path_with_blanks_is_in_one_line(before: int) -> None:
    text = f"{PATH}: error: {'x ' * (before // 2)}which was called from {PATH} by another kernel"
    assert sum(line.count(PATH) for line in wrapped(text, whole=[PATH])) == 2


def test_other_text_in_backquotes_is_divided() -> None:
    text = f"the mask `{'a + ' * 30}b` admits lanes"
    assert max(map(len, wrapped(text))) <= WIDTH


def test_indentation() -> None:
    text = "word " * 30
    first, *others = wrapped(text, "  ")
    assert first.startswith("  word")
    assert all(line.startswith("    word") for line in others)
    assert all(line.startswith("word") for line in wrapped(text, "  ", "")[1:])


def test_a_shortened_text_ends_after_a_word() -> None:
    assert shortened("a short text", "  ") == "  a short text"
    assert shortened("") == ""
    text = f"{'word ' * 12}{PATH.replace(' ', '_')} further words"
    line = shortened(text, "  ")
    assert line == f"  {'word ' * 12}…"
    assert len(shortened("word " * 60)) <= WIDTH
    long = "/very" * 30
    assert shortened(f"{long} and more") == f"{long} …"


def test_other_layouts_see_one_word() -> None:
    assert len(unbroken(COMMAND).split()) == 1
    assert with_blanks(unbroken(COMMAND)) == COMMAND
    assert width_of_whole_parts(f"run {COMMAND} again") == len(COMMAND)
    assert width_of_whole_parts("look at kernels/softmax.py:12 again") == 21
    assert width_of_whole_parts("no path here") == 0
