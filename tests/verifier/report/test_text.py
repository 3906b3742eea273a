"""Verification reports as text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ttools.verifier.report.findings import report_of
from ttools.verifier.report.text import _CASES, circumstances, line_of, text_of
from ttools.verifier.result import CLASSES, CONSEQUENCES, Failure, Verification, ranked
from ttools.verifier.run import verification_run


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
        "N=3, dtype=float32, grad=True, seed=7; values: one NaN; y is x; only the gradient of w is "
        "computed; each tensor is a view that begins at element 5 of its memory, as y[5:]; x is "
        "expanded along its first axis, with a stride of 0; configuration 2 of the autotuner; "
        "after 1 other call"
    )
    whole = Verification(verdict="fail", failures=(failure,), warnings=(failure,), covered={})
    assert Verification.of_dict(whole.as_dict()) == whole


def test_equal_verdicts_at_all_sizes_are_combined() -> None:
    def run(dtype: str, verdict: str, *why: str) -> dict[str, object]:
        assumed = ["the first configuration"] if verdict == "claimed" else []
        choices = {"dtype": dtype}
        return {"choices": choices, "verdict": verdict, "why": list(why), "assumed": assumed}

    tried = {
        "sizes": {"n": [1, 9000]},
        "meaning_of_claimed": "proved by somebody",
        "runs": [
            run("float32", "claimed"),
            run("float16", "claimed"),
            run("int8", "not proved", *(f"k.py:{line}: unknown" for line in range(1, 6))),
        ],
    }
    text = text_of(Verification(verdict="pass", failures=(), covered={"all sizes": tried}), "k")
    assert text.splitlines()[3:-2] == [
        "  accesses at all sizes n = 1 to 9,000 (dtype=float32; dtype=float16): proved by",
        "      somebody",
        "    assumed: the first configuration",
        "  accesses at all sizes n = 1 to 9,000 (dtype=int8): not proved",
        "    k.py:1: unknown",
        "    k.py:2: unknown",
        "    k.py:3: unknown",
        "    and 2 more",
        "  not verified by replay: no call could be repeated",
        "  help: --replay required gives no pass to a candidate that cannot be replayed",
    ]


def _failures(*names: str) -> tuple[Failure, ...]:
    return tuple(
        Failure(
            failure=name,
            detail=f"{name} of many elements " * 5,
            sizes={"M": 3, "N": 4},
            views={"*": "every_other"},
            where="kernels/softmax.py:12:5",
            excerpt="   12 |     x = tl.load(p)\n      |         ^^^^^^^^^^",
            witness="program (0, 0, 0), lane [3] of [16]: i = 3",
            help="mask the load",
            issue="a text\nof two lines",
        )
        for name in names
    )


def test_a_failure_shows_its_line_and_advice() -> None:
    found = Verification(verdict="fail", failures=_failures("memory"), covered={"cases": 1})
    assert text_of(found, "k.py:softmax").splitlines() == [
        "k.py:softmax: failed",
        "",
        "  memory: memory of many elements memory of many elements memory of many",
        "      elements memory of many elements memory of many elements",
        "    kernels/softmax.py:12:5",
        "       12 |     x = tl.load(p)",
        "          |         ^^^^^^^^^^",
        "    program (0, 0, 0), lane [3] of [16]: i = 3",
        "    inputs: M=3, N=4, seed=0; each tensor is a view of every other element of",
        "        its memory, as y[..., ::2]",
        "    help: mask the load",
        "    help: if callers pass only contiguous tensors, declare CONTIGUOUS = [...]",
        "    `--verbose` shows a text for an issue about the compiler.",
        "",
        "  tried 1 case",
        "  not checked: speed: nothing was timed; without --on gpu: the GPU's compiler",
        "      and memory model, and the rounding of tf32 products",
        "  help: --write-tests DIR writes each failure as a pytest file",
    ]
    assert "    of two lines" in text_of(found, "k.py:softmax", verbose=True)


def _unlocated(name: str, test: str | None = None) -> Failure:
    return Failure(failure=name, detail=f"{name} at [0]", sizes={"N": 4}, test=test)


def test_a_failure_with_a_source_line_comes_before_those_that_it_explains() -> None:
    (unwritten,) = _failures("unwritten")
    folder = "/home/somebody/" + "a folder with a long name/" * 4
    wrong = _unlocated("wrong_values", test=f"{folder}test_wrong.py")
    failures = ranked([_unlocated("stale_state"), wrong, _unlocated("exception"), unwritten])
    assert [(failure.failure, failure.consequence_of) for failure in failures] == [
        ("unwritten", ""),
        ("exception", ""),
        ("stale_state", "unwritten"),
        ("wrong_values", "unwritten"),
    ]
    found = Verification(verdict="fail", failures=failures, covered={"cases": 1})
    assert Verification.of_dict(found.as_dict()) == found
    text = text_of(found, "k.py:softmax")
    assert (
        "  2 further failures are probably consequences of `unwritten` (`--verbose` shows\n"
        "    them in full):\n"
        "    stale_state: stale_state at [0]\n"
        "    wrong_values: wrong_values at [0]\n"
        f"      test: {wrong.test}\n"
    ) in text
    assert text.index("unwritten: ") < text.index("exception: ") < text.index("stale_state: ")
    whole = text_of(found, "k.py:softmax", verbose=True)
    assert whole.count("probably a consequence of `unwritten`") == 2
    assert whole.count("inputs: N=4") == 3
    notes = report_of(found, "k.py:softmax").findings[2].notes
    assert "probably a consequence of the failure `unwritten`" in notes


def test_without_a_source_line_no_failure_explains_others() -> None:
    failures = ranked(map(_unlocated, reversed(CLASSES)))
    assert [failure.failure for failure in failures] == list(CLASSES)
    assert not any(failure.consequence_of for failure in failures)
    located = ranked(_failures("memory", "wrong_values"))
    assert not any(failure.consequence_of for failure in located)
    assert set(CONSEQUENCES) | set().union(*CONSEQUENCES.values()) <= set(CLASSES)


@pytest.mark.parametrize("count", range(1, len(CLASSES) + 1))
def test_reports_fit_on_a_screen(count: int) -> None:
    failures = _failures(*CLASSES[:count])
    notes = tuple(f"note {number} " * 12 for number in range(9))
    found = Verification(
        verdict="fail", failures=failures, warnings=failures, covered={"cases": 42}, notes=notes
    )
    lines = text_of(found, "k.py:softmax").splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith(f"  {CLASSES[0]}: ") for line in lines) == 1
    whole = text_of(found, "k.py:softmax", verbose=True).splitlines()
    assert sum(line.startswith("  warning: ") for line in whole) == count


def test_what_weakens_a_verdict_is_in_the_first_line() -> None:
    reason = "not verified by replay"
    found = Verification(
        verdict="pass", reason=reason, failures=(), covered={"cases": 60, "views": 1}
    )
    lines = text_of(found, "k").splitlines()
    assert lines[0] == line_of("k", found) == "k: passed (not verified by replay)"
    assert lines[2] == "  tried 60 cases: 1 with views as arguments"


def test_no_kind_of_case_is_shown_by_its_internal_name() -> None:
    source = Path(verification_run.__file__).read_text("utf-8")
    kinds = set(re.findall(r'(?:_named|_covered)[\[(]\s*"([^"]+)"', source))
    kinds |= set(re.findall(r'_try\("([^"]+)"', source))
    assert len(kinds) > 10
    assert kinds <= set(_CASES)


def test_the_line_of_a_batch_gives_the_reason_of_an_unknown_verdict() -> None:
    note = "the file cannot be loaded"
    lost = Verification(verdict="inconclusive", failures=(), covered={}, notes=(note,))
    assert line_of("lost.py", lost) == f"lost.py: unknown ({note})"


def test_a_pass_tells_the_largest_error() -> None:
    covered = {"cases": 3, "largest errors": {"result (float16)": 0.42, "total (float32)": 0.0}}
    passed = Verification(verdict="pass", failures=(), covered=covered)
    text = " ".join(text_of(passed, "k").split())
    assert (
        "largest error, as a share of the tolerance: 42% in result (float16), 0% in total (float32)"
    ) in text
    failed = Verification(verdict="fail", failures=(), covered=covered)
    assert "largest error" not in text_of(failed, "k")
