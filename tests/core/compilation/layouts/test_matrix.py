"""Tests of the layouts of matrix instructions and shared memory, compared with Triton's."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import pytest
from tests.core.compilation.compiled_kernels import inspected

from ttools.core.compilation.layouts.shared import offset
from ttools.core.compilation.layouts.ttgir import Layout, explain, holder, layouts_of, shapes_of
from ttools.core.triton_versions import triton_version

SHAPES = [(64, 32), pytest.param((32, 128), marks=pytest.mark.slow)]
WARPS = [[2, 2], [1, 4], [4, 2]]


def upstream(layout: Any, shape: tuple[int, ...]) -> Any:
    """Return the linear layout to which Triton converts a layout."""
    gluon_ir = pytest.importorskip("triton._C.libtriton").gluon_ir
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    builder = gluon_ir.GluonOpBuilder(context)
    if not hasattr(builder, "to_linear_layout"):
        pytest.skip("needs `GluonOpBuilder.to_linear_layout`, which this version of Triton lacks")
    return builder.to_linear_layout(layout._to_ir(builder), list(shape))


def combined(bases: list[list[int]], index: int) -> tuple[int, ...]:
    element = [0, 0]
    for bit, vector in enumerate(bases):
        if index >> bit & 1:
            element = [a ^ b for a, b in zip(element, vector, strict=True)]
    return tuple(element)


def agree(layout: Layout, oracle: Any, shape: tuple[int, ...], threads: int) -> None:
    distribution = holder(layout, shape, threads)
    assert distribution is not None
    linear = upstream(oracle, shape)
    parts = (linear.reg_bases, linear.lane_bases, linear.warp_bases)
    assert (distribution.lanes, distribution.warps) == (threads, 1 << len(parts[2]))
    for lane, warp in product(range(threads), range(distribution.warps)):
        fixed = [combined(parts[1], lane), combined(parts[2], warp)]
        expected = {
            tuple(a ^ b ^ c for a, b, c in zip(combined(parts[0], r), *fixed, strict=True))
            for r in range(1 << len(parts[0]))
        }
        assert {distribution.at(r, lane, warp) for r in range(distribution.registers)} == expected


def gluon() -> Any:
    from triton.experimental.gluon import language

    return language


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_operands_of_mma_sync(
    operand: int, width: int, warps: list[int], shape: tuple[int, int]
) -> None:
    mma = gluon().NVMMADistributedLayout([2, 0], warps, [16, 8])
    oracle = gluon().DotOperandLayout(operand, mma, width)
    text = f"versionMajor = 2, versionMinor = 0, warpsPerCTA = {warps}, instrShape = [16, 8]"
    parent = Layout("#mma", "nvidia_mma", text)
    dot = Layout("#d", "dot_op", f"opIdx = {operand}, parent = #mma, kWidth = {width}", parent)
    agree(dot, oracle, shape, 32)


def mfma(rows: int, warps: list[int], transposed: bool) -> tuple[Layout, Any]:
    depth = 8 if rows == 32 else 16
    instruction = [rows, rows, depth]
    text = f"version = 3, warpsPerCTA = {warps}, instrShape = {instruction}, "
    text += f"isTransposed = {str(transposed).lower()}"
    oracle = gluon().amd.AMDMFMALayout(
        version=3, warps_per_cta=warps, instr_shape=instruction, transposed=transposed
    )
    return Layout("#mma", "amd_mfma", text), oracle


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("rows", [16, 32])
@pytest.mark.parametrize("transposed", [False, True])
def test_mfma(rows: int, transposed: bool, warps: list[int], shape: tuple[int, int]) -> None:
    layout, oracle = mfma(rows, warps, transposed)
    agree(layout, oracle, shape, 64)
    for operand, width in product((0, 1), (4, 8)):
        text = f"opIdx = {operand}, parent = #mma, kWidth = {width}"
        dot = gluon().DotOperandLayout(operand, oracle, width)
        agree(Layout("#d", "dot_op", text, layout), dot, shape, 64)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_wmma(version: int, transposed: bool, shape: tuple[int, int]) -> None:
    if triton_version() < (3, 9):
        pytest.skip("Gluon's WMMA layouts have other arguments before Triton 3.9")
    instruction = [16, 16, 32 if version == 3 else 16]
    oracle = gluon().amd.AMDWMMALayout(
        version=version, transposed=transposed, warp_bases=[[0, 1], [1, 0]], instr_shape=instruction
    )
    text = f"version = {version}, isTranspose = {str(transposed).lower()}, "
    text += "ctaLayout = {warp = [[0, 1], [1, 0]]}"
    layout = Layout("#mma", "amd_wmma", text)
    agree(layout, oracle, shape, 32)
    for operand in (0, 1):
        width = 16 if version == 1 else 8
        inner = f"opIdx = {operand}, parent = #mma, kWidth = {width}"
        dot = gluon().DotOperandLayout(operand, oracle, width)
        agree(Layout("#d", "dot_op", inner, layout), dot, shape, 32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", [[1, 0], [0, 1]])
@pytest.mark.parametrize(("vec", "per", "most"), [(8, 2, 4), (8, 1, 8), (4, 2, 8), (1, 1, 1)])
def test_swizzled_shared_memory(
    vec: int, per: int, most: int, order: list[int], shape: tuple[int, int]
) -> None:
    text = f"vec = {vec}, perPhase = {per}, maxPhase = {most}, order = {order}"
    oracle = gluon().SwizzledSharedLayout(vec, per, most, order)
    offsets_agree(Layout("#s", "swizzled_shared", text), oracle, shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("width", "bits"), [(32, 16), (64, 16), (128, 32), (64, 32), (32, 8)])
def test_shared_memory_for_wgmma(
    width: int, bits: int, transposed: bool, shape: tuple[int, int]
) -> None:
    text = f"swizzlingByteWidth = {width}, transposed = {str(transposed).lower()}, "
    text += f"elementBitWidth = {bits}"
    oracle = gluon().NVMMASharedLayout(width, bits, 2, transposed)
    offsets_agree(Layout("#s", "nvmma_shared", text), oracle, shape)


def offsets_agree(layout: Layout, oracle: Any, shape: tuple[int, int]) -> None:
    if triton_version() < (3, 9):
        pytest.skip("Triton before 3.9 aborts when it converts a shared layout")
    element_at = offset(layout, shape)
    assert element_at is not None
    bases = upstream(oracle, shape).offset_bases
    for position in range(prod(shape)):
        assert element_at(combined(bases, position)) == position


def test_padding() -> None:
    layout = Layout("#s", "padded_shared", "[128:+8] {order = [1, 0], shape = [64, 32]}")
    assert list(explain(layout, [(64, 32)], 64))[1:] == [
        "offsets of elements in shared memory, for a tile of 64x32:",
        "row 0: columns 0:32 at 0",
        "row 1: columns 0:32 at 32",
        "row 2: columns 0:32 at 64",
        "row 8: columns 0:32 at 272",
    ]


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942", "gfx1100"])
def test_the_layouts_of_a_real_kernel_are_explained(target: str) -> None:
    inspection = inspected("matmul", target)
    ttgir = inspection.compilation.texts["ttgir"]
    kinds = set()
    for layout in layouts_of(ttgir):
        shapes = shapes_of(ttgir, layout)
        sentences = list(explain(layout, shapes, inspection.target.threads))
        if shapes and layout.kind != "amd_rotating_shared":
            assert len(sentences) > 1, layout
            kinds.add(layout.kind)
        distribution = holder(layout, shapes[0], inspection.target.threads) if shapes else None
        if distribution is not None:
            threads = range(distribution.lanes * distribution.warps)
            assert len({e for t in threads for e in distribution.elements(t)}) == prod(shapes[0])
    assert kinds & {"dot_op", "nvmma_shared"}
    assert kinds & {"nvidia_mma", "amd_mfma", "amd_wmma"}


def test_explanation_of_an_operand() -> None:
    mma = Layout("#mma", "nvidia_mma", "versionMajor = 2, warpsPerCTA = [2, 2]")
    dot = Layout("#d", "dot_op", "opIdx = 0, parent = #mma, kWidth = 2", mma)
    assert list(explain(dot, [(32, 16)], 32)) == [
        "an operand of a matrix product, laid out as its matrix instructions require",
        "each of 128 threads holds 8 elements of a tile of 32x16, in runs of 2 along axis 1",
        "thread 0 holds [0, 0:2], [8, 0:2], [0, 8:10], [8, 8:10]",
        "thread 1 holds [0, 2:4], [8, 2:4], [0, 10:12], [8, 10:12]",
        "thread 32 holds [0, 0:2], [8, 0:2], [0, 8:10], [8, 8:10]",
    ]
