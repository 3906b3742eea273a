"""Wrong values are explained by rounding errors only if exact arithmetic corrects them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ttools.verifier.api import verify
from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.run.rounding_errors import explained_by_rounding
from ttools.verifier.run.trial import Trial

FILE = Path(__file__).parent / "inaccurate_kernels.py"
WRONG = Mismatch("wrong_values", "3 elements are wrong")
LOSSY = {"kind": "accuracy_loss", "message": "the addition loses", "where": "a.py:7", "help": "no"}
NAN = {"kind": "nan", "message": "the product gives NaN", "where": "a.py:9", "help": "mask it"}


def output(ulps: float, where: str = "") -> dict[str, Any]:
    return {"name": "`o` of k", "dtype": "float16", "ulps": ulps, "where": where, "share": 0.7}


def trial(
    *classes: str,
    findings: tuple[dict[str, Any], ...] = (),
    limits: tuple[str, ...] = (),
    outputs: tuple[dict[str, Any], ...] = (),
) -> Trial:
    accuracy = {"findings": [*findings], "limits": [*limits], "outputs": [*outputs]}
    return Trial(problems=[Mismatch(name, "wrong") for name in classes], accuracy=accuracy)


def explained(exact: Trial, measured: Trial | None = None) -> Mismatch:
    trials = {"exact": exact, "measured": measured}

    def run(how: str) -> Trial:
        outcome = trials[how]
        assert outcome is not None
        return outcome

    return explained_by_rounding(WRONG, run)


def test_the_line_of_a_finding_is_named() -> None:
    problem = explained(trial(), trial("wrong_values", findings=(LOSSY,)))
    assert problem.rounding == (
        "only rounding errors make the result wrong: with exact arithmetic it is correct; "
        "the addition loses"
    )
    assert (problem.where, problem.help, problem.detail) == ("a.py:7", "no", WRONG.detail)


def test_without_a_finding_the_line_with_the_largest_share_is_named() -> None:
    outputs = (output(2.0, "a.py:3"), output(5.0, "a.py:4"))
    problem = explained(trial(), trial("wrong_values", outputs=outputs))
    assert problem.where == "a.py:4"
    assert problem.rounding.endswith(
        "the largest error of `o` of k is 5 ulp of float16, and 70% of its errors arise in this "
        "line"
    )
    problem = explained(trial(), trial("wrong_values", outputs=(output(0.5, "a.py:3"),)))
    assert problem.where == ""
    assert problem.rounding.endswith("as accurate as the types of its outputs allow")


def test_rounding_is_not_the_reason_if_exact_results_are_wrong() -> None:
    assert explained(trial("wrong_values")).rounding == (
        "rounding errors are not the reason: the result is also wrong if the kernels compute "
        "exactly"
    )
    problem = explained(trial("wrong_values", findings=(NAN,)))
    assert (problem.rounding, problem.where) == (NAN["message"], NAN["where"])


@pytest.mark.parametrize(
    "exact",
    [
        trial("wrong_values", limits=("not all results are exact: …",)),
        trial("wrong_values", findings=(LOSSY,)),
        trial("exception"),
        Trial(unsupported="the candidate gave no answer"),
    ],
)
def test_nothing_is_claimed_without_all_exact_results(exact: Trial) -> None:
    assert explained(exact) is WRONG


def test_nothing_is_claimed_if_the_kernel_is_correct_when_it_is_measured() -> None:
    assert explained(trial(), trial()) is WRONG


@pytest.mark.slow
@pytest.mark.parametrize("name", ["narrow_sum", "scaled_sum", "through_a_narrow_tensor"])
def test_candidates_that_are_wrong_by_rounding_and_otherwise(name: str) -> None:
    verification = verify(
        f"{FILE}:{name}",
        f"{FILE}:reference",
        f"{FILE}:inputs",
        cases=3,
        shrink=0,
        replay="off",
        all_sizes_seconds=0,
    )
    (failure,) = verification.failures
    lines = FILE.read_text("utf-8").splitlines()
    if name == "scaled_sum":
        assert failure.rounding.startswith("rounding errors are not the reason")
        assert failure.where == ""
        return
    assert failure.rounding.startswith("only rounding errors make the result wrong")
    assert lines[int(failure.where.split(":")[1]) - 1].endswith(f"# {name}")
    assert "only rounding errors" in verification.to("text")
