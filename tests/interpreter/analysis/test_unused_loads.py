"""Tests of finding loads that Triton removes because their values are unused.

Loads that Triton only merges or moves are not reported. In the kernels below, the comment `unused`
marks a load that is reported, and `waits` one in the condition of a waiting loop.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.location import SourceLocation
from ttools.interpreter import interpret
from ttools.interpreter.analysis.unused_loads import (
    UnusedLoad,
    commented_loads,
    unused_loads,
    with_unused_loads,
)


@triton.jit
def both(x, offs):
    first = tl.load(x + offs)
    second = tl.load(x + offs + 7)  # unused
    return first, second


@triton.jit
def either(x, offs):
    first = tl.load(x + offs)
    second = tl.load(x + offs + 8)
    return first, second


@triton.jit
def plain(x, y, n, BLOCK: tl.constexpr, MORE: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.load(x + offs + 1)  # unused
    chain = tl.load(x + offs + 2) * 2  # unused
    chain = tl.sum(chain + tl.load(x + offs + 3))  # unused
    a, _ = both(x, offs)
    b, _ = either(x, offs)
    _, c = either(x, offs)
    again = tl.load(x + offs)  # merged with that of `both`
    if MORE:
        again += tl.load(x + offs + 9)
    else:
        tl.load(x + offs + 10, volatile=True)
    if n > 3:
        a += tl.load(x + offs + 11)
        tl.load(x + offs + 12)  # unused
    for i in range(0):
        a += tl.load(x + offs + i + 13)
    never = tl.load(x + offs + 14, mask=offs < 0, other=0.0)
    tl.store(y + offs, a + b + c + again + never)


@triton.jit
def subtle(x, y, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    i = 0
    while i < tl.load(x):
        row = tl.load(x + i * BLOCK + offs)
        tl.atomic_add(y + offs, row)
        tl.device_assert(tl.load(x + 1) == tl.load(x + 2))
        i += 1
    index = tl.load(x + 3).to(tl.int32)
    total += tl.load(x + index + offs)
    descriptor = tl.make_tensor_descriptor(x, [n], [1], [BLOCK])
    descriptor.load([BLOCK])  # unused
    total += descriptor.load([0])
    if tl.load(x + 4) > 0:
        total += 1
    tl.store(y + offs, total, mask=offs < tl.load(x + 5))


@triton.jit
def spinning(x, y, n):
    while tl.load(x) == 0:  # unused # waits
        pass
    seen = tl.load(x + 1)  # unused
    while seen < n:
        seen = tl.load(x + 2)  # unused # waits
    i = 0
    while i < tl.load(x + 3):
        i += 1
    done = False
    while not done:
        done = (tl.load(x + 4) == 1) & (tl.load(x + 5) == 1)  # unused # waits
    while tl.load(x + 6, volatile=True) == 0:
        pass
    tl.store(y, n)


@triton.jit
def early_return(x, y, n, BLOCK: tl.constexpr):
    if n > 4:
        return
    tl.store(y, tl.load(x))
    tl.load(x + 1)  # unused


def marked(*functions: Any, by: str = "# unused") -> set[int]:
    """Return the numbers of the lines of functions that contain the given comment."""
    lines = set()
    for function in functions:
        source, start = inspect.getsourcelines(function.fn)
        lines |= {start + at for at, line in enumerate(source) if by in line}
    return lines


@pytest.mark.parametrize(
    ("functions", "constants"),
    [
        ((plain, both, either), {"BLOCK": 16, "MORE": False}),
        ((plain, both, either), {"BLOCK": 16, "MORE": True}),
        ((subtle,), {"BLOCK": 16}),
        ((early_return,), {"BLOCK": 16}),
        ((spinning,), {}),
    ],
    ids=["plain", "more", "subtle", "early-return", "spinning"],
)
def test_only_unused_loads_are_found(functions: tuple[Any, ...], constants: dict[str, Any]) -> None:
    with interpret():
        kernel = functions[0].warmup(
            torch.float32, torch.float32, 100, grid=(1,), debug=True, **constants
        )
    loads = commented_loads(kernel.asm["cputtir"].decode())
    assert {load.location.line for load in loads if load.waits} == marked(*functions, by="# waits")
    locations = [load.location for load in loads]
    assert {location.line for location in locations} == marked(*functions)
    assert {location.file for location in locations} == {__file__}
    inlined = [location for location in locations if location.line in marked(both)]
    assert [len(location.callers) for location in inlined] == [1] * len(inlined)


def test_unparsable_text_gives_no_findings() -> None:
    load = '%1 = tt.load %0 : !tt.ptr<f32> loc("a.py":1:2)\n'
    assert unused_loads(load, "") == []
    assert unused_loads(load, load) == []


locations = st.builds(SourceLocation, st.text(max_size=8), st.integers(1, 99), st.integers(0, 99))
chains = st.builds(
    lambda place, callers: SourceLocation(place.file, place.line, place.column, None, callers),
    locations,
    st.lists(locations, max_size=3).map(tuple),
)


@given(st.lists(st.builds(UnusedLoad, chains, st.booleans()), max_size=4))
def test_locations_survive_the_comment(loads: list[UnusedLoad]) -> None:
    text = with_unused_loads("module {\n}\n", loads)
    assert text.startswith("module {\n}\n")
    assert commented_loads(text) == tuple(loads)
    assert all(line.startswith("//") for line in text.split("\n")[2:] if line)
