"""Tests of regions in Python and in native code, compared with the sets of a view's elements."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import example, given, settings
from hypothesis import strategies as st
from observing import observe

from ttools.interpreter.abi.region import ANYWHERE, NOWHERE, Region, region_of, view_region

View = tuple[tuple[int, ...], tuple[int, ...]]
LANES = 32


@st.composite
def views(draw: st.DrawFn) -> View:
    """Draw any shape and strides in elements: overlapping, negative, zero or empty."""
    rank = draw(st.integers(0, 3))
    shape = draw(st.lists(st.integers(0, 5), min_size=rank, max_size=rank))
    strides = draw(st.lists(st.integers(-7, 20), min_size=rank, max_size=rank))
    return tuple(shape), tuple(strides)


@st.composite
def nested_views(draw: st.DrawFn) -> View:
    """Draw views with gaps between rows, with the dimensions in any order."""
    span, rows = 1, []
    for _ in range(draw(st.integers(1, 3))):
        extent = draw(st.integers(1, 4))
        stride = span + draw(st.integers(0, 3))
        rows.append((extent, stride))
        span = stride * (extent - 1) + span
    rows = draw(st.permutations(rows))
    return tuple(n for n, _ in rows), tuple(s for _, s in rows)


def offsets_of(view: View) -> set[int]:
    """Return the element offsets of all indices of a view."""
    shape, strides = view
    indices = itertools.product(*map(range, shape))
    return {sum(i * s for i, s in zip(index, strides, strict=True)) for index in indices}


def placed(view: View, margin: int, item: int) -> tuple[Region, int, set[int]]:
    """Place a view in a storage; return the region, the size of the storage, and the offsets."""
    offsets = offsets_of(view) or {0}
    first = margin - min(offsets)
    elements = first + max(offsets) + 1 + margin
    begin = 4096
    region = view_region(
        (begin, begin + elements * item),
        begin + first * item,
        view[0],
        [stride * item for stride in view[1]],
        item,
    )
    return region, elements, {first + n for n in offsets_of(view)}


any_view = st.one_of(views(), nested_views())


@given(any_view, st.integers(0, 3), st.sampled_from([1, 2, 4, 8]))
@example(((), ()), 0, 4)
@example(((2, 3), (1, 1)), 1, 4)
def test_a_view_contains_the_elements_of_its_indices(view: View, margin: int, item: int) -> None:
    region, elements, members = placed(view, margin, item)
    for n in range(-2, elements + 2):
        assert region.holds(4096 + n * item) == (n in members), n
    addresses = 4096 + item * np.arange(-2, elements + 2)
    assert region.holds_each(addresses).tolist() == [region.holds(int(a)) for a in addresses]


def test_regions_of_tensors_have_their_strides() -> None:
    base = torch.zeros(40)
    view = torch.as_strided(base, (3, 4), (5, 2), 7)
    region = region_of(view, view)
    assert region is not None
    begin = base.data_ptr()
    assert region.storage == (begin, begin + 160)
    members = {n for n in range(-4, 44) if region.holds(begin + 4 * n)}
    assert members == {7 + 5 * i + 2 * j for i in range(3) for j in range(4)}


def test_a_view_of_empty_or_missing_memory_contains_nothing() -> None:
    empty = torch.zeros(0)
    region = region_of(empty, empty)
    assert region is not None
    assert not region.holds(empty.data_ptr())
    missing = region_of(None, None)
    assert missing is not None
    assert not missing.holds(0)
    assert not NOWHERE.holds(0)
    assert region_of(12345, 12345) is None


# ---- the same checks by native code


@triton.jit
def reach_kernel(x_ptr, at_ptr, out_ptr, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    at = tl.load(at_ptr + lanes)
    tl.store(out_ptr + lanes, tl.load(x_ptr + at))


@triton.jit
def reach_bytes_kernel(x_ptr, at_ptr, out_ptr, WIDE: tl.constexpr, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    at = tl.load(at_ptr + lanes)
    pointers = (x_ptr + at).to(tl.pointer_type(WIDE), bitcast=True)
    tl.store(out_ptr + lanes, tl.load(pointers))


DTYPES = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
WIDE = {1: tl.int8, 2: tl.int16, 4: tl.int32, 8: tl.int64}


@cache
def memory() -> np.ndarray:
    return np.random.default_rng(0).integers(-128, 127, 4096).astype(np.int8)


def run_and_count(
    region: Region, tensor: torch.Tensor, at: torch.Tensor
) -> tuple[dict[str, int], list[int]]:
    """Load elements; return the number of lanes that failed each test, and the loaded values."""
    out = torch.full((LANES,), -1, dtype=tensor.dtype)
    observed = observe(
        lambda: reach_kernel[(1,)](tensor, at, out, LANES=LANES), regions={"x_ptr": region}
    )
    return {c.witness.test: c.lanes for c in observed.counts}, out.tolist()


@settings(max_examples=60)
@given(any_view, st.integers(0, 3), st.sampled_from([1, 2, 4, 8]), st.data())
def test_native_code_agrees_with_the_region(
    view: View, margin: int, item: int, data: st.DataObject
) -> None:
    _, elements, _ = placed(view, margin, item)
    dtype = DTYPES[item]
    padded_storage = torch.from_numpy(memory()[: (elements + 8) * item].copy()).view(dtype)
    storage = padded_storage[4 : 4 + elements]
    offsets = offsets_of(view) or {0}
    first = margin - min(offsets)
    begin = storage.data_ptr()
    region = view_region(
        (begin, begin + elements * item),
        begin + first * item,
        view[0],
        [s * item for s in view[1]],
        item,
    )
    at = data.draw(st.lists(st.integers(-4, elements + 3), min_size=LANES, max_size=LANES))
    counts, loaded = run_and_count(region, storage, torch.tensor(at))
    stored = [0 <= n < elements for n in at]
    members = [region.holds(begin + n * item) for n in at]
    expected = {
        "storage": stored.count(False),
        "view": sum(s and not h for s, h in zip(stored, members, strict=True)),
    }
    assert counts == {k: v for k, v in expected.items() if v}
    padded = padded_storage.tolist()
    assert loaded == [padded[4 + n] if s else 0 for n, s in zip(at, stored, strict=True)]


def test_each_launch_is_checked_with_its_own_view() -> None:
    memory = torch.arange(64, dtype=torch.int32)
    out, at = torch.zeros(LANES, dtype=torch.int32), torch.arange(LANES)
    begin, item = memory.data_ptr(), 4
    dense, gapped = ((32,), (1,)), ((16, 1), (2, 1))
    # The last two views have the same end and number of elements.
    similar = ((4, 2), (9, 4)), ((4, 2), (8, 7))
    assert len({max(offsets_of(view)) for view in similar}) == 1
    for view in (dense, dense, gapped, *similar, gapped, dense, *reversed(similar), dense):
        shape, strides = view
        region = view_region(
            (begin, begin + 64 * item), begin, shape, [s * item for s in strides], item
        )
        observed = observe(
            lambda: reach_kernel[(1,)](memory, at, out, LANES=LANES), regions={"x_ptr": region}
        )
        outside = LANES - len(offsets_of(view) & set(range(LANES)))
        assert {c.witness.test: c.lanes for c in observed.counts} == (
            {"view": outside} if outside else {}
        )


@pytest.mark.parametrize("start", [0, 1, 3, 4])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_misaligned_straddling_and_outside_accesses_are_distinguished(
    size: int, start: int
) -> None:
    """Access a storage at any address; alignment depends on the address, not on the storage."""
    base = torch.from_numpy(memory()[:256].copy())
    begin = base.data_ptr()
    assert begin % 8 == 0
    low, high = 8 + start, 8 + start + 27
    region = Region((begin + low, begin + high), (begin + low, begin + high), item=1)
    every = list(range(64))
    for first in range(0, 64, LANES):
        at = every[first : first + LANES]
        out = torch.full((LANES,), -1, dtype=DTYPES[size])
        observed = observe(
            lambda at=at, out=out: reach_bytes_kernel[(1,)](  # type: ignore[misc]
                base, torch.tensor(at), out, WIDE=WIDE[size], LANES=LANES
            ),
            regions={"x_ptr": region},
        )
        odd = [n for n in at if n % size]
        outside = [n for n in at if n % size == 0 and not low <= n <= high - size]
        counts = {c.witness.test: c for c in observed.counts}
        assert {k: c.lanes for k, c in counts.items()} == {
            k: len(v) for k, v in (("misaligned", odd), ("storage", outside)) if v
        }
        for test, lanes in (("misaligned", odd), ("storage", outside)):
            if lanes:
                assert counts[test].witness.address == begin + lanes[0]
                assert counts[test].witness.lane == at.index(lanes[0])
        value = {n: base[n : n + size].view(DTYPES[size]).item() for n in at if n % size == 0}
        right = [value[n] if n not in odd and n not in outside else 0 for n in at]
        assert out.tolist() == right


@triton.jit
def every_byte_kernel(x_ptr, out_ptr, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    pointers = (x_ptr + lanes).to(tl.pointer_type(tl.int32), bitcast=True)
    tl.store(out_ptr + lanes, tl.load(pointers))


def test_strides_that_are_no_multiple_of_the_size_are_misaligned() -> None:
    x, out = torch.arange(64, dtype=torch.int8), torch.zeros(LANES, dtype=torch.int32)
    observed = observe(lambda: every_byte_kernel[(1,)](x, out, LANES=LANES))
    assert {c.witness.test: c.lanes for c in observed.counts} == {"misaligned": 24}


@triton.jit
def copy_kernel(x_ptr, out_ptr, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes))


@pytest.mark.parametrize("start", range(4))
@pytest.mark.parametrize("through_table", [False, True])
def test_alignment_of_dense_accesses(start: int, through_table: bool) -> None:
    memory = np.zeros(4 * LANES + 8, np.uint8)
    assert memory.ctypes.data % 8 == 0
    begin = memory.ctypes.data + start

    class Anywhere:
        dtype = torch.int32

        def data_ptr(self) -> int:
            return begin

        def storage_extent(self) -> tuple[int, int]:
            return begin, begin + 4 * LANES

    out = torch.full((LANES,), -1, dtype=torch.int32)
    pointer: torch.Tensor | Anywhere = Anywhere()
    if through_table:
        pointer = torch.tensor([begin])
    kernel = pointed_kernel if through_table else copy_kernel
    observed = observe(
        lambda: kernel[(1,)](pointer, out, LANES=LANES),
        allocations=[(begin, begin + 4 * LANES)],
    )
    failed = {c.witness.test: c.lanes for c in observed.counts}
    assert failed == ({"misaligned": LANES} if start else {})
    assert out.tolist() == [0] * LANES


@triton.jit
def pointed_kernel(table_ptr, out_ptr, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    x_ptr = tl.load(table_ptr).to(tl.pointer_type(tl.int32))
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes))


def test_memory_of_unknown_size_can_be_accessed() -> None:
    x = torch.arange(LANES, dtype=torch.int32)
    counts, loaded = run_and_count(ANYWHERE, x, torch.arange(LANES))
    assert not counts
    assert loaded == x.tolist()
