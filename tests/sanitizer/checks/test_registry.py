"""Names that select checks."""

from __future__ import annotations

import pytest

from ttools.sanitizer.checks.registry import CHECKS, default_checks, parse_checks


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([], default_checks()),
        ([""], default_checks()),
        (["all"], {*CHECKS} - {"accuracy"}),
        (["memcheck,"], {"memcheck"}),
        (["", "ASan, tsan"], {"memcheck", "racecheck"}),
        (["all,default"], {*CHECKS} - {"accuracy"}),
        (["accuracy,all"], CHECKS),
        (["numeric,default"], {"numeric", *default_checks()}),
        (["msan", "synccheck"], {"initcheck", "deadlock"}),
    ],
)
def test_names_of_checks(names: list[str], chosen: set[str]) -> None:
    assert parse_checks(names) == set(chosen)
