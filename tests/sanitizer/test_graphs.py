"""Kernels in CUDA graphs under the device map: the launch of each replay is checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
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
