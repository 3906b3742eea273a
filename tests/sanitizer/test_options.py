"""How checks are named."""

from __future__ import annotations

import pytest

from ttools.sanitizer.options import CHECKS, DEFAULT_CHECKS, parse_checks


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([], DEFAULT_CHECKS),
        ([""], DEFAULT_CHECKS),
        (["all"], CHECKS),
        (["memcheck,"], {"memcheck"}),
        (["", "ASan, tsan"], {"memcheck", "racecheck"}),
        (["numeric,default"], CHECKS),
        (["msan", "synccheck"], {"initcheck", "deadlock"}),
    ],
)
def test_names_of_checks(names: list[str], chosen: set[str]) -> None:
    assert parse_checks(names) == set(chosen)
