"""Reference products with which the conformance tool's tests compare."""

from __future__ import annotations

import pytest
from tools.conformance.references import compare_products_by_their_terms

torch = pytest.importorskip("torch")

HALVES = pytest.mark.parametrize("name", ["bfloat16", "float16"])


@pytest.fixture
def compared_by_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "matmul", torch.matmul)  # restores the function at the end
    monkeypatch.setattr(torch.testing, "assert_close", torch.testing.assert_close)
    compare_products_by_their_terms()


@HALVES
@pytest.mark.usefixtures("compared_by_terms")
def test_products_of_halves_are_exact_if_terms_cancel(name: str) -> None:
    dtype = getattr(torch, name)
    # 2^24 + 1 is not a float32.
    a = torch.tensor([[2.0**12, 1.0, -(2.0**12)]], dtype=dtype)
    right = torch.tensor([[2.0**12], [1.0], [2.0**12]], dtype=dtype)
    product = torch.matmul(a, right)
    assert product.dtype == dtype
    assert product.item() == 1.0
    # Two of the three terms are 2^24, of which float32 may lose one unit in each addition.
    torch.testing.assert_close(product + 2, product, atol=0.0, rtol=0.0)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(product + 8, product, atol=0.0, rtol=0.0)


@HALVES
@pytest.mark.usefixtures("compared_by_terms")
def test_wrong_products_are_detected(name: str) -> None:
    torch.manual_seed(0)
    left, right = (torch.randn(16, 16).to(getattr(torch, name)) for _ in range(2))
    product = torch.matmul(left, right)
    options = {"atol": 1e-5, "rtol": 1e-2}
    torch.testing.assert_close(product.clone(), product, **options)
    for wrong in (product * 1.05, product.T.contiguous(), product[:8], product.float() * 1.05):
        with pytest.raises(AssertionError):
            torch.testing.assert_close(wrong, product, **options)
    broken = product.clone()
    broken[3, 4] = float("nan")
    with pytest.raises(AssertionError):
        torch.testing.assert_close(broken, product, **options)


def test_other_products_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = torch.rand(7, 5), torch.rand(5, 3)
    expected, written = torch.matmul(left, right), torch.empty(7, 3)
    monkeypatch.setattr(torch, "matmul", torch.matmul)
    monkeypatch.setattr(torch.testing, "assert_close", torch.testing.assert_close)
    compare_products_by_their_terms()
    torch.matmul(left, right, out=written)
    assert torch.equal(torch.matmul(left, right), expected)
    assert torch.equal(written, expected)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(expected + 1e-3, torch.matmul(left, right))
