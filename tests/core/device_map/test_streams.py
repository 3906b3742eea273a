"""Tests of streams and events under a device map, which only record which stream is current."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.usefixtures("mapped")


def test_the_current_stream() -> None:
    cuda: Any = torch.cuda
    default, first, second = cuda.default_stream(), cuda.Stream(), cuda.Stream(priority=-1)
    assert len({default, first, second}) == 3
    with cuda.stream(first):
        assert cuda.current_stream() == first
        with second, cuda.stream(None):
            assert cuda.current_stream() == second
        with pytest.raises(ValueError, match="left"), cuda.stream(second):
            raise ValueError("left")
        assert cuda.current_stream("cuda:0") == first
        streams: list[Any] = []
        thread = threading.Thread(target=lambda: streams.append(cuda.current_stream()))
        thread.start()
        thread.join()
        assert streams == [default]
    cuda.set_stream(first)
    assert cuda.current_stream() == first
    cuda.set_stream(default)
    assert cuda.current_stream() == default == torch.accelerator.current_stream()


def test_compiled_functions_use_streams_and_events() -> None:
    cuda: Any = torch.cuda
    side = cuda.Stream()
    assert isinstance(side, torch.Stream)
    assert isinstance(cuda.Event(), torch.Event)
    assert not isinstance(side, torch.Event)

    def two_streams(x: torch.Tensor) -> torch.Tensor:
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            y = x.sin()
        event = side.record_event()
        cuda.current_stream().wait_event(event)
        y.record_stream(side)
        side.synchronize()
        return y + 1

    x = torch.ones(3, device="cuda")
    assert torch.equal(torch.compile(two_streams, backend="eager")(x), two_streams(x))


def test_properties_of_streams_and_events() -> None:
    cuda: Any = torch.cuda
    stream = cuda.Stream()
    assert cuda.ExternalStream(stream.cuda_stream) == stream
    assert repr(stream).startswith("<torch.cuda.Stream device=cuda:0 cuda_stream=0x")
    assert stream.priority_range() == (0, -1)
    assert stream._as_parameter_.value == stream.cuda_stream
    assert cuda.Event().device == torch.device("cuda", 0)
