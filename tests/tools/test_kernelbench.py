"""Candidate files of KernelBench's problems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tools.libraries.kernelbench import PROBLEMS, best, candidate_file

KERNEL = """
class ModelNew:
    def __init__(self, *made_with):
        self.made_with = made_with

    def __call__(self, x, *others):
        return x
"""


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_is_computed_is_said_in_torch(name: str) -> None:
    made: dict[str, Any] = {}
    problem = PROBLEMS[name]
    exec(candidate_file(problem, KERNEL), made)
    drawn = made["inputs"](*(2 + low for low, _ in made["DOMAIN"].values()), seed=0)
    assert list(drawn) == made["CONTIGUOUS"]
    assert made["candidate"](**drawn) is drawn["x"]
    found = made["reference"](**drawn)
    assert isinstance(found, torch.Tensor)
    assert not found.isnan().any()


def test_the_fastest_attempt_that_is_called_right(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "evaluation").mkdir()
    assert best(tmp_path) is None
    for number, (runs, score, text) in enumerate(
        [(True, 1.0, "triton.jit"), (True, 2.0, "triton.jit"), (False, None, "triton.jit"),
         (True, 9.0, "torch only")]
    ):  # fmt: skip
        (tmp_path / f"code/kernel_{number}.py").write_text(text, "utf-8")
        found = json.dumps({"runnable": runs, "score": score})
        (tmp_path / f"evaluation/eval_{number}.json").write_text(found, "utf-8")
    kernel = best(tmp_path)
    assert kernel is not None
    assert kernel.name == "kernel_1.py"
