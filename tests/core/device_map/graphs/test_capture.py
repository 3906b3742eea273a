"""Tests of forbidden operations while a CUDA graph is captured, and of the captured streams."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from ttools.core.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("mapped")
cuda: Any = torch.cuda
NOT_PERMITTED = "operation not permitted when stream is capturing"


@pytest.fixture(autouse=True)
def default_stream(mapped: None) -> Iterator[None]:
    """Restore the default stream, because a capture that fails leaves its stream current."""
    yield
    cuda.set_stream(cuda.default_stream())


def x() -> Any:
    return torch.arange(4.0, device="cuda")


SYNCHRONISING: dict[str, Callable[[Any], object]] = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool(x[0] > 1),
    "cpu": lambda x: x.cpu(),
    "print": repr,
    "synchronize": lambda x: cuda.synchronize(),
    "a stream": lambda x: cuda.current_stream().synchronize(),
    "a stream's state": lambda x: cuda.current_stream().query(),
    "an event": lambda x: cuda.current_stream().record_event().synchronize(),
    "accelerator": lambda x: torch.accelerator.synchronize(),
    "from the host": lambda x: torch.ones(3).cuda(),
    "a constant": lambda x: torch.tensor(3.0, device="cuda"),
    "nonzero": lambda x: x.nonzero(),
    "a mask": lambda x: x[x > 1],
    "values of a mask": lambda x: x.__setitem__(x > 1, torch.ones(2, device="cuda")),
    "indices of the host": lambda x: x[torch.tensor([0, 2])],
    "unique": lambda x: x.unique(),
    "repeat": lambda x: x.repeat_interleave(torch.ones_like(x, dtype=torch.int64)),
    "equal": lambda x: torch.equal(x, x + 1),
    "inverse": lambda x: torch.linalg.inv(x.diag()),
}


@pytest.mark.parametrize("name", SYNCHRONISING)
def test_operations_that_synchronise_are_not_permitted(name: str) -> None:
    values = x()
    graph = cuda.CUDAGraph()
    with (
        pytest.raises(RuntimeError, match="previous error during capture") as raised,
        cuda.graph(graph),
    ):
        SYNCHRONISING[name](values)
    assert isinstance(raised.value, torch.AcceleratorError)
    assert NOT_PERMITTED in str(raised.value.__context__)
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    assert values.tolist() == [0, 1, 2, 3]


def test_nothing_is_captured_after_an_error() -> None:
    values, graph = x(), cuda.CUDAGraph()
    with cuda.stream(cuda.Stream()):
        graph.capture_begin()
        with pytest.raises(RuntimeError, match=NOT_PERMITTED):
            values.cpu()
        with pytest.raises(RuntimeError, match="previous error"):
            values + 1
        with pytest.raises(RuntimeError, match="previous error"):
            graph.capture_end()
        assert not cuda.is_current_stream_capturing()
        assert (values + 1).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda x: x.masked_fill_(x > 1, 9), [0, 1, 9, 9]),
        (lambda x: x.__setitem__(x > 1, 9), [0, 1, 9, 9]),
        (lambda x: x.__setitem__(x.argmax().view(1), 9), [0, 1, 2, 9]),
        (lambda x: x.index_add_(0, torch.zeros_like(x, dtype=torch.int64), x * 2), [12, 1, 2, 3]),
        (lambda x: x.mul_(torch.where(x > 1, x, 1)), [0, 1, 4, 9]),
        (lambda x: torch._foreach_add_([x[:2], x[2:]], 1), [1, 2, 3, 4]),
    ],
)
def test_operations_without_synchronisation_are_captured(
    operation: Any, expected: list[float]
) -> None:
    values, graph = x(), cuda.CUDAGraph()
    with cuda.graph(graph):
        operation(values)
    assert values.tolist() == [0, 1, 2, 3]
    graph.replay()
    assert values.tolist() == expected


def test_operators_that_cannot_be_recorded_are_named() -> None:
    values, graph = x(), cuda.CUDAGraph()
    with cuda.graph(graph):
        values + 1
        for operation, message in (
            (lambda: torch.geqrf(values.view(2, 2)), "aten::geqrf in a CUDA graph"),
            (lambda: graph.begin_capture_to_if_node(values), "conditional nodes"),
            (lambda: graph.raw_cuda_graph(), "`cudaGraph_t`"),
        ):
            with pytest.raises(UnsupportedError, match=message):
                operation()
    sparse = torch.eye(2).to_sparse().cuda()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        values + 1
        with pytest.raises(UnsupportedError, match=r"layout torch\.sparse_coo in a CUDA graph"):
            sparse @ values.view(2, 2)
        with pytest.raises(RuntimeError, match="same device"):
            values + torch.ones(4)


def test_different_sizes_at_a_replay_are_errors() -> None:
    bag = torch.nn.EmbeddingBag(4, 2, mode="sum").cuda()
    indices = torch.tensor([0, 1, 2, 3]).cuda()
    offsets = torch.tensor([0, 2]).cuda()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        bag(indices, offsets)
    with pytest.raises(
        UnsupportedError, match=r"_embedding_bag in a .*sizes of its results differ"
    ):
        graph.replay()


def test_one_capture_at_a_time() -> None:
    graph, other, side = cuda.CUDAGraph(), cuda.CUDAGraph(), cuda.Stream()
    values = x()
    with pytest.raises(RuntimeError, match="non-default stream"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="cannot be performed in the present state"):
        graph.capture_end()
    with pytest.raises(RuntimeError, match="Unknown capture error mode"), cuda.stream(side):
        graph.capture_begin(capture_error_mode="none")
    with cuda.graph(graph):
        assert cuda.CUDAGraph.get_currently_capturing_graph() is graph
        values + 1
        with pytest.raises(RuntimeError, match="present state"):
            other.capture_begin()
        with pytest.raises(RuntimeError, match="same stream it began on"), cuda.stream(side):
            graph.capture_end()
    with pytest.raises(RuntimeError, match="not currently capturing"):
        cuda.CUDAGraph.get_currently_capturing_graph()
    with pytest.warns(UserWarning, match="The CUDA Graph is empty"), cuda.graph(other):
        pass


def test_streams_that_wait_for_the_capture_are_captured() -> None:
    values, graph, side, uncaptured = x(), cuda.CUDAGraph(), cuda.Stream(), cuda.Stream()
    with cuda.graph(graph):
        with cuda.stream(uncaptured):
            assert not cuda.is_current_stream_capturing()
            assert (values + 1)[0].item() == 1  # executed immediately
        y = values + 1
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            assert cuda.is_current_stream_capturing()
            assert side.is_capturing()
            z = y * 2
            event = side.record_event()
        event.wait()
    assert not side.is_capturing()
    graph.replay()
    assert z.tolist() == [2, 4, 6, 8]

    def never_joined() -> None:
        with cuda.graph(cuda.CUDAGraph()):
            side.wait_stream(cuda.current_stream())
            with cuda.stream(side):
                values + 1

    with pytest.raises(RuntimeError, match="unjoined work"):
        never_joined()


def test_other_threads_are_not_captured() -> None:
    values, graph, results = x(), cuda.CUDAGraph(), []
    with cuda.graph(graph):
        values.add_(1)
        thread = threading.Thread(target=lambda: results.append(values.sum().item()))
        thread.start()
        thread.join()
    assert results == [6]


def test_states_of_generators() -> None:
    cuda.manual_seed(1)
    before = cuda.get_rng_state()
    cuda.manual_seed(2)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        torch.rand(1, device="cuda")
        cuda.manual_seed(2)  # permitted, because the seed does not change
        generator = cuda.default_generators[0]
        for forbidden in (
            lambda: cuda.manual_seed(3),
            lambda: cuda.set_rng_state(before),
            generator.seed,
            generator.get_offset,
            lambda: generator.set_offset(4),
        ):
            with pytest.raises(RuntimeError, match="CUDAGeneratorImpl::"):
                forbidden()
        with pytest.raises(UnsupportedError, match="graphsafe_set_state"):
            generator.graphsafe_set_state(generator)
    cuda.manual_seed(2)
    state = cuda.get_rng_state()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        torch.rand(1, device="cuda")
        with pytest.raises(UnsupportedError, match="saved before the capture"):
            cuda.set_rng_state(state)
