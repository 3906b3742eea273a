"""Kernels in CUDA graphs under the device map: each replay's launch is checked as any."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter import device_map
from ttools.sanitizer import sanitize

cuda: Any = torch.cuda


@triton.jit
def gather_kernel(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, tl.load(x_ptr + index, mask=offs < n) + 1, mask=offs < n)


@pytest.fixture(autouse=True)
def mapped() -> Iterator[None]:
    """A device map; a capture that fails leaves its stream the current one."""
    with device_map():
        yield
        cuda.set_stream(cuda.default_stream())


def gathered(x: Any, index: Any) -> tuple[Any, Any]:
    """A graph that gathers elements and doubles them, and its result."""
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y = torch.empty_like(x)
        gather_kernel[(1,)](x, index, y, x.numel(), BLOCK=8)
        z = y * 2
    return graph, z


def test_the_sanitizer_checks_the_launch_of_each_replay() -> None:
    with sanitize() as session:
        x, index = torch.arange(8.0, device="cuda"), torch.arange(8, device="cuda")
        graph, _ = gathered(x, index)
        graph.replay()
        assert (len(session.findings), len(session.launches)) == (0, 1)
        index[3] = 1000
        graph.replay()
    (finding,) = session.findings
    assert (finding.check, finding.kernel) == ("memcheck", "gather_kernel")
    line = (
        Path(__file__)
        .read_text("utf-8")
        .split("\n")[int(str(finding.launch).rpartition(":")[2]) - 1]
    )
    assert "gather_kernel[(1,)]" in line


def test_outputs_are_unwritten_before_the_first_replay() -> None:
    with sanitize() as session:
        x, index = torch.arange(8.0, device="cuda"), torch.arange(8, device="cuda")
        graph, z = gathered(x, index)
        y = torch.empty_like(x)
        gather_kernel[(1,)](z, index, y, 8, BLOCK=8)
        assert [each.check for each in session.findings] == ["initcheck"]
        graph.replay()
        gather_kernel[(1,)](z, index, y, 8, BLOCK=8)
    assert len(session.findings) == 1
