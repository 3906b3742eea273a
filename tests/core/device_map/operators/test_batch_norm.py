"""Tests of batch normalisation whose statistics are combined from several processes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

aten: Any = torch.ops.aten
EPS = 1e-3


@pytest.mark.usefixtures("mapped")
def test_two_halves_are_normalised_like_the_whole_batch() -> None:
    torch.manual_seed(0)
    batch = (torch.randn(6, 3, 4) * 2 + 1).double()
    norm = torch.nn.BatchNorm1d(3, EPS, momentum=0.3).double()
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2)
        norm.bias.uniform_(-1, 1)
    leaf = batch.clone().requires_grad_()
    expected = norm(leaf)
    gradient = torch.randn_like(expected)
    expected.backward(gradient)

    halves = [batch[:2].cuda(), batch[2:].cuda()]
    gradients = [gradient[:2].cuda(), gradient[2:].cuda()]
    weight, bias = norm.weight.detach().cuda(), norm.bias.detach().cuda()
    counts = torch.tensor([8.0, 16.0], device="cuda", dtype=torch.double)
    parts = [aten.batch_norm_stats(half, EPS) for half in halves]
    means, invstds = (torch.stack(values) for values in zip(*parts, strict=True))
    running = torch.zeros(3).double().cuda(), torch.ones(3).double().cuda()
    mean, invstd = aten.batch_norm_gather_stats_with_counts(
        halves[0], means, invstds, *running, 0.3, EPS, counts
    )
    results = [aten.batch_norm_elemt(half, weight, bias, mean, invstd, EPS) for half in halves]
    torch.testing.assert_close(torch.cat(results).cpu(), expected.detach())
    torch.testing.assert_close(running[0].cpu(), norm.running_mean)
    torch.testing.assert_close(running[1].cpu(), norm.running_var)

    sums = [
        aten.batch_norm_backward_reduce(g, half, mean, invstd, weight, True, True, True)
        for g, half in zip(gradients, halves, strict=True)
    ]
    total, product, of_weight, of_bias = (sum(values) for values in zip(*sums, strict=True))
    assert norm.weight.grad is not None
    assert norm.bias.grad is not None
    torch.testing.assert_close(of_weight.cpu(), norm.weight.grad)
    torch.testing.assert_close(of_bias.cpu(), norm.bias.grad)
    results = [
        aten.batch_norm_backward_elemt(
            g, half, mean, invstd, weight, total, product, counts.to(torch.int32)
        )
        for g, half in zip(gradients, halves, strict=True)
    ]
    torch.testing.assert_close(torch.cat(results).cpu(), leaf.grad)
