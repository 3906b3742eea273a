"""Nested tensors on a mapped device, of the older layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

pytestmark = [
    pytest.mark.usefixtures("mapped"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
]


def nested(device: str) -> Any:
    rows = [torch.arange(6.0).view(2, 3), torch.arange(12.0).view(4, 3) - 5]
    return torch.nested.nested_tensor(rows, device=device, requires_grad=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x,
        lambda x: x.relu(),
        lambda x: x.softmax(-1),
        lambda x: x.matmul(x.transpose(1, 2)),
        lambda x: torch.nn.functional.linear(x, torch.ones(2, 3, device=x.device)),
        lambda x: x.clone() * 2,
    ],
)
def test_operators_compute_as_the_cpu_s(function: Callable[[Any], Any]) -> None:
    found, wanted = nested("cuda"), nested("cpu")
    result, expected = function(found), function(wanted)
    assert result.is_cuda
    assert result.is_nested
    for one, other in zip(result.unbind(), expected.unbind(), strict=True):
        assert one.is_cuda
        torch.testing.assert_close(one.cpu(), other)
    result.to_padded_tensor(0.0).sum().backward()
    expected.to_padded_tensor(0.0).sum().backward()
    torch.testing.assert_close(
        found.grad.to_padded_tensor(0.0).cpu(), wanted.grad.to_padded_tensor(0.0)
    )


def test_they_travel() -> None:
    there = nested("cpu").detach().cuda()
    assert there.is_cuda
    assert not there.cpu().is_cuda
    there.unbind()[0].zero_()
    assert there.cpu().unbind()[0].sum() == 0


def test_a_padded_transformer() -> None:
    """In evaluation, torch takes padding out by nested tensors."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        wanted = encoder(x, src_key_padding_mask=padding)
        found = encoder.cuda()(x.cuda(), src_key_padding_mask=padding.cuda())
    torch.testing.assert_close(found.cpu(), wanted)
