"""References are evaluated in another precision."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from ttools.verifier.oracle.evaluation import evaluate
from ttools.verifier.oracle.precision import InPrecision

_WEIGHT = torch.linspace(-1, 1, 8)


def _layer_norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (8,), _WEIGHT, _WEIGHT)


def _module(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    result: torch.Tensor = torch.nn.Linear(8, 8, dtype=torch.float32)(x)
    return result


def _product(x: torch.Tensor) -> torch.Tensor:
    return x @ torch.outer(_WEIGHT, _WEIGHT)


@pytest.mark.parametrize("reference", [_layer_norm, _module, _product])
def test_weights_that_are_no_arguments_are_widened(reference: object) -> None:
    x = 1000 + torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    answer = evaluate(reference, {"x": x}, [])  # type: ignore[arg-type]
    assert answer["double"] is not None
    assert answer["double"][0].dtype == "float64"
    assert answer["spread"] is not None


def test_in_place_results_are_not_converted() -> None:
    x = torch.ones(2, 2)
    with InPrecision(torch.float32), pytest.raises(RuntimeError):
        x.addmm_(torch.ones(2, 2, dtype=torch.float64), torch.ones(2, 2))
    with pytest.raises(RuntimeError, match="shape"), InPrecision(torch.float32):
        torch.ones(2, 3, dtype=torch.float64) @ torch.ones(2, 3)
