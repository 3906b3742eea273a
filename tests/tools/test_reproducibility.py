"""Tests of the comparison of verdicts with the bits of a GPU, for which the CPU stands in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tools.reproducibility.kernels import CASES
from tools.reproducibility.pairs import observations, verdicts
from tools.reproducibility.report import pairs, table, unsound

from ttools.interpreter import interpret


@pytest.mark.slow
def test_verdicts_and_observations_are_about_the_same_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)
    case = replace(CASES["quantise"], configs=CASES["quantise"].configs[:2])
    answers = verdicts(case)
    assert [one["question"] for one in answers] == ["configs", *["batch"] * 5, *["runs"] * 2]
    assert {one["verdict"] for one in answers} == {"equal"}

    def other_result(config: Any, x: torch.Tensor) -> torch.Tensor:
        rows = x + config["num_warps"]  # each configuration gives other bits
        return rows if len(x) > 1 else rows + 1

    other = replace(case, run=other_result)
    with interpret():
        assert observations(case, range(2)) == [0] * 8
        assert observations(other, range(2)) == [2, 2, 0, 0, 2, 2, 0, 0]


def test_the_table_counts_pairs() -> None:
    def verdict(subject: str, verdict: str) -> dict[str, Any]:
        return {"question": "configs", "subject": subject, "verdict": verdict, "reason": ""}

    names = ("equal", "equal", "differs", "differs", "differs", "unknown")
    own = [verdict(f"{n} and {n + 1}", name) for n, name in enumerate(names)]
    case = {"group": "held out", "verdicts": own, "observations": [0, 3, 20, 0, 1, 0]}
    failed = {"group": "held out", "error of verdicts": "ValueError: no"}
    data = {"cases": {"sums": case, "other": failed}}
    assert [pair["differs"] for pair in pairs(data)] == [False, True, True, False, True, False]
    assert unsound(data) == ["sums: configs: 1 and 2"]
    text = table(data)
    assert "| sums | 1 | 1 | 2 | 1 | 1 | 67% |" in text
    assert text.endswith("other: error of verdicts: ValueError: no")
    del case["observations"]
    assert "| all | 2 | 3 | 1 |  |" in table(data)
