"""Tests of the distribution of elements over threads, compared with Triton's linear layouts."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.compilation.compiled_kernels import inspected

from ttools.core.compilation.layouts.ttgir import Layout, explain, holder, layouts_of, shapes_of


def upstream(layout: Any, shape: list[int]) -> tuple[list, list, list]:
    """Return the bases of registers, lanes and warps of Triton's linear layout."""
    gluon_ir = pytest.importorskip("triton._C.libtriton").gluon_ir
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    builder = gluon_ir.GluonOpBuilder(context)
    if not hasattr(builder, "to_linear_layout"):
        pytest.skip("needs `GluonOpBuilder.to_linear_layout`, which this version of Triton lacks")
    linear = builder.to_linear_layout(layout._to_ir(builder), shape)
    return linear.reg_bases, linear.lane_bases, linear.warp_bases


def linear_element(bases: tuple[list, list, list], indices: tuple[int, int, int], rank: int):
    element = [0] * rank
    for basis, index in zip(bases, indices, strict=True):
        for bit, vector in enumerate(basis):
            if index >> bit & 1:
                element = [a ^ b for a, b in zip(element, vector, strict=True)]
    return tuple(element)


def agree(layout: Layout, bases: tuple[list, list, list], shape: list[int]) -> None:
    distribution = holder(layout, shape, 32)
    assert distribution is not None
    registers = 1 << len(bases[0])
    for lane, warp in product(range(32), range(distribution.warps)):
        expected = {linear_element(bases, (r, lane, warp), len(shape)) for r in range(registers)}
        actual = {distribution.at(r, lane, warp) for r in range(distribution.registers)}
        assert actual == expected


powers = st.sampled_from([1, 2, 4, 8])


@settings(max_examples=25, deadline=None)
@given(size=st.tuples(powers, powers), data=st.data())
def test_blocked(size: tuple[int, int], data: st.DataObject) -> None:
    from triton.experimental.gluon import language as gl

    across = data.draw(st.sampled_from([1, 2, 4, 8, 16, 32]))
    lanes = (across, 32 // across)
    warps = data.draw(st.sampled_from([(1, 4), (2, 2), (4, 1), (1, 1)]))
    order = data.draw(st.sampled_from([(0, 1), (1, 0)]))
    shape = [data.draw(st.sampled_from([8, 32, 128])) for _ in range(2)]
    text = ", ".join(
        f"{name} = {list(value)}"
        for name, value in (
            ("sizePerThread", size),
            ("threadsPerWarp", lanes),
            ("warpsPerCTA", warps),
            ("order", order),
        )
    )
    blocked = gl.BlockedLayout(*map(list, (size, lanes, warps, order)))
    agree(Layout("#b", "blocked", text), upstream(blocked, shape), shape)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("warps", [[4, 1], [8, 1], [4, 2], [2, 2], [1, 4]])
@pytest.mark.parametrize("shape", [[64, 64], [128, 32], [16, 16]])
def test_tensor_core_accumulators(version: int, warps: list[int], shape: list[int]) -> None:
    from triton.experimental.gluon import language as gl

    if version == 3 and warps[0] % 4:
        pytest.skip("wgmma needs groups of four warps along rows")
    instruction = [16, 8] if version == 2 else [16, 16, 16]
    mma = gl.NVMMADistributedLayout([version, 0], warps, instruction)
    text = f"versionMajor = {version}, versionMinor = 0, warpsPerCTA = {warps}, "
    text += f"instrShape = {instruction}"
    agree(Layout("#m", "nvidia_mma", text), upstream(mma, shape), shape)


def test_every_element_of_a_real_kernel_belongs_to_a_thread() -> None:
    ttgir = inspected("matmul", "sm_80").compilation.texts["ttgir"]
    checked = 0
    for layout in layouts_of(ttgir):
        for shape in shapes_of(ttgir, layout):
            distribution = holder(layout, shape, 32)
            if distribution is None:
                continue
            checked += 1
            elements = {e for t in range(32 * distribution.warps) for e in distribution.elements(t)}
            assert len(elements) == prod(shape)
            assert 0 in distribution.threads_of(distribution.elements(0)[0])
    assert checked >= 3


def test_explanation() -> None:
    text = "sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [2, 1], order = [1, 0]"
    assert list(explain(Layout("#blocked", "blocked", text), [(16, 32)], 32)) == [
        "each thread holds a small block; threads and warps tile the rest",
        "each of 64 threads holds 8 elements of a tile of 16x32, in runs of 4 along axis 1",
        "thread 0 holds [0, 0:4], [8, 0:4]",
        "thread 1 holds [0, 4:8], [8, 4:8]",
        "thread 32 holds [4, 0:4], [12, 0:4]",
    ]


def test_unknown_layouts() -> None:
    sentences = list(explain(Layout("#x", "future_layout", "a = 1"), [(16, 16)], 32))
    assert sentences == ["a layout that ttools cannot describe"]
