"""Sizes of a verification's inputs that are tuned."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ttools.core.errors import UsageError
from ttools.verifier.cases.tuned import problems_of


def inputs(M: int, N: int, dtype: str, seed: int) -> dict[str, Any]:
    return {}


DOMAIN = {"M": (1, 8000), "N": (0, 1000), "dtype": ["float32", "float16"]}


def test_the_largest_sizes_that_fit_with_each_type() -> None:
    problems = problems_of(SimpleNamespace(DOMAIN=DOMAIN), inputs)
    assert [problem["dtype"] for problem in problems] == ["float32", "float16"]
    assert {(problem["M"], problem["N"], problem["seed"]) for problem in problems} == {
        (4000, 1000, 0)
    }


def test_problems_listed_by_a_file() -> None:
    module = SimpleNamespace(DOMAIN=DOMAIN, TUNE=[{"M": 5}, {"dtype": "float16", "N": 3}])
    assert problems_of(module, inputs) == [
        {"M": 5, "N": 1000, "seed": 0, "dtype": "float32"},
        {"M": 4000, "N": 3, "seed": 0, "dtype": "float16"},
    ]


@pytest.mark.parametrize("declared", [[{"K": 3}], {"M": 3}, [3]])
def test_invalid_lists(declared: object) -> None:
    with pytest.raises(UsageError, match="TUNE"):
        problems_of(SimpleNamespace(DOMAIN=DOMAIN, TUNE=declared), inputs)


def test_inputs_without_parameters() -> None:
    def draw() -> dict[str, Any]:
        return {}

    assert problems_of(SimpleNamespace(), draw) == [{}]
