"""Tests that replays of CUDA graphs compute the same as without a graph, in the same memory."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("mapped")
cuda: Any = torch.cuda


def captured(function: Callable[[], Any], **options: Any) -> tuple[Any, Any]:
    """Capture a graph of a function; return the graph and the function's result."""
    graph = cuda.CUDAGraph()
    with cuda.graph(graph, **options):
        result = function()
    return graph, result


def test_nothing_is_computed_before_the_graph_is_replayed() -> None:
    x = torch.arange(4.0, device="cuda")
    total = torch.zeros((), device="cuda")
    calls = []

    def step() -> Any:
        calls.append(1)
        y = x * 2
        total.add_(y.sum())
        return y.view(2, 2)

    graph, y = captured(step)
    assert (total.item(), y.shape, y.is_cuda) == (0, (2, 2), True)
    address = y.data_ptr()
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        assert y.tolist() == [[2 * value] * 2] * 2
    assert (total.item(), y.data_ptr(), len(calls)) == (48, address, 1)


def test_inference_by_copies_into_a_static_input() -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten()
    )
    net = net.cuda().eval()
    x = torch.zeros(2, 3, 6, 6, device="cuda")
    with torch.inference_mode():
        graph, y = captured(lambda: net(x))
        for _ in range(2):
            other = torch.randn(2, 3, 6, 6, device="cuda")
            x.copy_(other)
            graph.replay()
            torch.testing.assert_close(y, net(other))


def test_a_complete_training_step() -> None:
    """Capture a training step as in the section "Whole-network capture" of torch's CUDA notes."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1)
    ).cuda()
    other = copy.deepcopy(net)
    loss_of = torch.nn.MSELoss()
    x, target = torch.zeros(7, 5, device="cuda"), torch.zeros(7, 1, device="cuda")

    def adam(of: Any) -> Any:
        return torch.optim.Adam(of.parameters(), lr=0.1, capturable=True)

    optimizer, plain = adam(net), adam(other)

    def step(of: Any, by: Any, inputs: Any, wanted: Any) -> Any:
        by.zero_grad(set_to_none=True)
        loss = loss_of(of(inputs), wanted)
        loss.backward()
        by.step()
        return loss

    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        step(net, optimizer, x, target)
    cuda.current_stream().wait_stream(side)
    step(other, plain, x, target)
    graph, loss = captured(lambda: step(net, optimizer, x, target))
    for _ in range(3):
        inputs, wanted = torch.randn(7, 5, device="cuda"), torch.randn(7, 1, device="cuda")
        x.copy_(inputs)
        target.copy_(wanted)
        graph.replay()
        torch.testing.assert_close(loss, step(other, plain, inputs, wanted))
        for mine, its in zip(net.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(mine, its)
            torch.testing.assert_close(mine.grad, its.grad)


def test_graphed_callables_forward_and_backward() -> None:
    torch.manual_seed(0)
    first, second = (torch.nn.Linear(4, 4).cuda() for _ in range(2))
    plain = copy.deepcopy(torch.nn.Sequential(first, second))

    def sample() -> Any:
        return torch.randn(3, 4, device="cuda", requires_grad=True)

    graphed = cuda.make_graphed_callables((first, second), ((sample(),), (sample(),)))
    for _ in range(2):
        x = sample()
        its = x.detach().clone().requires_grad_()
        for part in (first, second, plain):
            part.zero_grad()
        y = graphed[1](graphed[0](x).relu())
        y.square().sum().backward()
        z = plain[1](plain[0](its).relu())
        z.square().sum().backward()
        torch.testing.assert_close((y, x.grad), (z, its.grad))
        for part, other in zip((first, second), plain, strict=True):
            torch.testing.assert_close(part.weight.grad, other.weight.grad)


def test_several_graphs_share_a_pool() -> None:
    pool = cuda.graph_pool_handle()
    x = torch.ones(3, device="cuda")
    first, y = captured(lambda: x + 1, pool=pool)
    second, z = captured(lambda: y * 10, pool=first.pool())
    assert first.pool() == second.pool() == pool != cuda.graph_pool_handle()
    x.fill_(4)
    first.replay()
    second.replay()
    assert (y.tolist(), z.tolist()) == ([5] * 3, [50] * 3)
    alone, _ = captured(lambda: x + 1)
    assert alone.pool() not in (pool, (0, 0))


def test_a_graph_inside_another_is_replayed_with_it() -> None:
    x = torch.ones(2, device="cuda")
    inner, y = captured(lambda: x * 3)

    def replay_and_add() -> Any:
        inner.replay()
        return y + 1

    outer, z = captured(replay_and_add)
    x.fill_(2)
    assert y.tolist() != [6, 6]
    outer.replay()
    assert z.tolist() == [7, 7]


def test_each_replay_draws_new_random_numbers() -> None:
    own = torch.Generator("cuda")

    def draw() -> Any:
        x = torch.empty(3, device="cuda")
        x.normal_(generator=own)
        return torch.rand(3, device="cuda"), torch.nn.functional.dropout(x), x

    graph = cuda.CUDAGraph()
    graph.register_generator_state(own)
    with cuda.graph(graph):
        drawn = draw()

    def seed() -> None:
        cuda.manual_seed(3)
        own.manual_seed(4)

    seed()
    expected = [draw(), draw()]
    assert not torch.equal(expected[0][0], expected[1][0])
    seed()
    for numbers in expected:
        graph.replay()
        torch.testing.assert_close(drawn, numbers, rtol=0, atol=0)


def test_checkpoints_draw_the_same_numbers_twice_in_a_replay() -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return x * torch.randn(4, device="cuda").sigmoid()

    def step() -> tuple[Any, Any]:
        x = torch.ones(4, device="cuda", requires_grad=True)
        y = checkpoint(noisy, x, use_reentrant=False)
        return y, torch.autograd.grad(y.sum(), x)[0]

    graph, (y, gradient) = captured(step)
    cuda.manual_seed(5)
    expected = [step(), step()]
    cuda.manual_seed(5)
    for result in expected:
        graph.replay()
        torch.testing.assert_close((y, gradient), result, rtol=0, atol=0)
        torch.testing.assert_close(y, gradient, rtol=0, atol=0)


def test_outputs_that_are_resized_during_the_capture() -> None:
    x = torch.ones(2, 3, device="cuda")
    grown = torch.zeros(2, device="cuda")

    def step() -> Any:
        out = torch.empty(0, device="cuda")
        torch.add(x, 1, out=out)
        grown.resize_(4)
        grown[2:] = 7
        return out

    graph, out = captured(step)
    x.fill_(5)
    graph.replay()
    assert (out.tolist(), grown[2:].tolist()) == ([[6] * 3] * 2, [7, 7])


def test_asynchronous_copies_from_and_to_the_host() -> None:
    x = torch.arange(3.0).pin_memory()
    scale = torch.tensor(2.0)

    def step() -> Any:
        return (x.to("cuda", non_blocking=True) * scale).to("cpu", non_blocking=True)

    graph, y = captured(step)
    scale.fill_(100)  # scalars of the host are copied during the capture
    for first in (0, 5):
        x[0] = first
        graph.replay()
        assert y.tolist() == [2 * first, 2, 4]


def test_later_changes_of_tensors_do_not_change_the_memory_of_the_graph() -> None:
    x = torch.ones(3, device="cuda")
    weight = torch.nn.Parameter(torch.ones(3, device="cuda"))
    graph, y = captured(lambda: (x * weight).detach())
    before, x = x, torch.zeros(3, device="cuda")
    weight.data = torch.zeros(3, device="cuda")
    before.resize_(2)
    del before
    graph.replay()
    assert y.tolist() == [1, 1, 1]


def test_check_input_liveness_reports_freed_inputs() -> None:
    inputs = [torch.ones(3, device="cuda"), torch.ones(3, device="cuda")]
    view = inputs[0][1:]
    graph, y = captured(lambda: (inputs[0] + inputs[1]) * 2, check_input_liveness=True)
    graph.replay()
    inputs.pop(0)
    graph.replay()
    del view
    gc.collect()
    with pytest.raises(RuntimeError, match=r"1 dead tensor\(s\): float32\[3\]"):
        graph.replay()
    assert y.tolist() == [4, 4, 4]


def test_a_graph_can_be_captured_again_after_reset() -> None:
    x = torch.ones(1, device="cuda")
    graph, _ = captured(lambda: x + 1)
    with pytest.raises(RuntimeError, match="already owns a captured graph"), cuda.graph(graph):
        pass
    cuda.set_stream(cuda.default_stream())
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with cuda.graph(graph):
        y = x + 2
    graph.replay()
    assert y.item() == 3


def test_timing_with_graphs() -> None:
    from triton.testing import do_bench_cudagraph

    x = torch.ones(64, device="cuda")
    assert do_bench_cudagraph(lambda: x + 1, rep=1) > 0
    start, end = (cuda.Event(enable_timing=True, external=True) for _ in range(2))

    def step() -> None:
        start.record()
        x.add_(1)
        end.record()

    graph, _ = captured(step)
    graph.replay()
    assert start.elapsed_time(end) > 0


def test_debug_dump(tmp_path: Any) -> None:
    x = torch.ones(1, device="cuda")
    path = tmp_path / "graph.dot"
    graph = cuda.CUDAGraph(keep_graph=True)
    with cuda.graph(graph):
        (x + 1).exp_()
    graph.instantiate()
    graph.debug_dump(str(path))
    assert path.read_text() == (
        'digraph capture {\n  n0 [label="aten::add.Tensor"];\n  n1 [label="aten::exp_"];\n'
        "  n0 -> n1;\n}\n"
    )
    graph, _ = captured(lambda: x + 1)
    with pytest.raises(RuntimeError, match="only when keep_graph=true"):
        graph.instantiate()
