"""Verifications as people read them."""

from __future__ import annotations

from ttools.verifier.report.text import circumstances
from ttools.verifier.result import Failure, Verification


def test_all_that_a_failure_needs_is_said() -> None:
    failure = Failure(
        failure="wrong_values",
        detail="",
        sizes={"N": 3},
        dtype="float32",
        choices={"grad": "True"},
        seed=7,
        values="nan",
        views={"*": "offset", "x": "expanded"},
        shared=("x", "y"),
        only_grad="w",
        config=2,
        after=({},),
    )
    assert circumstances(failure) == (
        "N=3, dtype=float32, grad=True, seed=7; values: nan; y is x; the gradient of w alone; "
        "all arguments as a view: offset; x as a view: expanded; configuration 2; "
        "after another call"
    )
    whole = Verification(verdict="fail", failures=(failure,), covered={})
    assert Verification.of_dict(whole.as_dict()) == whole
