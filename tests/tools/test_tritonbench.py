"""Candidate files of TritonBench's kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tools.libraries.tritonbench import KERNELS, candidate_file

#: A file of TritonBench; `host` stands for the host function that a test calls.
TEXT = """
def host(x, *others):
    return x


####
raise AssertionError("this is the test")
"""


@pytest.mark.parametrize("name", KERNELS)
def test_references_are_written_in_torch(name: str) -> None:
    namespace: dict[str, Any] = {}
    host = KERNELS[name].call.partition("(")[0]
    text = candidate_file(KERNELS[name], TEXT.replace("host", host))
    exec(text, namespace)
    domain = namespace["DOMAIN"]
    sizes = {size: 2 + bounds[0] for size, bounds in domain.items() if size != "grad"}
    choices = {"grad": True} if "grad" in domain else {}
    drawn = namespace["inputs"](**sizes, seed=0, **choices)
    assert namespace["candidate"](**drawn) is drawn["x"]
    assert drawn["x"].requires_grad == KERNELS[name].has_gradients
    assert {*namespace["CONTIGUOUS"], *namespace["FINITE"]} <= drawn.keys()
    result = namespace["reference"](**drawn)
    assert isinstance(result, torch.Tensor)
    assert not result.isnan().any()
