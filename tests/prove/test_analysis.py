"""Verdicts and smallest failing sizes of kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.prove import kernels

from ttools.prove.analysis import Analysis
from ttools.prove.grids import REFUSED
from ttools.prove.result import Result


def _analyse(run: Callable[..., Any], **sizes: tuple[int, int]) -> Result:
    return Analysis(run, sizes).analyse()


def _found(result: Result) -> set[tuple[str, tuple[int, ...]]]:
    return {(d.event.kind, tuple(d.sizes.values())) for d in result.defects}


@pytest.mark.parametrize(
    ("run", "sizes"),
    [
        (kernels.copy, {"n": (0, 1 << 31)}),
        (kernels.rows, {"n": (0, 16_384)}),
        (kernels.transpose, {"n": (1, 46_340), "m": (1, 46_340)}),
        (kernels.shift, {"n": (1, 129)}),
        (kernels.gather_reversed, {"n": (1, 1 << 30)}),
        (kernels.persistent, {"n": (1, 1 << 30)}),
        (kernels.grouped, {"n": (1, 1 << 20)}),
        (kernels.tall_grid, {"n": (1, 65_535)}),
        (kernels.product, {"n": (1, 1 << 14)}),
        (kernels.early, {"n": (0, 1 << 20)}),
        (kernels.aligned, {"n": (1, 1 << 30)}),
        (kernels.bits, {"n": (1, 1 << 31)}),
        (kernels.looked_up, {"n": (1, 1 << 20)}),
        (kernels.convolution, {"n": (1, 1 << 20)}),
        (kernels.rotated, {"n": (1, 1 << 20)}),
        (kernels.seen_transposed, {"n": (1, 1 << 14), "m": (1, 1 << 14)}),
    ],
)
def test_right_kernels_are_proved(
    run: Callable[..., Any], sizes: dict[str, tuple[int, int]]
) -> None:
    result = _analyse(run, **sizes)
    assert (result.verdict, result.abstained) == ("proved", [])


@pytest.mark.parametrize(
    ("run", "last", "expected"),
    [
        pytest.param(
            *(kernels.copy, 1 << 33, {("int_overflow", (2**31 + 1,))}), marks=pytest.mark.slow
        ),
        (kernels.rows, 100_000, {("int_overflow", (16_385,))}),
        (kernels.shift, 1 << 20, {("race", (130,))}),
        (kernels.behind, 1 << 20, {("oob_load", (2,))}),
        (kernels.odd_pairs, 1 << 27, {("int_overflow", (65_075_264,)), ("oob_load", (1,))}),
        (kernels.aligned_too_low, 1 << 20, {("oob_load", (1,))}),
        (kernels.wrapped_end, 1 << 20, {("oob_load", (1 << 19,))}),
        (kernels.bits_in_common, 200, {("overlapping_store", (65,))}),
        pytest.param(
            *(kernels.packed, 60_000, {("int_overflow", (46_342,))}), marks=pytest.mark.slow
        ),
        (kernels.padded, 200, {("oob_store", (3,)), ("overlapping_store", (3,))}),
    ],
)
def test_defects_are_found_at_their_least_size(
    run: Callable[..., Any], last: int, expected: set[tuple[str, tuple[int, ...]]]
) -> None:
    result = _analyse(run, n=(1, last))
    assert _found(result) == expected
    assert all(defect.is_least for defect in result.defects)


@pytest.mark.slow
def test_neither_of_two_failing_sizes_can_be_smaller() -> None:
    result = _analyse(kernels.transpose, n=(1, 100_000), m=(1, 100_000))
    assert result.verdict == "fails"
    for defect in result.defects:
        assert defect.event.kind == "int_overflow"
        for name in defect.sizes:
            less = {**defect.sizes, name: defect.sizes[name] - 1}
            below = _analyse(kernels.transpose, **{k: (v, v) for k, v in less.items()})
            location = defect.event.op.location
            assert location not in {d.event.op.location for d in below.defects}


def test_a_wrap_at_large_sizes_does_not_hide_defects_at_smaller_ones() -> None:
    result = _analyse(kernels.ahead, n=(1, 3_000_000_000), distance=(1, 100))
    found = {(d.event.kind, tuple(d.sizes.values())) for d in result.defects}
    assert found == {
        ("oob_load", (1, 1)),
        ("oob_store", (1, 1)),
        ("int_overflow", (2**31 + 1, 1)),
    }


def test_branches_on_data_are_named_at_their_line() -> None:
    result = _analyse(kernels.gather_random, n=(1, 1 << 20))
    assert result.verdict == "not proved"
    lines = Path(kernels.__file__).read_text().splitlines()
    assert any("x_ptr + index" in lines[a.line - 1] for a in result.abstained if a.line)


def test_grids_that_cannot_be_launched_fail_at_their_least_size() -> None:
    result = _analyse(kernels.tall_grid, n=(1, 1 << 20))
    (defect,) = result.defects
    assert (defect.event.kind, defect.sizes, defect.is_least) == (REFUSED, {"n": 65_536}, True)
    lines = Path(kernels.__file__).read_text().splitlines()
    assert "tl.program_id(1)" in lines[defect.event.op.location.line - 1]
    assert (
        defect.event.refused
        == "axis 1 of the grid has 65,536 programs, but at most 65,535 are allowed"
    )
    assert result.abstained == []


def test_the_least_of_two_sizes_whose_product_is_a_grid() -> None:
    result = _analyse(kernels.heads_and_batches, n=(1, 2048), m=(1, 2048))
    (defect,) = result.defects
    assert defect.event.kind == REFUSED
    n, m = defect.sizes["n"], defect.sizes["m"]
    assert n * m > 65_535
    assert max((n - 1) * m, n * (m - 1)) <= 65_535, "neither size can be smaller"


def test_unknown_host_functions_are_named() -> None:
    import torch

    def run(n: int) -> None:
        torch.fft.fft(torch.randn(n))

    result = _analyse(run, n=(1, 10))
    assert result.verdict == "not proved"
    assert "fft" in result.abstained[0].reason


@pytest.mark.parametrize(("run", "sizes"), [(kernels.capped, (1, 2)), (kernels.sevens, (7, 1))])
def test_no_single_failing_size_can_be_smaller(
    run: Callable[..., Any], sizes: tuple[int, int]
) -> None:
    (defect,) = _analyse(run, n=(1, 2000), m=(1, 2000)).defects
    assert (defect.event.kind, tuple(defect.sizes.values())) == ("oob_load", sizes)
    assert defect.is_least
