"""Changes of arguments during a call, and kernels that restore what they change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ttools.verifier.cases.tensors import (
    TensorImage,
    elements,
    image_of,
    laid_out,
    storage_bytes,
    tensor_of,
)
from ttools.verifier.run.arguments import changed_arguments
from ttools.verifier.workers.argument_writes import ArgumentWrites
from ttools.verifier.workers.candidate import Candidate

X = torch.arange(12, dtype=torch.float32).reshape(3, 4)


def problems_of(
    image: TensorImage, call: Callable[[torch.Tensor], Any], inplace: list[str]
) -> list[str]:
    tensor = tensor_of(image)
    writes = ArgumentWrites([("x", tensor)])
    call(tensor)
    writes.end()
    answer = {
        "arguments": {"x": storage_bytes(tensor)},
        "stored": writes.stored,
        "changed": writes.changed,
        "reshaped": writes.reshaped,
    }
    return [f"{e.failure}: {e.detail}" for e in changed_arguments({"x": image}, answer, inplace)]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x: x[0].exp(), ""),
        (lambda x: x.mul_(2), "changes 11 of 12 elements"),
        (lambda x: x.add_(1).sub_(1), "a torch operator changes `x`, although its contents"),
        (lambda x: x.t_(), "changes the shape or the memory of `x`"),
        (lambda x: x.resize_(2), "changes the shape or the memory of `x`"),
        (lambda x: x.set_(torch.zeros(12).reshape(3, 4)), "changes the shape or the memory of `x`"),
    ],
)
def test_changes_of_an_argument(call: Callable[[torch.Tensor], Any], sentence: str) -> None:
    problems = problems_of(image_of(X), call, [])
    assert bool(problems) == bool(sentence)
    assert all(
        problem.startswith("input_modified: ") and sentence in problem for problem in problems
    )
    assert not problems_of(image_of(X), call, ["x"])


def test_stores_between_the_elements_of_a_view() -> None:
    image = laid_out(X, "every_other")

    def spills(x: torch.Tensor) -> None:
        torch.empty(0).set_(x.untyped_storage()).fill_(0)

    (problem,) = problems_of(image, spills, ["x"])
    assert problem == "memory: writes between the elements of `x`, which is a view"


def loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> Candidate:
    """Return a candidate that runs in this process."""
    monkeypatch.setattr(torch.library.Library, "impl", torch.library.Library.impl)
    candidate = Candidate(f"{Path(__file__).parent / 'kernels_for_verify.py'}:{name}", 20)
    assert "not_loaded" not in candidate.answer({"do": "load"})
    return candidate


@pytest.mark.parametrize(("is_shifted", "count"), [(2, 1), (0, 0)])
def test_a_kernel_that_restores_what_it_changed(
    monkeypatch: pytest.MonkeyPatch, is_shifted: int, count: int
) -> None:
    candidate = loaded("puts_back", monkeypatch)
    sent: dict[str, Any] = {
        "x": image_of(torch.arange(12.0).reshape(3, 4)),
        "is_shifted": is_shifted,
    }
    answer = candidate.answer({"do": "call", "arguments": sent})
    assert answer["arguments"]["x"] == sent["x"].data
    details = [change.detail for change in changed_arguments(sent, answer, [])]
    assert (
        details
        == ["`shifting_sum_kernel` stores to `x`, although its contents stay the same"] * count
    )
    assert not changed_arguments(sent, answer, ["x"])


def test_another_call_may_come_before_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    candidate = loaded("remembers_the_last_forward_pass", monkeypatch)
    x, second = (replace(image_of(each), requires_grad=True) for each in (X, X + 1))
    gradients = [
        elements(
            candidate.answer({"do": "call", "arguments": {"x": x}, **between})["results"][1][
                "image"
            ]
        )
        for between in ({}, {"between": {"x": second}})
    ]
    assert ((gradients[1] / gradients[0] * X)[1:]).allclose((X + 1)[1:])
