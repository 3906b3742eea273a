"""What a lock of kernels' costs compares, and which figure decides."""

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
    """An entry; a figure is named with underscores."""
    return entry_with(
        kernel, {n.replace("_", " "): value for n, value in figures.items()}, block, target
    )


def entry_with(
    kernel: str, figures: dict[str, float], block: int = 64, target: str = "sm_90"
) -> Entry:
    """An entry with figures by name."""
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
    """What is found of entries, without any lines."""
    return compare(Lock(SCHEMA, dict(limits), before), [CurrentCosts(entry=each) for each in now])


def told(before: list[Entry], now: list[Entry], limits: Mapping[str, float] = LIMITS) -> list[str]:
    """What is said of entries."""
    return [str(each) for each in compared(before, now, limits).regressions]


def test_a_projected_time_decides_alone() -> None:
    locked = [entry("add", projected_time=100.0, registers=20, instructions=100)]
    same_time = [entry("add", projected_time=102.0, registers=90, instructions=900)]
    assert told(locked, same_time) == []
    slower = [entry("add", projected_time=104.0, registers=90, instructions=100)]
    assert told(locked, slower) == [
        "add for sm_90: projected time 100 -> 104 us (registers 20 -> 90)"
    ]
    faster = [entry("add", projected_time=50.0, registers=90)]
    assert told(locked, faster) == []


@pytest.mark.parametrize("missing", ["the time before", "the time now", "the limit"])
def test_without_a_projected_time_the_other_figures_decide(missing: str) -> None:
    before = {"registers": 20.0, PROJECTED: 100.0}
    now = {"registers": 90.0, PROJECTED: 100.0}
    limits = dict(LIMITS)
    if missing == "the limit":
        del limits[PROJECTED]
    else:
        del (before if missing == "the time before" else now)[PROJECTED]
    found = told([entry_with("add", before)], [entry_with("add", now)], limits)
    assert found == ["add for sm_90: registers 20 -> 90"]


def test_another_specialisation_is_compared_by_its_time() -> None:
    locked = [entry("add", 64, projected_time=100.0, registers=20)]
    slower = [entry("add", 128, projected_time=120.0, registers=20)]
    assert told(locked, slower) == ["add for sm_90: projected time 100 -> 120 us"]
    without = compared([entry("add", 64, registers=20)], [entry("add", 128, registers=90)])
    assert (without.compared, [each.kernel for each in without.unknown]) == (0, ["add"])


def test_one_specialisation_that_becomes_two_is_compared_in_sum() -> None:
    locked = [entry("add", 64, projected_time=100.0), entry("add", 256, projected_time=5.0)]
    halves = [entry("add", block, projected_time=50.0) for block in (16, 32)]
    same = entry("add", 256, projected_time=5.0)
    assert told(locked, [*halves, same]) == []
    found = told(locked, [*halves, entry("add", 8, projected_time=9.0), same])
    assert found == ["add for sm_90: projected time 100 -> 109 us"]
    # What is compared with itself is no part of the sum.
    assert told(locked, [*halves, entry("add", 256, projected_time=6.0)]) == [
        "add for sm_90: projected time 5 -> 6 us"
    ]


def test_kernels_in_the_place_of_others_are_compared_in_sum() -> None:
    locked = [entry("both", projected_time=100.0), entry("kept", projected_time=1.0)]
    split = [entry("first", projected_time=60.0), entry("second", projected_time=70.0)]
    found = compared(locked, [*split, entry("kept", projected_time=1.0)])
    (regression,) = found.regressions
    assert str(regression) == (
        "first, second in the place of both for sm_90: projected time 100 -> 130 us"
    )
    assert (found.compared, found.unknown) == (3, [])


def test_what_is_only_new_and_what_is_for_another_target_is_not_compared() -> None:
    locked = [entry("kept", projected_time=1.0)]
    new = entry("new", projected_time=9.0)
    other = entry("kept", target="sm_80", projected_time=9.0)
    found = compared(locked, [*locked, new, other])
    assert (found.compared, found.regressions) == (1, [])
    assert {(each.kernel, each.target) for each in found.unknown} == {
        ("new", "sm_90"),
        ("kept", "sm_80"),
    }


def test_the_changed_line_is_to_blame_in_other_specialisations_too() -> None:
    file = Path(__file__)
    first, second = (SourceLocation(str(file), line, 0) for line in (1, 3))
    texts = [file.read_text().splitlines()[line - 1] for line in (1, 3)]

    def with_lines(block: int, time: float, counts: tuple[int, int]) -> Entry:
        own = entry("add", block, projected_time=time)
        lines = {text: n for text, n in zip(texts, counts, strict=True) if n}
        return Entry(**{**vars(own), "lines": lines})

    now = with_lines(128, 9.0, (10, 2))
    lock = Lock(SCHEMA, dict(LIMITS), [with_lines(64, 5.0, (9, 0))])
    found = compare(lock, [CurrentCosts(entry=now, instructions={first: 10, second: 2})])
    assert [each.location for each in found.regressions] == [second]


def test_a_lock_that_is_written_again_keeps_no_specialisation_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "perf.lock"
    static = entry("signature", 64, registers=20)
    write_lock(path, [static, entry("add", 64, projected_time=1.0)])
    assert write_lock(path, [entry("add", 128, projected_time=1.0)]) == 2
    kept = {(each.kernel, each.parameters["BLOCK"]) for each in read_lock(path).kernels}
    assert kept == {("signature", "constant 64"), ("add", "constant 128")}
    # Of a signature alone, as of FILE.py:KERNEL, there may be several.
    assert write_lock(path, [entry("signature", 128, registers=20)]) == 3
