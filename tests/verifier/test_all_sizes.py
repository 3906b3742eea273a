"""Verification of candidates at all sizes of their domain, even sizes that fit in no memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ttools.core.errors import UsageError
from ttools.core.process.channel import WorkerSlowError
from ttools.verifier.api import verify
from ttools.verifier.cases.domain import Domain
from ttools.verifier.cases.plan import Case
from ttools.verifier.options import VerifyOptions
from ttools.verifier.report.text import text_of
from ttools.verifier.result import Verification
from ttools.verifier.run.all_sizes import AllSizesTried, Found, usual_seconds
from ttools.verifier.run.processes import NotLoadedError
from ttools.verifier.serving import verify_here
from ttools.verifier.workers.all_sizes import AllSizes

FILE = Path(__file__).parent / "kernels_at_all_sizes.py"
RANGES = {"n": (1, 1 << 33)}
DOMAIN = Domain(sizes=RANGES, choices={"dtype": ["float32", "float16"]}, seeded=True)


class _Here:
    """Replaces the worker processes: answers requests in this process."""

    def __init__(self, candidate: str, inputs: str = f"{FILE}:inputs") -> None:
        self._asked = AllSizes(candidate, inputs)

    def all_sizes(self, _: float) -> _Here:
        self._asked.answer({"do": "load"})
        return self

    def ask(self, request: dict[str, Any]) -> Any:
        return self._asked.answer(request)

    def end(self, _: object) -> None:
        """Do nothing, because there is no process to end."""


def _tried(
    name: str, seconds: float = 100.0, why: str = ""
) -> tuple[list[Found], list[dict[str, Any]]]:
    """Return the failures of a candidate, and the verdicts for each choice."""
    tried = AllSizesTried(_Here(f"{FILE}:{name}"), RANGES, seconds)  # type: ignore[arg-type]
    cases = [Case(sizes={}, choices={"dtype": number}) for number in (0, 1)]
    results = list(tried.run(cases, why))
    description = tried.described(DOMAIN)
    assert description["sizes"] == {"n": [1, 1 << 33]}
    assert description["meaning_of_claimed"].endswith("without the candidate at no size")
    return results, list(description["runs"])


def test_overflows_at_sizes_beyond_memory_are_found() -> None:
    failures, runs = _tried("wraps")
    assert {failure.problem.failure for failure in failures} == {"memory"}
    assert failures[0].case.sizes == {"n": (1 << 31) + 1}
    assert not failures[0].fits
    line = 1 + FILE.read_text("utf-8").splitlines().index(
        "    at = first * BLOCK + tl.arange(0, BLOCK)"
    )
    assert failures[0].problem.detail == (
        "an int32 product wraps around and reaches an address, at n = 2,147,483,649; "
        "`double_kernel` is correct for n up to 2,147,483,648"
    )
    assert failures[0].problem.where.startswith(f"{FILE}:{line}:")
    assert [run["verdict"] for run in runs] == ["fails"]


def test_proofs_are_reported_for_every_choice() -> None:
    failures, runs = _tried("wide")
    assert not failures
    assert [(run["choices"], run["verdict"]) for run in runs] == [
        ({"dtype": "float32"}, "claimed"),
        ({"dtype": "float16"}, "claimed"),
    ]


def test_candidates_that_cannot_be_traced_do_not_fail() -> None:
    failures, runs = _tried("asks_for_a_value")
    assert not failures
    for run in runs:
        assert run["verdict"] == "not tried"
        (why,) = run["why"]
        assert why.startswith(f"{FILE.name}:")
        assert "host code that depends on the contents of a tensor" in why


def test_failures_at_sizes_that_fit_in_memory_are_marked() -> None:
    failures, _ = _tried("leaves_memory_from_some_size_on")
    assert failures[0].case.sizes == {"n": 5_000_001}
    assert failures[0].fits
    assert "out-of-bounds load of element 5,000,001" in failures[0].problem.detail


def test_a_candidate_that_raises_is_not_tried() -> None:
    failures, runs = _tried("asks_for_cuda")
    assert not failures
    assert "AssertionError: the kernel is for CUDA" in runs[0]["why"][0]


def test_without_time_or_sizes_nothing_is_tried() -> None:
    late = "the time limit of 0.1 s for all sizes was reached (--all-sizes-seconds)"
    for seconds, why, reason in ((0.1, "", late), (9, "no", "no")):
        _, runs = _tried("wraps", seconds, why)
        assert [(entry["verdict"], entry["why"]) for entry in runs] == [("not tried", [reason])] * 2
    tried = AllSizesTried(_Here(f"{FILE}:wide"), {}, 9)  # type: ignore[arg-type]
    assert not list(tried.run([Case(sizes={})]))
    (run,) = tried.described(Domain(sizes={}, choices={}, seeded=False))["runs"]
    assert run["why"] == ["`inputs` does not take sizes"]


class _Slow(_Here):
    """Replaces processes that find no kernel in time, or that have to be terminated."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers

    def all_sizes(self, _: float) -> _Slow:
        return self

    def ask(self, request: dict[str, Any]) -> Any:
        if not self._answers:
            raise WorkerSlowError("no answer within 10 seconds")
        nothing: dict[str, Any] = {name: [] for name in ("findings", "sentences", "assumptions")}
        return {**nothing, "launches": False, "is_late": True, "abstained": ["k.py:3: unknown"]}


@pytest.mark.parametrize("answers", [True, False])
def test_the_time_limit_that_ended_a_proof_is_named(answers: bool) -> None:
    late = "the time limit of 60 s for the run was reached (--seconds)"
    tried = AllSizesTried(_Slow(answers=answers), RANGES, 9, late)  # type: ignore[arg-type]
    cases = [Case(sizes={}, choices={"dtype": number}) for number in (0, 1)]
    assert not list(tried.run(cases))
    first, second = tried.described(DOMAIN)["runs"]
    assert (first["verdict"], first["why"][0]) == ("not proved", late)
    assert second["verdict"] == ("not proved" if answers else "not tried")
    assert second["why"][0] == late


def test_a_proof_that_runs_out_of_time_names_the_limit() -> None:
    asked = AllSizes(f"{FILE}:wide", f"{FILE}:inputs")
    asked.answer({"do": "load"})
    sizes, late = {"n": (1, 1 << 33)}, "the time was over"
    request = {"do": "check", "sizes": sizes, "choices": {"dtype": 0}, "seed": 0}
    answer = asked.answer({**request, "seconds": 1e-6, "late": late})
    assert answer["is_late"]
    assert not any("time" in reason for reason in answer["abstained"])


def test_files_that_cannot_be_loaded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, seconds: float) -> _Here:
        raise NotLoadedError(
            "the inputs and the candidate cannot be loaded in one process: OSError: no"
        )

    monkeypatch.setattr(_Here, "all_sizes", refuse)
    _, runs = _tried("wide")
    assert {tuple(run["why"]) for run in runs} == {
        ("the inputs and the candidate cannot be loaded in one process: OSError: no",)
    }


def test_domains_beyond_memory_have_more_time() -> None:
    assert usual_seconds({"m": (0, 1 << 20), "n": (1, 2047)}) == 5
    assert usual_seconds({"m": (0, 1 << 20), "n": (1, 2048)}) == 25


def test_negative_time_is_refused() -> None:
    with pytest.raises(UsageError, match="all_sizes_seconds=-1: must be 0 or more"):
        VerifyOptions(all_sizes_seconds=-1)


def _verified(name: str, **options: Any) -> Verification:
    return verify(f"{FILE}:{name}", f"{FILE}:reference", f"{FILE}:inputs", **options)


def test_a_verification_includes_all_sizes() -> None:
    verification = _verified("wraps", cases=1, all_sizes_seconds=200)
    (failure,) = verification.failures
    assert (failure.failure, failure.sizes) == ("memory", {"n": (1 << 31) + 1})
    assert verification.covered["all sizes"]["runs"][0]["verdict"] == "fails"


@pytest.mark.slow
def test_whole_verifications(tmp_path: Path) -> None:
    verification = _verified("wide", all_sizes_seconds=60)
    assert verification.verdict == "pass"
    assert {run["verdict"] for run in verification.covered["all sizes"]["runs"]} == {"claimed"}
    verification = _verified(
        "leaves_memory_from_some_size_on", cases=1, shrink=1, write_tests=tmp_path
    )
    assert verification.covered["sizes that were found among all"] == 1
    assert {failure.failure: failure.sizes for failure in verification.failures}["memory"] == {
        "n": 5_000_001
    }


@pytest.mark.slow
def test_the_cpu_replaces_a_gpu() -> None:
    verification = _verified("asks_for_cuda", cases=1, all_sizes_seconds=60)
    assert not verification.failures
    assert {run["verdict"] for run in verification.covered["all sizes"]["runs"]} == {"claimed"}


#: Candidates that are wrong at one size, and make the analysis of all sizes find nothing.
CHEATS = ("launches_others_when_analysed", "replaces_the_text")
SLOW_CHEATS = (
    *("leaves_out_launches_when_analysed", "launches_others_in_later_calls"),
    *("constants_of_the_host", "sends_an_answer", "replaces_the_answer", "replaces_the_range"),
)
CHEATING = FILE.with_name("all_sizes_cheats.py")


@pytest.mark.parametrize(
    "name", [*CHEATS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_CHEATS)]
)
def test_what_a_candidate_can_falsify_is_called_a_claim(name: str) -> None:
    words = {"candidate": name, "reference": "reference", "inputs": "inputs"}
    subject = {key: f"{CHEATING}:{function}" for key, function in words.items()}
    options = VerifyOptions(cases=1, all_sizes_seconds=60, replay_seed=1)
    found = verify_here(subject, options)
    assert not found.failures
    tried = found.as_dict()["covered"]["all sizes"]
    meaning = (
        "proved in a process that runs the candidate, which can falsify this; checked without the "
        "candidate at 1 size"
    )
    assert [run["verdict"] for run in tried["runs"]] == ["claimed"]
    assert (tried["meaning_of_claimed"], tried["replayed_sizes"]) == (meaning, 1)
    text = " ".join(text_of(found, name, verbose=True).split())
    assert f"accesses at all sizes n = 1 to 100,000: {meaning}" in text
