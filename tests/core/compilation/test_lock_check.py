"""Tests of the comparison with a performance baseline, and of the figures that decide it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ttools.core.compilation.lock import (
    LIMITS,
    PROJECTED,
    SCHEMA,
    Entry,
    Lock,
    read_lock,
    write_lock,
)
from ttools.core.compilation.lock_check import Comparison, CurrentCosts, compare
from ttools.core.location import SourceLocation
from ttools.core.triton_versions.version import installed_triton


def entry(kernel: str, block: int = 64, target: str = "sm_90", **figures: float) -> Entry:
    """Return an entry; figures are keywords, with underscores instead of spaces."""
    return entry_with(
        kernel, {n.replace("_", " "): value for n, value in figures.items()}, block, target
    )


def entry_with(
    kernel: str, figures: dict[str, float], block: int = 64, target: str = "sm_90"
) -> Entry:
    """Return an entry with these figures."""
    return Entry(
        kernel=kernel,
        target=target,
        triton=installed_triton(),
        parameters={"BLOCK": f"constant {block}"},
        options={"num_warps": "4"},
        figures=figures,
    )


def compared(
    before: list[Entry], now: list[Entry], limits: Mapping[str, float] = LIMITS
) -> Comparison:
    """Compare entries without the counts of their lines."""
    return compare(Lock(SCHEMA, dict(limits), before), [CurrentCosts(entry=entry) for entry in now])


def regressions(
    before: list[Entry], now: list[Entry], limits: Mapping[str, float] = LIMITS
) -> list[str]:
    """Return the text of each regression."""
    return [str(regression) for regression in compared(before, now, limits).regressions]


def test_the_projected_time_decides_alone() -> None:
    locked = [entry("add", projected_time=100.0, registers=20, instructions=100)]
    same_time = [entry("add", projected_time=102.0, registers=90, instructions=900)]
    assert regressions(locked, same_time) == []
    slower = [entry("add", projected_time=104.0, registers=90, instructions=100)]
    assert regressions(locked, slower) == [
        "add for sm_90: projected time 100 -> 104 us (registers 20 -> 90)"
    ]
    faster = [entry("add", projected_time=50.0, registers=90)]
    assert regressions(locked, faster) == []


@pytest.mark.parametrize("missing", ["the time before", "the time now", "the limit"])
def test_without_a_projected_time_the_other_figures_decide(missing: str) -> None:
    before = {"registers": 20.0, PROJECTED: 100.0}
    now = {"registers": 90.0, PROJECTED: 100.0}
    limits = dict(LIMITS)
    if missing == "the limit":
        del limits[PROJECTED]
    else:
        del (before if missing == "the time before" else now)[PROJECTED]
    texts = regressions([entry_with("add", before)], [entry_with("add", now)], limits)
    assert texts == ["add for sm_90: registers 20 -> 90"]


def test_different_specialisations_are_compared_by_their_time() -> None:
    locked = [entry("add", 64, projected_time=100.0, registers=20)]
    slower = [entry("add", 128, projected_time=120.0, registers=20)]
    assert regressions(locked, slower) == ["add for sm_90: projected time 100 -> 120 us"]
    without = compared([entry("add", 64, registers=20)], [entry("add", 128, registers=90)])
    assert (without.compared, [entry.kernel for entry in without.unknown]) == (0, ["add"])


def test_replaced_specialisations_are_compared_by_the_sum_of_their_times() -> None:
    locked = [entry("add", 64, projected_time=100.0), entry("add", 256, projected_time=5.0)]
    halves = [entry("add", block, projected_time=50.0) for block in (16, 32)]
    same = entry("add", 256, projected_time=5.0)
    assert regressions(locked, [*halves, same]) == []
    texts = regressions(locked, [*halves, entry("add", 8, projected_time=9.0), same])
    assert texts == ["add for sm_90: projected time 100 -> 109 us"]
    # A specialisation that exists before and now is compared with itself, outside of the sum.
    assert regressions(locked, [*halves, entry("add", 256, projected_time=6.0)]) == [
        "add for sm_90: projected time 5 -> 6 us"
    ]


def test_replaced_kernels_are_compared_by_the_sum_of_their_times() -> None:
    locked = [entry("both", projected_time=100.0), entry("kept", projected_time=1.0)]
    split = [entry("first", projected_time=60.0), entry("second", projected_time=70.0)]
    comparison = compared(locked, [*split, entry("kept", projected_time=1.0)])
    (regression,) = comparison.regressions
    assert str(regression) == (
        "first, second in place of both for sm_90: projected time 100 -> 130 us"
    )
    assert (comparison.compared, comparison.unknown) == (3, [])


def test_new_kernels_and_new_targets_are_not_compared() -> None:
    locked = [entry("kept", projected_time=1.0)]
    new = entry("new", projected_time=9.0)
    other = entry("kept", target="sm_80", projected_time=9.0)
    comparison = compared(locked, [*locked, new, other])
    assert (comparison.compared, comparison.regressions) == (1, [])
    assert {(entry.kernel, entry.target) for entry in comparison.unknown} == {
        ("new", "sm_90"),
        ("kept", "sm_80"),
    }


def test_the_changed_line_is_named_for_a_different_specialisation() -> None:
    file = Path(__file__)
    first, second = (SourceLocation(str(file), line, 0) for line in (1, 3))
    texts = [file.read_text().splitlines()[line - 1] for line in (1, 3)]

    def with_lines(block: int, time: float, counts: tuple[int, int]) -> Entry:
        own = entry("add", block, projected_time=time)
        lines = {text: n for text, n in zip(texts, counts, strict=True) if n}
        return Entry(**{**vars(own), "lines": lines})

    now = with_lines(128, 9.0, (10, 2))
    lock = Lock(SCHEMA, dict(LIMITS), [with_lines(64, 5.0, (9, 0))])
    comparison = compare(lock, [CurrentCosts(entry=now, instructions={first: 10, second: 2})])
    assert [regression.location for regression in comparison.regressions] == [second]


def test_rewriting_a_baseline_removes_old_specialisations(tmp_path: Path) -> None:
    path = tmp_path / "perf.lock"
    static = entry("signature", 64, registers=20)
    write_lock(path, [static, entry("add", 64, projected_time=1.0)])
    assert write_lock(path, [entry("add", 128, projected_time=1.0)]) == 2
    written = {(entry.kernel, entry.parameters["BLOCK"]) for entry in read_lock(path).kernels}
    assert written == {("signature", "constant 64"), ("add", "constant 128")}
    # Entries of FILE.py:KERNEL, which come from signatures, are kept: there may be several.
    assert write_lock(path, [entry("signature", 128, registers=20)]) == 3
