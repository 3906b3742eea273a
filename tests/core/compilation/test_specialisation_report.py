"""The report about compilations: advice with its cost, durations for a target, and formats."""

from __future__ import annotations

import json

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.compilation.compilation_log import CompilationLog, observe_compilations
from ttools.core.compilation.specialisation_report import (
    SpecialisationReport,
    explain,
    recompiled_kernels,
    text_report,
)
from ttools.core.gpus.targets import read_target
from ttools.interpreter import interpret

X = torch.zeros(4096)
TARGET = read_target("sm_90")


def rows(x_ptr, y_ptr, n, m, stride, B: tl.constexpr):
    lanes = tl.arange(0, B)
    at = tl.program_id(0) * stride + lanes
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=lanes < 128), mask=lanes < 128)
    tl.store(y_ptr + n + m, 1.0)


#: Line of the load and the store.
LINE = rows.__code__.co_firstlineno + 3


def log_of(*launches: tuple[int, int, int, int]) -> CompilationLog:
    kernel = triton.jit(rows)
    with observe_compilations() as log, interpret():
        for n, m, stride, block in launches:
            kernel[(2,)](X, X.clone(), n, m, stride, B=block)
    return log


@pytest.fixture(scope="module")
def report() -> SpecialisationReport:
    launches = [(2, 2, 256, 256), (1, 2, 256, 256), (16, 2, 256, 256), (2, 2, 255, 256)]
    return explain(log_of(*launches, launches[0]), TARGET)


def test_advice_has_its_cost(report: SpecialisationReport) -> None:
    (kernel,) = report.kernels
    assert kernel.advice == (
        (
            '`n` alone causes 2 of 4 variants; `do_not_specialize=["n"]` removes them; cost: none, '
            "no access to global memory becomes narrower"
        ),
        (
            '`stride` alone causes 1 of 4 variants; `do_not_specialize=["stride"]` removes it; '
            f"cost: accesses become narrower: line {LINE} from 64 to 32 bits"
        ),
    )


def test_durations_for_a_target(report: SpecialisationReport) -> None:
    assert report.target == "sm_90"
    assert report.phases().keys() == {"front end", "TTIR passes", "TTGIR passes", "LLVM", "ptxas"}
    for item in report.compilations:
        assert item.cost is not None
        assert (item.cost.measured, item.cost.error) == ("again", None)
        assert item.cost.seconds > 0


def test_text(report: SpecialisationReport) -> None:
    text = report.to("text")
    lines = text.splitlines()
    assert lines[0].startswith("4 compilations of 1 kernel, 5 launches")
    assert "compiled again by ttools" in text
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 40
    short = text_report(report, most_lines=6)
    assert short.endswith("… 1 more kernel with 4 compilations (--format json)\n")


def test_markdown_and_json(report: SpecialisationReport) -> None:
    assert "| ---: | ---: | ---: | --- |" in report.to("markdown")
    data = json.loads(report.to("json"))
    assert data["schema"] == "ttools.specialisations/1"
    (kernel,) = data["kernels"]
    second = kernel["compilations"][1]
    (cause,) = second["causes"]
    assert cause == {
        "kind": "integer value",
        "name": "n",
        "before": "neither 1 nor a multiple of 16",
        "now": "1",
    }
    assert (second["compared_with"], second["launches"]) == (1, 1)
    assert second["run"]["target"] == "cpu"
    assert second["target_cost"]["phases"].keys() >= {"ttgir", "llir", "ptx", "cubin"}


def test_results_pass_and_name_kernels_that_were_compiled_again(
    report: SpecialisationReport,
) -> None:
    assert report.passed
    assert list(recompiled_kernels(report)) == [
        "rows was compiled 4 times: integer value of `n` (2), integer value of `stride` (1)"
    ]


def test_arguments_that_change_together() -> None:
    (kernel,) = explain(log_of((2, 2, 256, 256), (1, 1, 256, 256)), TARGET).kernels
    assert kernel.advice == (
        (
            '`n` and `m` together cause 1 of 2 variants; `do_not_specialize=["n", "m"]` removes '
            "it; cost: none, no access to global memory becomes narrower"
        ),
    )


def test_advice_on_constants_keywords_and_decorators() -> None:
    (kernel,) = explain(log_of(*((2, 2, 256, block) for block in (128, 256, 512)))).kernels
    assert kernel.advice[0].startswith("each of the 3 values of the constant `B` is compiled;")
    first = triton.jit(rows)
    with observe_compilations() as log, interpret():
        first[(2,)](X, X.clone(), 2, 2, 256, B=256)
        first[(2,)](X, X.clone(), 2, 2, 256, B=256, num_warps=4)
        triton.jit(rows)[(2,)](X, X.clone(), 2, 2, 256, B=256)
    (kernel,) = explain(log).kernels
    assert kernel.advice == (
        (
            "1 compilation of a variant that exists: write the same keywords at all launches "
            "(cost: none)"
        ),
        (
            "the kernel was decorated 2 times: decorate it once, at the top level of a module "
            "(cost: none)"
        ),
    )


def test_a_kernel_that_does_not_compile_for_the_target() -> None:
    @triton.jit
    def small_product(x_ptr):  # GPUs need at least 16 columns
        at = tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
        tile = tl.load(x_ptr + at)
        tl.store(x_ptr + at, tl.dot(tile, tile))

    with observe_compilations() as log, interpret():
        small_product[(1,)](X.half())
    report = explain(log, TARGET)
    (item,) = report.compilations
    assert item.cost is not None
    assert "`small_product` does not compile for sm_90" in str(item.cost.error)
    assert "does not compile for the target" in report.to("markdown")
