"""What the conformance tool's tests compare with."""

from __future__ import annotations

import pytest
from tools.conformance.references import make_products_exact

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_products_of_halves_lose_nothing_where_terms_cancel(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dtype = getattr(torch, name)
    monkeypatch.setattr(torch, "matmul", torch.matmul)  # puts it back in the end
    make_products_exact()
    # 2^24 + 1 is not a float32.
    left = torch.tensor([[2.0**12, 1.0, -(2.0**12)]], dtype=dtype)
    right = torch.tensor([[2.0**12], [1.0], [2.0**12]], dtype=dtype)
    product = torch.matmul(left, right)
    assert product.dtype == dtype
    assert product.item() == 1.0


def test_other_products_are_torchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = torch.rand(7, 5), torch.rand(5, 3)
    expected, written = torch.matmul(left, right), torch.empty(7, 3)
    monkeypatch.setattr(torch, "matmul", torch.matmul)
    make_products_exact()
    torch.matmul(left, right, out=written)
    assert torch.equal(torch.matmul(left, right), expected)
    assert torch.equal(written, expected)
