"""Weights of results, by which gradients are computed."""

from __future__ import annotations

import pytest
import torch

from ttools.verifier.cases.tensors import VIEWS
from ttools.verifier.workers.results import BackwardPass, weights_of


@pytest.mark.parametrize("view", VIEWS)
def test_weights_have_the_layout_of_arguments(view: str) -> None:
    result = torch.zeros(4, 2, 2, 3, requires_grad=True) * 2
    ((_, plain),), ((_, weights),) = weights_of(result), weights_of(result, BackwardPass(view=view))
    assert plain.is_contiguous()
    assert weights.stride() != plain.stride() or weights.storage_offset()
    assert weights.equal(plain[:1].expand(4, 2, 2, 3) if view == "expanded" else plain)
