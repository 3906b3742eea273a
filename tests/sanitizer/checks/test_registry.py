"""Names that select checks, and names in suppressions."""

from __future__ import annotations

import pytest

from ttools.sanitizer.checks.registry import (
    CHECKS,
    checks_named,
    default_checks,
    parse_checks,
    what_ran,
)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([], default_checks()),
        ([""], default_checks()),
        (["all"], {*CHECKS} - {"accuracy", "reproducibility"}),
        (["memcheck,"], {"memcheck"}),
        (["", "ASan, tsan"], {"memcheck", "racecheck"}),
        (["all,default"], {*CHECKS} - {"accuracy", "reproducibility"}),
        (["accuracy,all,reproducibility"], CHECKS),
        (["numeric,default"], {"numeric", *default_checks()}),
        (["msan", "synccheck"], {"initcheck", "deadlock"}),
    ],
)
def test_names_of_checks(names: list[str], chosen: set[str]) -> None:
    assert parse_checks(names) == set(chosen)


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("overflow", {"overflow", "accuracy"}),  # the check, or the kind of another check
        ("overflow/*", {"overflow"}),
        ("accuracy/overflow", {"accuracy"}),
        ("overflow/overflow", set()),
        ("nan", {"numeric", "accuracy"}),
        ("numeric/nan", {"numeric"}),
        ("hints/unsupported", {"hints"}),
        ("unsupported", set()),
        ("no_check/nan", set()),
    ],
)
def test_checks_that_a_suppression_means(name: str, checks: set[str]) -> None:
    assert checks_named(name) == checks


def test_an_ambiguous_suppression_is_unused_only_if_all_of_its_checks_ran() -> None:
    assert not what_ran([], ["overflow"]).active("overflow")
    assert what_ran([], ["overflow", "accuracy"]).active("overflow")
    assert what_ran([], ["overflow"]).active("overflow/*")
    assert what_ran([], ["numeric"]).active("misspelled")
