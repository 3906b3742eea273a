"""Capture of a CUDA graph under the device map, for tests that replay it with other data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import triton
import triton.language as tl

from ttools.interpreter import device_map

cuda: Any = torch.cuda


@triton.jit
def gather_kernel(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, tl.load(x_ptr + index, mask=offs < n) + 1, mask=offs < n)


@contextmanager
def mapped_device() -> Iterator[None]:
    """Activate the device map; finally restore the stream, which a failed capture changes."""
    with device_map():
        yield
        cuda.set_stream(cuda.default_stream())


def gathered(x: Any, index: Any) -> tuple[Any, Any]:
    """Capture a graph that computes `2 * (x[index] + 1)`; return the graph and its result."""
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y = torch.empty_like(x)
        gather_kernel[(1,)](x, index, y, x.numel(), BLOCK=8)
        z = y * 2
    return graph, z
