"""Tests of nested tensors with the strided layout on a mapped device."""

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
def test_operators_agree_with_the_cpu(function: Callable[[Any], Any]) -> None:
    x, on_cpu = nested("cuda"), nested("cpu")
    result, expected = function(x), function(on_cpu)
    assert result.is_cuda
    assert result.is_nested
    for actual_part, expected_part in zip(result.unbind(), expected.unbind(), strict=True):
        assert actual_part.is_cuda
        torch.testing.assert_close(actual_part.cpu(), expected_part)
    result.to_padded_tensor(0.0).sum().backward()
    expected.to_padded_tensor(0.0).sum().backward()
    torch.testing.assert_close(
        x.grad.to_padded_tensor(0.0).cpu(), on_cpu.grad.to_padded_tensor(0.0)
    )


def test_copies_between_devices() -> None:
    on_gpu = nested("cpu").detach().cuda()
    assert on_gpu.is_cuda
    assert not on_gpu.cpu().is_cuda
    on_gpu.unbind()[0].zero_()
    assert on_gpu.cpu().unbind()[0].sum() == 0


def test_a_padded_transformer() -> None:
    """Run an encoder in evaluation mode, where torch removes padding with nested tensors."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        expected = encoder(x, src_key_padding_mask=padding)
        actual = encoder.cuda()(x.cuda(), src_key_padding_mask=padding.cuda())
    torch.testing.assert_close(actual.cpu(), expected)
