"""Tests of worker processes: one that dies or hangs leads to a verdict and does not end the run."""

from __future__ import annotations

import os
import signal

import pytest

from ttools.fuzz import workers
from ttools.fuzz.generate.kernel import generate
from ttools.fuzz.three_way import COMPILATION
from ttools.fuzz.trial import Failure
from ttools.fuzz.variants import BASELINE, VARIANTS, chosen, usable
from ttools.fuzz.workers import Examiner, Task, Work, verdicts

_WORK = Work(variants=("materialised",), per_kernel=2)


@pytest.mark.slow
def test_every_seed_gets_a_verdict() -> None:
    results = list(verdicts(iter(range(100, 104)), _WORK, 2))
    assert sorted(verdict.seed for verdict in results) == [100, 101, 102, 103]
    assert all(verdict.variants == ("native", "materialised") for verdict in results)


@pytest.mark.slow
def test_a_worker_that_dies_is_a_crash_and_the_next_kernel_runs() -> None:
    with Examiner(_WORK) as examiner:
        assert examiner.examine(generate(1), "native").variants == ("native",)
        assert examiner._worker._process is not None
        os.kill(examiner._worker._process.pid, signal.SIGSEGV)
        verdict = examiner.examine(generate(2), "native")
        (failure,) = verdict.failures
        assert failure.kind == "crash"
        assert "SIGSEGV" in failure.message
        assert examiner.examine(generate(1), "native").variants == ("native",)


def test_a_worker_that_does_not_answer_is_a_hang() -> None:
    with Examiner(Work(variants=("native",), timeout=0.0)) as examiner:
        (failure,) = examiner.examine(generate(1), "native").failures
    assert failure.kind == "hang"


def test_a_long_compilation_by_triton_is_no_hang() -> None:
    with Examiner(Work(variants=("native",), timeout=0.0)) as examiner:
        worker = examiner._worker
        worker.give(Task(1))
        worker._variant = COMPILATION
        verdict = worker.receive(False)
    assert verdict is not None
    assert [failure.kind for failure in verdict.failures] == ["rejected"]
    assert "did not compile it in 0 s" in verdict.failures[0].message


def test_an_exception_of_the_generator_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(seed: int, features: object) -> None:
        raise OverflowError("cannot convert float infinity to integer")

    monkeypatch.setattr("ttools.fuzz.generate.kernel.generate", fail)
    (verdict,) = workers.verdicts_here(iter([7]), _WORK)
    (failure,) = verdict.failures
    assert (failure.kind, failure.variant) == ("error", "generator")


def test_variants_are_chosen_in_proportion_to_their_shares() -> None:
    counts = {variant.name: 0 for variant in VARIANTS}
    for seed in range(2000):
        first, *others = chosen(seed, VARIANTS, 4)
        assert first is BASELINE
        assert len({v.name for v in others}) == 3
        for variant in others:
            counts[variant.name] += 1
    mean = 6000 / sum(variant.share for variant in VARIANTS)
    for variant in VARIANTS:
        assert 0.75 * mean < counts[variant.name] / variant.share < 1.25 * mean


def test_unsupported_cpus_are_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    from ttools.core.errors import UsageError
    from ttools.interpreter.native import jit

    def refuse(cpu: str) -> None:
        if cpu:
            raise UsageError(cpu)

    monkeypatch.setattr(jit, "host_target", refuse)
    assert not any(variant.cpu for variant in usable())
    assert len(usable()) > 8


def test_failures_with_the_same_cause_are_merged() -> None:
    a = Failure(1, "error", "native", "Error: '%12' is i1\nat <string>:24:54")
    b = Failure(2, "error", "opt 0", "Error: '%7' is i1\nat <string>:8:5")
    c = Failure(3, "error", "opt 0", "Error: no such operation")
    assert a.cause == b.cause != c.cause
