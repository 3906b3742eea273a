"""Tests of launches on NumPy arrays, which work in runs of ttools and which Triton rejects."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import triton
import triton.language as tl

from ttools.core.errors import UsageError
from ttools.interpreter import interpret
from ttools.profiler import profile
from ttools.sanitizer import sanitize
from ttools.watch import watch

RUNS = {
    "native": interpret,
    "eager": partial(interpret, engine="eager"),
    "sanitize": sanitize,
    "watch": watch,
    "profile": profile,
}


@triton.jit
def add_one(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x + 1, mask=offsets < n)


@triton.jit
def add_pair(pair, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(pair[1] + offsets, mask=offsets < n)
    tl.store(pair[0] + offsets, x + 1, mask=offsets < n)


class Pair(NamedTuple):
    out: Any
    x: Any


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_the_kernel_works_on_the_array(run: Callable[[], AbstractContextManager[Any]]) -> None:
    x, out = np.arange(12, dtype=np.float32), np.zeros(12, np.float32)
    with run():
        add_one[(1,)](out, x_ptr=x, n=10, BLOCK=16)
    assert out.tolist() == [*range(1, 11), 0, 0]


@pytest.mark.parametrize("kind", [Pair, lambda *arrays: arrays], ids=["named", "plain"])
@pytest.mark.parametrize("engine", ["native", "eager"])
def test_arrays_in_tuples(engine: Any, kind: Callable[..., Any]) -> None:
    x, out = np.arange(12, dtype=np.int64), np.zeros(12, np.int64)
    with interpret(engine=engine):
        add_pair[(1,)](kind(out, x), 10, BLOCK=16)
    assert out.tolist() == [*range(1, 11), 0, 0]


def test_an_array_out_of_bounds_is_a_finding() -> None:
    x, out = np.arange(12, dtype=np.float32), np.zeros(8, np.float32)
    with sanitize() as checked:
        add_one[(1,)](out, x, 12, BLOCK=16)
    (finding,) = checked.findings
    assert (finding.kind, finding.severity) == ("oob_store", "error")


def test_unsupported_arrays_are_errors() -> None:
    fixed = np.arange(4.0)
    fixed.flags.writeable = False
    with interpret(), pytest.raises(UsageError, match="it is read-only"):
        add_one[(1,)](np.zeros(4), fixed, 4, BLOCK=4)


def test_triton_rejects_arrays_outside_of_runs() -> None:
    with (
        interpret(only=["other"]),
        pytest.raises(TypeError, match=r"failed to specialize argument of type: (numpy\.)?ndarray"),
    ):
        add_one[(1,)](np.zeros(4), np.zeros(4), 4, BLOCK=4)
