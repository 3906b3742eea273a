"""Tests of launches that a CUDA graph captures under the device map and repeats at each replay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
import triton
import triton.language as tl
from tests.replayed_graphs import gathered, mapped_device

from ttools.core.records.reading import read_record
from ttools.interpreter import interpret
from ttools.interpreter.records.launch_recorder import record

cuda: Any = torch.cuda


@triton.autotune([triton.Config({"BLOCK": n}) for n in (4, 8)], key=["n"])
@triton.jit
def tuned_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) + 1, mask=offs < n)


@pytest.fixture(autouse=True)
def mapped() -> Iterator[None]:
    with mapped_device():
        yield


@pytest.mark.parametrize("engine", ["native", "eager"])
def test_each_replay_makes_the_launch(engine: Literal["native", "eager"]) -> None:
    with interpret(engine=engine) as run:
        x, index = torch.arange(8.0, device="cuda"), torch.arange(8, device="cuda")
        graph, z = gathered(x, index)
        assert not run.stats or run.stats[0].launches == 0
        graph.replay()
        assert z.tolist() == [2 * (n + 1) for n in range(8)]
        index.copy_(index.flip(0))
        x.add_(1)
        graph.replay()
        assert z.tolist() == [2 * (n + 1) for n in range(8, 0, -1)]
    assert [kernel.launches for kernel in run.stats] == [2]


@pytest.mark.parametrize(("launches", "taken"), [(None, [0]), ("1:", [1, 2])])
def test_the_launches_of_replays_are_recorded(
    tmp_path: Path, launches: str | None, taken: list[int]
) -> None:
    path = tmp_path / "launches.tt"
    with interpret(), record(path, launches=launches) as recorder:
        x, index = torch.arange(8.0, device="cuda"), torch.arange(8, device="cuda")
        graph, _ = gathered(x, index)
        assert recorder.recorded == 0
        for number in range(3):
            x.fill_(number)
            graph.replay()
    assert (recorder.seen, recorder.notes) == (3, [])
    record_ = read_record(path)
    firsts = [
        record_.storages[launch.spec.arguments[0].value.storage].data.view("f4")[0]  # type: ignore[union-attr]
        for launch in record_.launches
    ]
    assert firsts == taken


def test_nothing_is_timed_while_a_graph_is_captured() -> None:
    def add(x: Any) -> Any:
        y = torch.empty_like(x)
        tuned_kernel[lambda meta: (triton.cdiv(8, meta["BLOCK"]),)](x, y, 8)
        return y

    with interpret():
        x = torch.arange(8.0, device="cuda")
        with (
            pytest.raises(RuntimeError, match="error during capture"),
            cuda.graph(cuda.CUDAGraph()),
        ):
            add(x)
        cuda.set_stream(cuda.default_stream())
        add(x)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            y = add(x)
        x.fill_(5)
        graph.replay()
        assert y.tolist() == [6] * 8


def test_the_error_of_timing_during_a_capture_says_what_to_do() -> None:
    x, y = torch.zeros(6, device="cuda"), torch.zeros(6, device="cuda")
    kernel = triton.autotune([triton.Config({"BLOCK": n}) for n in (4, 8)], key=["n"])(
        tuned_kernel.fn
    )
    with (
        interpret(),
        pytest.raises(RuntimeError, match="previous error") as raised,
        cuda.graph(cuda.CUDAGraph()),
    ):
        kernel[(2,)](x, y, 6)
    text = str(raised.value.__context__)
    assert "operation not permitted when stream is capturing; an autotuned kernel" in text
    assert "launch it once with the same key before the capture" in text
