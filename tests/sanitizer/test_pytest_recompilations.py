"""The marker `ttools_no_recompilation`, and the summary of compilations."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sanitizer.plugin_runs import Pytest, outcomes

KERNEL = """\
import pytest
import torch
import triton
import triton.language as tl


def fill(x_ptr, n, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(x_ptr + lanes, n + lanes, mask=lanes < 8)


def launch(kernel, *numbers, B=16):
    for n in numbers:
        kernel[(1,)](torch.zeros(64), n, B=B)


@pytest.fixture
def kernel():
    return triton.jit(fill)


"""
TESTS = """\
@pytest.mark.ttools_no_recompilation
def test_one_variant(kernel):
    launch(kernel, 2, 3, 5)

@pytest.mark.ttools_no_recompilation
def test_an_argument_that_is_1(kernel):
    launch(kernel, 2, 1)

@pytest.mark.ttools_no_recompilation(after=2)
def test_a_longer_warm_up(kernel):
    launch(kernel, 2, 1, 3, 1)

@pytest.mark.ttools_no_recompilation(after=0)
def test_no_compilation_at_all(kernel):
    launch(kernel, 2)

@pytest.fixture
def warm(kernel):
    kernel.warmup(torch.float32, 1, B=16, grid=(1,))
    launch(kernel, 2)
    return kernel

@pytest.mark.ttools_no_recompilation(after=0)
def test_a_fixture_warms_up(warm):
    launch(warm, 3, 1)

@pytest.mark.ttools_no_recompilation
def test_an_autotuned_kernel(kernel):
    tuned = triton.autotune([triton.Config({"B": 16}), triton.Config({"B": 32})], key=["n"])(kernel)
    for _ in range(2):
        tuned[(1,)](torch.zeros(64), 5)

@pytest.mark.ttools_no_recompilation(before=2)
def test_a_wrong_argument(kernel):
    pass

@pytest.mark.ttools_no_recompilation(after="2")
def test_a_wrong_value(kernel):
    pass

def test_without_the_marker(kernel):
    launch(kernel, 2, 1)
"""


def test_outcomes(run_pytest: Pytest, same_folder: Path) -> None:
    (same_folder / "test_serving.py").write_text(KERNEL + TESTS)
    result = run_pytest({}, "-rA", "--ttools-specialisations")
    assert outcomes(result) == {
        "test_one_variant": "PASSED",
        "test_an_argument_that_is_1": "FAILED",
        "test_a_longer_warm_up": "PASSED",
        "test_no_compilation_at_all": "FAILED",
        "test_a_fixture_warms_up": "PASSED",
        "test_an_autotuned_kernel": "PASSED",
        "test_a_wrong_argument": "FAILED",
        "test_a_wrong_value": "FAILED",
        "test_without_the_marker": "PASSED",
    }
    assert (
        "test_serving.py:7: `fill` was compiled after 1 launch: `n` is 1 (previously neither 1 "
        "nor a multiple of 16)\n  launched at test_serving.py:14\n"
        '  help: `@triton.jit(do_not_specialize=["n"])` avoids this compilation'
    ) in result.stdout
    assert "`fill` was compiled after 0 launches: first compilation" in result.stdout
    assert "accepts only after=..." in result.stdout
    assert "after='2' is not a number of launches, such as 1" in result.stdout
    assert "ttools compilations: 12 of 1 kernel in 7 tests" in result.stdout
    assert "integer value of n (4)" in result.stdout


@pytest.mark.slow
def test_under_the_checks_and_in_worker_processes(run_pytest: Pytest, same_folder: Path) -> None:
    (same_folder / "test_serving.py").write_text(KERNEL + TESTS)
    arguments = ("-rA", "--ttools-specialisations", "--ttools-sanitize", "-n", "2")
    result = run_pytest({}, *arguments)
    found = outcomes(result)
    assert found["test_an_argument_that_is_1"] == "FAILED"
    assert found["test_an_autotuned_kernel"] == "PASSED"
    assert "of 1 kernel in 7 tests" in result.stdout
