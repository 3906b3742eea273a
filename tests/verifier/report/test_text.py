"""Verification reports as text."""

from __future__ import annotations

from ttools.verifier.report.text import circumstances, text_of
from ttools.verifier.result import Failure, Verification


def test_failures_are_described_completely() -> None:
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


def test_equal_verdicts_at_all_sizes_are_combined() -> None:
    def run(dtype: str, verdict: str, *why: str) -> dict[str, object]:
        assumed = ["the first configuration"] if verdict == "proved" else []
        choices = {"dtype": dtype}
        return {"choices": choices, "verdict": verdict, "why": list(why), "assumed": assumed}

    tried = {
        "sizes": {"n": [1, 9000]},
        "runs": [
            run("float32", "proved"),
            run("float16", "proved"),
            run("int8", "not proved", *(f"k.py:{line}: unknown" for line in range(1, 6))),
        ],
    }
    text = text_of(Verification(verdict="pass", failures=(), covered={"all sizes": tried}), "k")
    assert text.splitlines()[3:-2] == [
        "  accesses at all sizes n = 1 to 9,000 (dtype=float32; dtype=float16): proved",
        "    assumed: the first configuration",
        "  accesses at all sizes n = 1 to 9,000 (dtype=int8): not proved",
        "    k.py:1: unknown",
        "    k.py:2: unknown",
        "    k.py:3: unknown",
        "    and 2 more",
        "  not verified by replay: no call could be repeated",
    ]
