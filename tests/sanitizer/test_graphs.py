"""Kernels in CUDA graphs under the device map: the launch of each replay is checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from tests.replayed_graphs import gather_kernel, gathered, mapped_device

from ttools.core.location import source_line
from ttools.sanitizer import sanitize

cuda: Any = torch.cuda


@pytest.fixture(autouse=True)
def mapped() -> Iterator[None]:
    with mapped_device():
        yield


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
    file, _, line = str(finding.launch).rpartition(":")
    assert "gather_kernel[(1,)]" in source_line(file, int(line))


def test_outputs_are_unwritten_before_the_first_replay() -> None:
    with sanitize() as session:
        x, index = torch.arange(8.0, device="cuda"), torch.arange(8, device="cuda")
        graph, z = gathered(x, index)
        y = torch.empty_like(x)
        gather_kernel[(1,)](z, index, y, 8, BLOCK=8)
        assert [finding.check for finding in session.findings] == ["initcheck"]
        graph.replay()
        gather_kernel[(1,)](z, index, y, 8, BLOCK=8)
    assert len(session.findings) == 1


@triton.autotune([triton.Config({"B": size}) for size in (8, 16)], key=["n"])
@triton.jit
def tuned_kernel(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


@pytest.mark.parametrize("is_tuned_before", [False, True])
def test_a_kernel_that_is_autotuned_during_a_capture(is_tuned_before: bool) -> None:
    with sanitize() as session:
        x, y = torch.arange(8.0, device="cuda"), torch.zeros(8, device="cuda")
        if is_tuned_before:
            tuned_kernel[(1,)](x, y, 8)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            tuned_kernel[(1,)](x, y, 8)
        graph.replay()
    assert [finding.kind for finding in session.findings] == ["refused_launch"] * (
        not is_tuned_before
    )
    for finding in session.findings:
        assert finding.severity == "error"
        assert "while a CUDA graph is captured" in finding.message
        file, _, line = str(finding.launch).rpartition(":")
        assert "tuned_kernel[(1,)](x, y, 8)" in source_line(file, int(line))
    assert torch.equal(y, x + 1)
