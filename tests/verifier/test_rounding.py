"""Precision that a kernel may lose if it computes by the formula of its reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import gelu, softplus

from ttools.verifier.cases.tensors import elements
from ttools.verifier.oracle.comparison import compare
from ttools.verifier.oracle.evaluation import evaluate
from ttools.verifier.workers.results import described, weights_of

SMALL = torch.linspace(-2e-5, 2e-5, 16)


def naive_variance(x: torch.Tensor) -> torch.Tensor:
    return (x * x).mean() - x.mean() ** 2


def long_chain(x: torch.Tensor) -> torch.Tensor:
    for _ in range(16):
        x = x * 1.5 / 1.25
    return x


def allowed(reference: Callable[..., torch.Tensor], x: torch.Tensor, result: torch.Tensor) -> bool:
    right = evaluate(reference, {"x": x}, [])
    return not compare(right, [described("result", result, {})])


@pytest.mark.parametrize(
    ("reference", "x", "loses", "may"),
    [
        (lambda x: torch.exp(x) - 1, SMALL, lambda x: x.exp() * (1 + 2e-7) - 1, True),
        (torch.expm1, SMALL, lambda x: x.exp() * (1 + 2e-7) - 1, False),
        (lambda x: torch.log(1 + torch.exp(x)), SMALL - 15, lambda x: x.exp() * 0.93, True),
        (softplus, SMALL - 15, lambda x: x.exp() * 0.93, False),
        (naive_variance, SMALL + 100, lambda x: naive_variance(x) + 0.01, True),
        (lambda x: x.var(correction=0), SMALL + 100, lambda x: naive_variance(x) + 0.01, False),
        (gelu, SMALL - 4, lambda x: gelu(x.double()).float() + 5e-7, True),
        (gelu, SMALL - 1, lambda x: gelu(x) * 1.0001, False),
        (lambda x: torch.softmax(x, 0), SMALL, lambda x: torch.softmax(x, 0) * 1.0001, False),
        (long_chain, SMALL, lambda x: long_chain(x) * 1.0001, False),
    ],
)
def test_rounding_errors_of_the_formula_are_accepted(
    reference: Callable[..., torch.Tensor],
    x: torch.Tensor,
    loses: Callable[..., torch.Tensor],
    may: bool,
) -> None:
    assert allowed(reference, x, loses(x)) is may


def test_each_part_of_a_result_has_a_spread() -> None:
    x = torch.tensor([1e-6, 3.0])
    parts = evaluate(lambda x: (x.exp() - 1, x.sort()), {"x": x}, [])["spread"]
    first, values, indices = map(elements, parts)
    assert first[0] > 0.01
    assert values[0] < 1e-5
    assert not indices.any()


def test_a_reference_may_refuse_perturbed_arguments() -> None:
    def asks_for_four(x: torch.Tensor) -> torch.Tensor:
        if bool((x.float().round(decimals=2) != 4).any()):
            raise IndexError("x must be 4")
        return x.exp()

    right = evaluate(asks_for_four, {"x": torch.full((9,), 4.0)}, [])
    assert right["spread"] is not None


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2), -1) @ v


@pytest.mark.parametrize(("error", "may"), [(2e-7, True), (1e-3, False)])
def test_gradients_may_cancel_differently(error: float, may: bool) -> None:
    """Compute the gradient of the scores of one position, a difference of two equal products."""
    q, k, v = ((torch.rand(1, 8) * 1000 + 1000).requires_grad_() for _ in range(3))
    right = evaluate(attention, {"q": q, "k": k, "v": v}, [])
    names = [output["name"] for output in right["given"]]
    computed = [
        described(name, elements(output["image"]), {})
        for name, output in zip(names, right["given"], strict=True)
    ]
    ((_, weights),) = weights_of(attention(q, k, v))
    lost = (weights @ v.detach().T) * error
    computed[1] = described("gradient of q", lost @ k.detach(), {})
    computed[0]["grad"] = True
    assert (not compare(right, computed)) is may


@pytest.mark.parametrize(
    ("reference", "may"),
    [
        (lambda x: torch.log_softmax(x, -1), True),
        (lambda x: torch.nn.functional.cross_entropy(x, torch.zeros(6, dtype=torch.long)), True),
        (lambda x: torch.relu(-x), False),
        (torch.zeros_like, False),
    ],
)
def test_results_that_are_zero_for_one_column_may_have_rounding_errors(
    reference: Callable[[torch.Tensor], torch.Tensor], may: bool
) -> None:
    x = torch.linspace(0.5, 4, 6).view(6, 1)
    exact = reference(x)
    assert not exact.any()
    assert allowed(reference, x, exact - 1.5e-8) is may
    assert not allowed(reference, x, exact - 1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [1, 4000])
def test_gradients_are_zero_only_where_their_terms_cancel(dtype: torch.dtype, columns: int) -> None:
    """Reject zeros for the gradient of a mean over a long row, and accept them for a norm of one.

    The elements of the first gradient are smaller than a rounding error of the weights.
    """
    x = torch.linspace(0.5, 4, 3 * columns).view(3, columns).to(dtype).requires_grad_()
    zero = torch.zeros_like(x)
    for reference, may in (
        (lambda x: x.mean(1), False),
        (lambda x: torch.layer_norm(x, (columns,)), columns == 1),
        (lambda x: torch.softmax(x, 1), columns == 1),
    ):
        right = evaluate(reference, {"x": x}, [])
        result = {**right["given"][0]}
        assert (not compare(right, [result, described("gradient of x", zero, {})])) is may
        assert not compare(right, [result, right["given"][1]])
