"""Results of a GPU are compared with those of the engine; a CPU process replaces the GPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from ttools.core.process.worker import Limits, Worker, fork_worker
from ttools.verifier.cases.plan import Case
from ttools.verifier.cases.tensors import CODEC
from ttools.verifier.options import VerifyOptions
from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.report.issue import issue_text
from ttools.verifier.result import Verification
from ttools.verifier.run.finding_classes import of_doubtful
from ttools.verifier.run.gpu import Gpu
from ttools.verifier.run.processes import Processes, Subject, _loaded
from ttools.verifier.run.trial import Trial
from ttools.verifier.run.verification_run import VerificationRun
from ttools.verifier.workers.gpu_candidate import GpuCandidate

FILE = Path(__file__).parent / "kernels_for_verify.py"
MISCOMPILED = Path(__file__).parent / "kernels_miscompiled.py"


def test_races_and_uninitialised_memory_are_no_compiler_errors() -> None:
    kinds = ("race", "uninit_read", "dead_store", "intra_program_race")
    problems = of_doubtful([{"kind": kind, "message": kind, "severity": "note"} for kind in kinds])
    assert [problem.failure for problem in problems] == ["race", "unwritten", "race"]


def test_an_issue_lists_the_trials() -> None:
    text = issue_text(
        problem="3 elements are wrong",
        gpu="H100",
        versions={"triton": "3.9"},
        kernels=["sum_kernel"],
        times=(4, 4),
        variants={"num_warps=1": "correct", "num_stages=1": "a | b"},
        located="the first value is `acc`",
    )
    assert text.startswith("`sum_kernel`: wrong result on H100")
    assert "| num_warps=1 | correct |" in text
    assert "| num_stages=1 | a / b |" in text
    assert "Wrong 4 of 4 times: 3 elements are wrong" in text
    assert "\nThe first value is `acc`.\n" in text
    assert "triton 3.9" in text


CASE = Case(sizes={"N": 3})
WRONG = Trial(problems=[Mismatch("wrong_values", "3 elements are wrong")], kernels=["k"])


def opinion(gpu: Callable[..., Trial], engine: Callable[..., Trial]) -> Gpu:
    """Return a `Gpu` whose trials are the results of two functions."""
    candidates = SimpleNamespace(
        on_gpu=lambda: (object(), {"gpu": "H100", "versions": {"triton": "3.9"}}),
        end=lambda worker: None,
    )
    trials = SimpleNamespace(run=lambda case, worker, **request: gpu(**request))
    return Gpu(
        cast("Any", candidates), cast("Any", trials), lambda case, **request: engine(**request)
    )


def test_candidates_wrong_only_on_the_gpu_are_tried_with_other_warps() -> None:
    gpu = opinion(lambda **r: Trial() if r.get("num_warps") == 1 else WRONG, lambda **_: Trial())
    (problem,) = gpu.explained(CASE, gpu.run(CASE))
    assert problem.failure == "wrong_values"
    assert problem.detail == (
        "on H100, 4 of 4 times: 3 elements are wrong; correct on the engine, where racecheck "
        "and initcheck find nothing; on the GPU correct with num_warps=1; no intermediate values "
        "could be stored: 3 elements are wrong"
    )
    assert "| num_warps=1 | correct |" in problem.evidence["issue"]
    assert "| num_stages=4 | 3 elements are wrong |" in problem.evidence["issue"]


def test_failures_on_both_are_defects_of_the_kernel() -> None:
    own = Mismatch("memory", "out of bounds")
    gpu = opinion(lambda **_: WRONG, lambda **_: Trial(problems=[own]))
    assert gpu.explained(CASE, WRONG) == [own]
    assert gpu.confirmed(CASE) == "also on H100: 3 elements are wrong"
    gpu = opinion(lambda **_: Trial(), lambda **_: Trial(problems=[own]))
    assert gpu.confirmed(CASE) == "correct on H100, but only by coincidence"


def test_findings_of_checks_exclude_a_compiler_error() -> None:
    race = {"kind": "race", "message": "two programs write", "severity": "warning"}
    gpu = opinion(lambda **_: WRONG, lambda **_: Trial(findings=[race]))
    (problem,) = gpu.explained(CASE, WRONG)
    assert (problem.failure, problem.evidence) == ("race", {})


def test_products_with_requested_low_precision_are_no_failures() -> None:
    gpu = opinion(lambda **_: WRONG, lambda **r: WRONG if r.get("dot") == "as-written" else Trial())
    assert gpu.explained(CASE, WRONG) == []
    assert gpu.is_inexact


def test_the_gpu_decides_if_the_engine_cannot_run_the_kernel() -> None:
    gpu = opinion(lambda **_: WRONG, lambda **_: Trial(unsupported="inline assembly"))
    (problem,) = gpu.explained(CASE, WRONG)
    assert "not checked on the engine: inline assembly" in problem.detail


def verified(word: str, files: str, monkeypatch: pytest.MonkeyPatch) -> Verification:
    """Run a whole verification, with a process on the CPU that replaces the GPU."""

    def on_gpu(self: Processes) -> tuple[Worker, dict[str, Any]]:
        worker = fork_worker(GpuCandidate(word, "cpu").serve, Limits(own_folder=True), CODEC)
        self._workers.append(worker)
        return worker, _loaded(worker)

    monkeypatch.setattr(Processes, "on_gpu", on_gpu)
    options = VerifyOptions(cases=3, shrink=1, all_sizes_seconds=0)
    # The option is set afterwards, because it is refused without a GPU.
    object.__setattr__(options, "on", "gpu")
    threads = torch.get_num_threads()
    try:
        return VerificationRun(
            Subject(word, f"{files}:reference", f"{files}:inputs"), options
        ).run()
    finally:
        torch.set_num_threads(threads)


@pytest.mark.slow
def test_differences_outside_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report no differing value if the inputs of the kernel already differ on the GPU."""
    verification = verified(f"{FILE}:wrong_on_the_gpu", str(FILE), monkeypatch)
    (failure,) = verification.failures
    assert "on cpu, 4 of 4 times" in failure.detail
    assert "`tt.load`: " in failure.detail
    assert "Inputs: M=" in failure.issue
    assert (verification.covered["on the GPU"], verification.covered["gpu"]) == (1, "cpu")


@pytest.mark.parametrize(
    ("most_stores", "how"),
    [
        (1000, "; the first value that differs is in launch 1"),
        pytest.param(
            # One store of the kernel itself, and those of half of the values.
            12,
            "; if all intermediate values are also stored, the result is correct, which suggests a "
            "fault in the compiler's scheduling or register allocation; with only part 2 of 2 of "
            "them: the first value",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            1,
            "; if all intermediate values, or only a half or a quarter of them, are also stored, "
            "the result is correct, which suggests a fault in the compiler's scheduling or "
            "register allocation",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_first_value_that_a_compiler_gets_wrong(
    most_stores: int, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOST_STORES", str(most_stores))
    verification = verified(f"{MISCOMPILED}:candidate", str(MISCOMPILED), monkeypatch)
    (failure,) = verification.failures
    assert how in failure.detail, failure.detail
    if most_stores > 1:
        assert re.search(
            r"\(`scaled_sum_kernel`\), program 0: `scaled` at [^`]+:36 \(`scaled = x \* 3.0`\), "
            r"`arith.mulf`: \d+ of 16 elements, at \[0\] \S+ on the GPU, \S+ on the engine",
            failure.detail,
        )
    assert failure.detail[failure.detail.index(how) + 3 :] in failure.issue
