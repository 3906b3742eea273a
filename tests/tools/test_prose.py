"""Wording that `make lint` rejects, and wording that it accepts."""

from __future__ import annotations

import pytest
from tools.prose import docstring_problems, markdown_problems, python_problems, unfinished

ENTRIES = """Read a record.

Args:
    path: of the file.
    limit: Largest size in bytes; 0 for no limit.
        lines that continue an entry may begin in any way: so.

Returns:
    records: in any order.
"""


def test_docstrings_of_modules_and_classes_do_not_begin_with_a_clause() -> None:
    source = '"""What launches are."""\nclass Launch:\n    """Which kernel runs."""\n'
    assert [line for line, _ in python_problems(source)] == [1, 3]


def test_a_summary_of_a_function_is_left_to_ruff() -> None:
    assert not list(docstring_problems("Whether it runs.", is_function=True))


def test_entries_begin_with_a_capital_letter() -> None:
    problems = list(docstring_problems(ENTRIES, is_function=True))
    assert problems == [(3, "the entry `path` does not begin with a capital letter")]


@pytest.mark.parametrize("text", ["It is told.", "timed in turns", "Must not know", "a stranger"])
def test_phrases_are_found_in_every_text(text: str) -> None:
    assert [line for line, _ in python_problems(f"x = 1\n# {text}\n")] == [2]
    assert [line for line, _ in python_problems(f'raise ValueError("{text}")\n')] == [1]
    assert [line for line, _ in markdown_problems(f"# Title\n\n{text}\n")] == [3]


@pytest.mark.parametrize("text", ["returns", "It is toldxyz", "in turn", "many so"])
def test_similar_words_are_allowed(text: str) -> None:
    assert not list(markdown_problems(text))


def test_pages_are_wrapped() -> None:
    long = "word " * 30
    assert len(list(markdown_problems(long))) == 1
    for allowed in (f"| {long} |", f"```\n{long}\n```", f"    {long}", f"# {long}", "x" * 120):
        assert not list(markdown_problems(allowed)), allowed


@pytest.mark.parametrize(
    ("literals", "lines"),
    [
        ('f"{name} has "\n"{len(axes)} axes"', [3]),
        ('"{name} has "  # a comment\n\nf"{len(axes)} axes"', [2]),
        ('rf"{name} has {len(axes)!r}"\n"{axes}"', [3]),
        ('f"{name} has "\nf"{len(axes)} axes"', []),
        ('f"{name} has "\n"{{axes}}, {0} or {}"', []),
        ('"{name} has "\n"{axes} axes".format(name=name, axes=axes)', []),
    ],
)
def test_placeholders_are_in_f_strings(literals: str, lines: list[int]) -> None:
    assert [line for line, _ in python_problems(f"message = (\n{literals}\n)\n")] == lines


def test_unfinished_files_are_exceptions_of_ruff() -> None:
    settings = '[tool.ruff.lint.per-file-ignores]\n"a/**" = ["D401"]\n"b" = ["D10"]\n"c" = ["D"]\n'
    assert unfinished(settings) == ["a/**", "c"]
