"""Sums that torch finishes are permitted if the kernels do most of the work."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ttools.verifier.cases.plan import Case
from ttools.verifier.cases.tensors import image_of
from ttools.verifier.oracle.evaluation import evaluate
from ttools.verifier.run.provenance import finishing_work, reductions_of, work_of_torch
from ttools.verifier.run.reductions import Reductions
from ttools.verifier.run.trial import Trial

CASE = Case(sizes={})


def trial(elements: int, length: int, operations: int, part: str = "result") -> Trial:
    """Return a call in which torch reduces elements, where the reference has some operations."""
    answer = {
        "finished_by": [[part, "sum", elements, length]],
        "finishing": [["sum", elements]],
    }
    given = [{"name": part, "kind": "tensor", "shape": [elements // length]}]
    right = {"given": given, "operations_of_parts": [operations], "operations": operations}
    reductions = reductions_of(answer, right, {"x": image_of(torch.zeros(40))})
    return Trial(finishing=finishing_work(answer, right), reductions=reductions)


def test_as_many_partial_results_are_permitted_as_where_their_share_is_small() -> None:
    reductions = Reductions()
    reductions.count(CASE, trial(96, 4, 48))
    [(problem, case)] = reductions.failures()
    assert (problem.failure, case) == ("not_computed_by_kernel", CASE)
    assert problem.detail == (
        "torch computes: `sum` on 96 elements, where the reference needs 48 operations for result"
    )
    reductions.count(CASE, trial(96, 4, 4800, part="result[1]"))
    reductions.count(CASE, trial(96, 3, 4800))
    reductions.count(CASE, trial(6, 6, 4800))  # too few elements to conclude anything
    assert len(reductions.failures()) == 1
    reductions.count(CASE, trial(192, 4, 9600))
    assert not reductions.failures()
    assert (
        reductions.largest.text
        == "`sum` on 192 elements (2.0% of the reference's 9,600 operations)"
    )


@pytest.mark.parametrize(("elements", "is_permitted"), [(8, True), (10, False)])
def test_without_operations_of_the_reference_the_largest_argument_counts(
    elements: int, is_permitted: bool
) -> None:
    answer = {"finished_by": [["result", "sum", elements, 2]]}
    right: dict[str, Any] = {"given": []}
    [reduction] = reductions_of(answer, right, {"x": image_of(torch.zeros(40))})
    assert reduction.is_small is is_permitted


def test_a_gradient_without_operations_is_compared_with_the_upstream_gradient() -> None:
    bias = torch.zeros(8, requires_grad=True)
    right = evaluate(lambda x, bias: x + bias, {"x": torch.randn(6, 8), "bias": bias}, [])
    answer = {"finished_by": [["gradient of bias", "sum", 48, 6]]}
    [reduction] = reductions_of(answer, right, {"x": image_of(torch.zeros(6, 80))})
    assert reduction.operations == 48
    assert not reduction.is_small


def rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x * w).sum(1)


@pytest.mark.parametrize(
    ("reference", "is_plain"),
    [
        (rows, True),
        (lambda x, w: -rows(x, w), True),
        (lambda x, w: 3.0 * x.sum(1), True),
        (lambda x, w: (x.relu(), rows(x, w)), False),
        (lambda x, w: rows(x, w) * 0.5, False),  # as for a mean, kernels may compute this
        (lambda x, w: rows(x, w).exp(), False),
        (lambda x, w: x.relu().sum(1), False),
    ],
)
def test_products_with_upstream_gradients_count_if_nothing_else_has_to_be_computed(
    reference: Any, is_plain: bool
) -> None:
    arguments = {"x": torch.ones(5, 12).requires_grad_(), "w": torch.randn(12)}
    right = evaluate(reference, arguments, [])
    assert right["plain_gradients"] == (["gradient of x"] if is_plain else [])
    answer = {"finished_by": [["gradient of x", "mul", 60, 1]], "operators": [], "lazy": []}
    images = {name: image_of(tensor.detach()) for name, tensor in arguments.items()}
    problems = work_of_torch({**answer, "launches": 1}, right, images, is_right=True)
    assert [problem.failure for problem in problems] == ["not_computed_by_kernel"] * is_plain
