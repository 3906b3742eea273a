"""Recorded calls compute the same on inputs that the candidate has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ttools.verifier.cases.tensors import elements, image_of, laid_out
from ttools.verifier.replay.plan import read_plan
from ttools.verifier.workers.candidate import Candidate
from ttools.verifier.workers.replayer import Replayer

FILE = Path(__file__).parent / "recorded_kernels.py"
REPLAYED = [
    *("plain", "with_a_table", "with_numpy", "with_copies", "in_place", "in_a_thread"),
    *("as_a_view", "with_gradient"),
]
READING = ["by_a_number_that_it_reads", "by_a_condition", "by_numpy"]


def drawn(seed: int, view: str = "contiguous", **fields: Any) -> dict[str, Any]:
    values = torch.randn(5, 7, generator=torch.Generator().manual_seed(seed))
    return {"x": laid_out(values.requires_grad_(**fields) if fields else values, view)}


def recorded(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    candidate = Candidate(f"{FILE}:{name}", timeout=20.0)
    assert "not_loaded" not in candidate.answer({"do": "load"})
    return candidate.answer({"do": "call", "arguments": arguments, "plan": True})


def replayed(data: bytes, arguments: dict[str, Any]) -> dict[str, Any]:
    replayer = Replayer(timeout=20.0)
    assert "forged" not in replayer.answer({"do": "plan", "data": data})
    return replayer.answer({"do": "call", "arguments": arguments})


@pytest.mark.parametrize("view", ["contiguous", "transposed", "offset"])
@pytest.mark.parametrize("name", REPLAYED)
def test_a_plan_can_be_replayed_on_other_inputs(name: str, view: str) -> None:
    answer = recorded(name, drawn(1, view))
    assert not answer["no_plan"]
    assert not read_plan(answer["plan"]).reads
    new_inputs = drawn(2, view)
    replay = replayed(answer["plan"], new_inputs)
    [result] = replay["results"]
    assert torch.equal(elements(result["image"]), 2 * elements(new_inputs["x"]))
    assert not replay["findings"]
    assert replay["launches"] == answer["launches"] > 0


def test_gradients_are_results_of_a_plan() -> None:
    answer = recorded("with_gradient", drawn(1, requires_grad=True))
    replay = replayed(answer["plan"], drawn(2))
    assert [result["name"] for result in replay["results"]] == ["result", "gradient of x"]
    one, two = (elements(reply["results"][1]["image"]) for reply in (answer, replay))
    assert torch.equal(one, two)


@pytest.mark.parametrize("name", READING)
def test_a_plan_lists_the_arguments_that_the_host_reads(name: str) -> None:
    answer = recorded(name, drawn(1))
    assert read_plan(answer["plan"]).reads == ("x",)


def test_values_of_other_processes_are_constants() -> None:
    answer = recorded("of_another_process", drawn(1))
    new_inputs = drawn(2)
    [result] = replayed(answer["plan"], new_inputs)["results"]
    assert not torch.equal(elements(result["image"]), 2 * elements(new_inputs["x"]))


@pytest.mark.parametrize(
    ("name", "reason"), [("random", "aten::rand"), ("inverse", "aten::linalg_inv_ex")]
)
def test_reasons_for_a_missing_plan(name: str, reason: str) -> None:
    answer = recorded(name, drawn(1))
    assert not answer["plan"]
    assert reason in answer["no_plan"]


def test_a_plan_modifies_arguments_as_the_call_does() -> None:
    def changed(arguments: dict[str, Any], answer: dict[str, Any]) -> torch.Tensor:
        return elements(arguments["x"], answer["arguments"]["x"])

    sent, new_inputs = {"x": image_of(torch.ones(8))}, {"x": image_of(torch.arange(8.0))}
    answer = recorded("doubles_argument", sent)
    assert changed(sent, answer).tolist() == [2.0] * 8
    assert changed(new_inputs, replayed(answer["plan"], new_inputs)).tolist() == [
        2.0 * n for n in range(8)
    ]
