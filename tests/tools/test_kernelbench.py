"""Candidate files of KernelBench problems."""

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
def test_references_are_written_in_torch(name: str) -> None:
    namespace: dict[str, Any] = {}
    problem = PROBLEMS[name]
    exec(candidate_file(problem, KERNEL), namespace)
    drawn = namespace["inputs"](*(2 + low for low, _ in namespace["DOMAIN"].values()), seed=0)
    assert list(drawn) == namespace["CONTIGUOUS"]
    assert namespace["candidate"](**drawn) is drawn["x"]
    result = namespace["reference"](**drawn)
    assert isinstance(result, torch.Tensor)
    assert not result.isnan().any()


def test_the_fastest_attempt_that_is_marked_correct(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "evaluation").mkdir()
    assert best(tmp_path) is None
    for number, (runs, score, text) in enumerate(
        [(True, 1.0, "triton.jit"), (True, 2.0, "triton.jit"), (False, None, "triton.jit"),
         (True, 9.0, "torch only")]
    ):  # fmt: skip
        (tmp_path / f"code/kernel_{number}.py").write_text(text, "utf-8")
        record = json.dumps({"runnable": runs, "score": score})
        (tmp_path / f"evaluation/eval_{number}.json").write_text(record, "utf-8")
    kernel = best(tmp_path)
    assert kernel is not None
    assert kernel.name == "kernel_1.py"
