"""Tolerances accept the rounding errors of a sound algorithm, and reject larger errors."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch

from ttools.sanitizer.memory.pattern import fill, new_word
from ttools.verifier.cases.tensors import elements
from ttools.verifier.oracle.comparison import compare, compare_part, difference, holds_poison
from ttools.verifier.oracle.evaluation import evaluate
from ttools.verifier.workers.results import described


def classes(reference: Callable[..., Any], result: torch.Tensor, **arguments: Any) -> list[str]:
    right = evaluate(reference, arguments, [])
    double = (right["double"] or [None])[0]
    spread = (right.get("spread") or [None])[0]
    part = described("result", result, {})
    return [mismatch.failure for mismatch in compare_part(right["given"][0], double, spread, part)]


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_sums_in_any_order_are_right(dtype: torch.dtype) -> None:
    x = drawn(5, 3000).to(dtype)
    backwards = x.flip(1).float().cumsum(1)[:, -1].to(dtype)
    assert classes(lambda x: x.float().sum(1).to(x.dtype), backwards, x=x) == []


def test_cancelling_sums_may_have_their_unavoidable_error() -> None:
    x = torch.tensor([1e6, 1.0, -1e6] * 100)
    near = x.double().sum().float() + 0.1
    assert classes(lambda x: x.sum(), near, x=x) == []
    assert classes(lambda x: x.sum(), near + 1e5, x=x) == ["wrong_values"]


def test_a_one_pass_variance_is_wrong_for_a_large_mean() -> None:
    x = drawn(4, 500) + 1000
    one_pass = (x * x).mean(1) - x.mean(1) ** 2
    two_pass = (x - x.mean(1, keepdim=True)).square().mean(1)
    reference = lambda x: x.var(1, unbiased=False)  # noqa: E731
    assert classes(reference, two_pass, x=x) == []
    assert classes(reference, one_pass, x=x) == ["wrong_values"]


def test_small_probabilities_are_distinguished() -> None:
    x = torch.rand(2, 4096, generator=torch.Generator().manual_seed(1))
    uniform = torch.full_like(x, 1 / 4096)
    assert classes(lambda x: torch.softmax(x, 1), uniform, x=x) == ["wrong_values"]
    assert classes(lambda x: torch.softmax(x, 1), torch.softmax(x.double(), 1).float(), x=x) == []


def test_special_values_are_compared_by_kind() -> None:
    x = torch.tensor([1.0, float("nan"), float("inf"), -0.0])
    assert classes(lambda x: -x, 0.0 - x, x=x) == []
    assert classes(lambda x: -x, (0.0 - x).nan_to_num(0.0), x=x) == ["wrong_values"]
    large = torch.tensor([60000.0], dtype=torch.float16)
    assert classes(lambda x: x * 2, torch.tensor([float("inf")]).half(), x=large) == []


def test_layouts_are_compared() -> None:
    x = drawn(3, 4)
    assert classes(lambda x: x.sum(1, keepdim=True), x.sum(1), x=x) == ["layout"]
    assert classes(lambda x: x.sum(1), x.sum(1).double(), x=x) == ["layout"]


def test_only_close_floats_may_round_to_either_integer() -> None:
    x = torch.tensor([0.2, 1.4999999, 3.0])
    reference = lambda x: (x + 0.5).floor().to(torch.int32)  # noqa: E731
    assert classes(reference, torch.tensor([0, 2, 3], dtype=torch.int32), x=x) == []
    assert classes(reference, torch.tensor([1, 1, 3], dtype=torch.int32), x=x) == ["wrong_values"]


def test_large_integers_have_the_error_of_their_floats() -> None:
    x = drawn(50)
    reference = lambda x: (x * 2.0**30).to(torch.int64)  # noqa: E731
    near = (x.double() * (1 + 1e-6) * 2.0**30).to(torch.int64)
    assert classes(reference, near, x=x) == []
    assert classes(reference, torch.zeros_like(near), x=x) == ["wrong_values"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_integers_differ_only_by_what_perturbations_change(dtype: torch.dtype) -> None:
    x = (drawn(400) * 3).to(dtype)
    reference = lambda x: (x.float() * 1500).round().to(torch.int64)  # noqa: E731
    right = reference(x)
    near = (x.double() * 1500 * (1 + 1e-6)).round().to(torch.int64)
    assert classes(reference, near, x=x) == []
    without_large = torch.where(right.abs() > 2500, 0, right)
    assert classes(reference, without_large, x=x) == ["wrong_values"]
    assert classes(reference, right + (right.abs() < 100), x=x) == ["wrong_values"]
    narrow = lambda x: (x * 1500).round().to(torch.int64)  # noqa: E731
    assert classes(narrow, right, x=x) == []


def test_indices_of_nearly_equal_elements_may_differ() -> None:
    x, w = drawn(40, 64), drawn(64, 900)
    w[:, 700:] = w[:, :200]
    reference = lambda x, w: (x @ w).argmax(1)  # noqa: E731
    right = reference(x, w)
    other = torch.where(right < 200, right + 700, torch.where(right >= 700, right - 700, right))
    assert bool((other != right).any())
    assert classes(reference, other, x=x, w=w) == []
    assert classes(reference, (right + 1) % 900, x=x, w=w) == ["wrong_values"]


@pytest.mark.parametrize("outlier", [1.0, 1e12])
def test_small_elements_are_compared_beside_large_ones(outlier: float) -> None:
    x = drawn(300)
    x[3], x[7] = 1e-6, outlier
    doubled = x * 2
    assert classes(lambda x: x * 2, doubled, x=x) == []
    small = doubled.abs() < (1e6 if outlier > 1e6 else 1e-5)
    assert classes(lambda x: x * 2, torch.where(small, 0.0, doubled), x=x) == ["wrong_values"]


def test_small_elements_may_have_the_rounding_errors_of_large_terms() -> None:
    x = drawn(300)
    x[5:9] = 0
    shifted = lambda x: (x + 1000.0) - 1000.0  # noqa: E731
    assert classes(shifted, x + 1e-4, x=x) == []
    assert classes(lambda x: x * 1, x + 1e-4, x=x) == ["wrong_values"]


def test_unwritten_elements_are_named() -> None:
    x = drawn(4)
    result = x.clone()
    result.view(torch.uint8)[4:8] = torch.tensor([0xF9, 0xFF, 0xF9, 0xFF], dtype=torch.uint8)
    assert holds_poison(result).tolist() == [False, True, False, False]
    assert classes(lambda x: x * 1, result, x=x) == ["unwritten"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int32, torch.int64])
def test_wrong_values_do_not_look_unwritten(dtype: torch.dtype) -> None:
    unwritten, item = torch.zeros(999, dtype=dtype), torch.empty(0, dtype=dtype).element_size()
    word = new_word(Random(0), poison=dtype.is_floating_point)
    fill(unwritten.data_ptr(), unwritten.nbytes, 0, word)
    assert holds_poison(unwritten).all()
    drawn_values = (torch.randn(999) * 1e4).to(dtype)
    assert not holds_poison(drawn_values).any()
    if item > 2:
        bits = torch.randint(0, 256, (999 * item,), dtype=torch.uint8)
        assert not holds_poison(bits.view(dtype)).any()
    for number in (0, -1, -5, -1000, 77):
        assert not holds_poison(torch.full((999,), number, dtype=dtype)).any()
    if dtype.is_floating_point:
        assert not holds_poison(torch.full((999,), float("nan"), dtype=dtype)).any()
        assert not holds_poison(-torch.full((999,), float("nan"), dtype=dtype)).any()


def test_conversions_to_float_in_references_become_double() -> None:
    x = drawn(4).half()
    right = evaluate(lambda x: x.float().exp().to(x.dtype), {"x": x}, [])
    assert right["double"][0].dtype == "float64"
    assert right["given"][0]["dtype"] == "float16"


def test_gradients_may_have_the_error_of_rounded_incoming_gradients() -> None:
    x = torch.tensor([[0.5, 0.25, 0.5]], dtype=torch.bfloat16).requires_grad_()
    right = evaluate(lambda x: torch.softmax(x, -1), {"x": x}, [])
    names = [output["name"] for output in right["given"]]
    gradient = elements(right["double"][names.index("gradient of x")])
    spread = elements(right["spread"][names.index("gradient of x")])
    # Each gradient is a difference of two numbers of this size, one of which is an incoming
    # gradient.
    assert bool((spread >= 0.1 * gradient.abs().max()).all())
    assert bool((spread > 0.05).all())


def test_gradients_that_cancel_may_keep_a_rounding_error() -> None:
    """Accept a rounding error in the gradient of a norm over one column.

    This gradient is the difference of two equal products, divided by the square root of 1e-5.
    """
    x = torch.tensor([[0.7]]).requires_grad_()
    right = evaluate(lambda x: torch.layer_norm(x, (1,)), {"x": x}, [])
    (gradient,) = (output for output in right["given"] if output["name"] == "gradient of x")
    double, spread = right["double"][1], right["spread"][1]
    for error, wrong in ((2e-5, []), (3e-2, ["wrong_values"])):
        part = described("gradient of x", torch.tensor([[error]]), {})
        assert [
            mismatch.failure for mismatch in compare_part(gradient, double, spread, part)
        ] == wrong


def test_types_of_one_byte_are_right_within_one_neighbour() -> None:
    def narrowed(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float8_e4m3fn)

    x = drawn(50) * 8
    right = narrowed(x)
    neighbour = (right.view(torch.uint8) + 1).view(torch.float8_e4m3fn)
    far = (right.view(torch.uint8) + 4).view(torch.float8_e4m3fn)
    assert classes(narrowed, right, x=x) == []
    assert classes(narrowed, neighbour, x=x) == []
    assert classes(narrowed, far, x=x) == ["wrong_values"]


def test_arguments_of_one_byte_are_data() -> None:
    def scaled(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return x.float() * s

    x, s = drawn(20).to(torch.float8_e5m2), drawn(1)
    assert classes(scaled, x.float() * s, x=x, s=s) == []
    assert classes(scaled, x.float() * s * 1.001, x=x, s=s) == ["wrong_values"]


def test_one_tensor_may_be_two_arguments() -> None:
    def moved(x: torch.Tensor, out: torch.Tensor) -> None:
        out.add_(1)
        x.mul_(2)

    right = evaluate(moved, {"x": drawn(3), "out": drawn(3)}, ["x", "out"], ("x", "out"))
    after = [elements(output["image"]) for output in right["given"] if output["kind"] == "tensor"]
    assert all(torch.equal(tensor, (drawn(3) + 1) * 2) for tensor in after)
    assert len(after) == 2


def test_equal_calls_may_differ_by_the_tolerance() -> None:
    x = drawn(4, 5)
    exact, near, far = (
        [described("result", values, {})] for values in (x, x * (1 + 1e-6), x * (1 + 1e-3))
    )
    assert difference(exact, near) == ""
    assert "20 elements of result are wrong" in difference(exact, far)
    assert "the results are result" in difference([], exact)


def test_quotients_at_a_half_may_be_rounded_to_either_side() -> None:
    """Accept either neighbour at any number of halves, each of which a rounding error decides."""
    steps = torch.arange(1, 4001, dtype=torch.float32)
    x = torch.stack([steps, steps / 2], 1).to(torch.bfloat16)

    def reference(x: torch.Tensor) -> torch.Tensor:
        x = x.float()
        scale = x.amax(dim=1, keepdim=True) / 127
        return torch.round(x / scale).to(torch.int8)

    right = reference(x)
    assert set(right[:, 1].tolist()) <= {63, 64}
    for rounded in (63, 64):
        rounded_result_result = torch.stack([right[:, 0], torch.full_like(right[:, 1], rounded)], 1)
        assert classes(reference, rounded_result_result, x=x) == []
    rounded_result_result = torch.stack([right[:, 0] - 1, right[:, 1]], 1)
    assert classes(reference, rounded_result_result, x=x) == ["wrong_values"]

    def fake(x: torch.Tensor) -> torch.Tensor:
        return reference(x).float() * (x.float().amax(dim=1, keepdim=True) / 127)

    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = x.to(dtype)
        first = x[:, :1].float()
        for rounded in (63, 64):
            assert classes(fake, first * torch.tensor([1, rounded / 127]), x=x) == []
        assert classes(fake, first * torch.tensor([1, 30 / 127]), x=x) == ["wrong_values"]


def test_the_largest_error_is_a_share_of_the_tolerance() -> None:
    x = drawn(4, 8)
    right = evaluate(lambda x: x * 2, {"x": x}, [])
    errors: dict[str, float] = {}
    for step in (0.0, 2e-5, 1e-5):
        result = x * 2
        result[0, 0] *= 1 + step
        assert compare(right, [described("result", result, {})], errors) == []
    assert list(errors) == ["result (float32)"]
    # The tolerance is 1.5 * 3e-5 of the value, plus a part that depends on the largest element.
    assert 0.2 < errors["result (float32)"] <= 2 / 4.5 * 1.01


def test_results_of_integers_have_no_largest_error() -> None:
    errors: dict[str, float] = {}
    right = evaluate(lambda x: x * 2, {"x": torch.arange(4)}, [])
    assert compare(right, [described("result", torch.arange(4) * 2, {})], errors) == []
    assert errors == {}


@pytest.mark.parametrize("scale", [1.0, 1e-8])
def test_complex_results_have_relative_tolerances(scale: float) -> None:
    x, y = (torch.complex(drawn(2, 40)[n], drawn(2, 40)[n].flip(0)) * scale for n in (0, 1))
    product = lambda x, y: x * y  # noqa: E731
    assert classes(product, (x.to(torch.complex128) * y).to(x.dtype), x=x, y=y) == []
    assert classes(product, x * y.conj(), x=x, y=y) == ["wrong_values"]
    assert classes(product, torch.zeros_like(x), x=x, y=y) == ["wrong_values"]
    close = x.to(torch.complex128).sum().to(x.dtype)
    assert classes(lambda x: x.sum(), close, x=x) == []
    assert classes(torch.view_as_real, torch.view_as_real(x) * 1.001, x=x) == ["wrong_values"]
    cancelling = torch.cat([x, -x]) + x[:1] * 1e-3
    shifted = cancelling.sum() + 1e-6 * scale
    assert classes(lambda x: x.sum(), shifted, x=cancelling) == []


def test_an_undefined_gradient_equals_zeros() -> None:
    def problems(name: str, value: Any, other: Any) -> list[str]:
        parts = (described(f"{name}x", each, {}) for each in (value, other))
        given, found = parts
        return [mismatch.failure for mismatch in compare_part(given, None, None, found)]

    zeros, ones = torch.zeros(3), torch.ones(3)
    for given, found in ((None, zeros), (zeros, None), (None, None)):
        assert problems("gradient of ", given, found) == []
    assert problems("gradient of ", None, ones) == ["layout"]
    assert problems("gradient of ", ones, None) == ["layout"]
    assert problems("result ", None, zeros) == ["layout"]
