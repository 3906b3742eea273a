"""Results at discontinuities: rounding errors may change them, wrong comparisons may not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ttools.verifier.cases.tensors import elements
from ttools.verifier.oracle.evaluation import evaluate

X = torch.tensor([0.5, 1.5, 1.0, -0.5, 3.25, 1.0])


def jumps(function: Callable[[torch.Tensor], object]) -> bool:
    """Return whether a perturbation of rounding size changes a result by a whole number."""
    right = evaluate(function, {"x": X.clone()}, [])
    return any(
        bool((elements(spread) > (1e4 if "float" in part["dtype"] else 0.5)).any())
        for part, spread in zip(right["given"], right["spread"], strict=True)
        if spread is not None
    )


def in_place(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return torch.floor(x)


@pytest.mark.parametrize(
    "function",
    [
        torch.round,
        lambda x: x > 1,
        lambda x: (x.float() >= 1.5).sum(),
        lambda x: torch.bucketize(x, torch.tensor([0.5, 1.0])),
        lambda x: x[None].repeat(2, 1).max(0),
        lambda x: x.reshape(2, 3).T.contiguous().argmax(0),
        lambda x: (x == x.amax()).int().argmax(),
        lambda x: torch.sort(x, stable=True).indices,
        lambda x: torch.where(x > 1, 7.0, 0.0),
        lambda x: x.topk(4).values,
        lambda x: torch.nn.functional.hardshrink(x, 0.5),
    ],
)
def test_decisions_about_arguments_are_exact(function: Callable[..., object]) -> None:
    assert not jumps(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.round(x * 3 / 3),
        lambda x: x / 1.5 > 1,
        lambda x: torch.bucketize(x * 2, torch.tensor([1.0, 2.0])),
        lambda x: (x * 2).argsort(),
        in_place,
    ],
)
def test_decisions_about_computed_values_may_differ(function: Callable[..., object]) -> None:
    assert jumps(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.topk(3).indices,
        lambda x: torch.topk(x.reshape(2, 3).T, 2, 1).indices,
        lambda x: x.sort(descending=True).indices,
        lambda x: torch.argsort(x, dim=0),
        lambda x: x.kthvalue(3).indices,
        lambda x: torch.relu(x - 9).topk(2).indices,
    ],
)
def test_the_order_of_equal_elements_may_be_undefined(function: Callable[..., object]) -> None:
    assert jumps(function)


@pytest.mark.parametrize(
    "function", [lambda x: x.topk(2).indices, lambda x: x.argsort(), lambda x: x.sort().indices]
)
def test_different_elements_have_one_order(function: Callable[..., object]) -> None:
    (spread,) = evaluate(function, {"x": torch.tensor([3.0, 1.0, 7.0, 2.0])}, [])["spread"]
    assert not elements(spread).any()


@pytest.mark.parametrize(
    "function",
    [torch.sign, lambda x: x + torch.round(x), lambda x: torch.nn.functional.hardshrink(x, 0.5)],
)
def test_decisions_do_not_hide_gradients(function: Callable[..., object]) -> None:
    answer = evaluate(function, {"x": X.clone().requires_grad_()}, [])
    names = [output["name"] for output in answer["given"]]
    assert names == ["result", "gradient of x"]
    assert len(answer["spread"]) == len(answer["double"]) == 2
