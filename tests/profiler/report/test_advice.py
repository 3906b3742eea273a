"""Advice: each hint is given for the kernel that needs it and not once it was followed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from ttools.profiler import Profile, profile

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def pairs() -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import advice_pairs
    finally:
        sys.path.remove(str(BENCHMARKS))
    return advice_pairs


#: Of each hint: a part of the line that it must name, empty for the kernel as a whole; its number.
GIVEN = {
    "uncoalesced_access": ("total += tl.load(x_ptr + rows", 32.0),
    "narrow_access": ("tl.load(x_ptr + begin", 16.0),
    "spilling": ("", None),
    "occupancy_by_shared_memory": ("", 0.0625),
    "matrix_units_unused": ("total = tl.dot(", None),
    "mask_overhead": ("x = tl.load(x_ptr + row * columns", 1 - 520 / 1024),
    "loaded_again": ("weight = tl.load(weight_ptr", 16.0),
}


def profiled(launch: Any) -> Profile:
    with profile(target="sm_90") as prof:
        launch.run()
    return prof


#: Compiling them for a GPU takes a while.
SLOW = ("spilling", "occupancy_by_shared_memory", "matrix_units_unused")


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] if k in SLOW else []) for k in GIVEN]
)
def test_hints_before_and_after(pairs: ModuleType, kind: str) -> None:
    (pair,) = [each for each in pairs.PAIRS if each.kind == kind]
    before, after = pair.make("cpu", True)
    first = [hint for hint in profiled(before).advice if hint.kind == kind]
    assert first
    text, number = GIVEN[kind]
    place = first[0].location
    assert (place is None) == (text == "")
    if place is not None:
        assert text in Path(place.file).read_text().splitlines()[place.line - 1]
    if number is not None:
        assert first[0].number == pytest.approx(number)
    assert not [hint for hint in profiled(after).advice if hint.kind == kind]
    torch.testing.assert_close(before.out, after.out, rtol=1e-2, atol=1e-2)


def test_every_kind_has_a_pair(pairs: ModuleType) -> None:
    assert {pair.kind for pair in pairs.PAIRS} == set(GIVEN)


def test_without_a_target_there_is_no_advice(pairs: ModuleType) -> None:
    before, _ = pairs.PAIRS[0].make("cpu", True)
    with profile() as prof:
        before.run()
    assert prof.advice == []


def test_each_specialisation_is_looked_at(pairs: ModuleType) -> None:
    before, after = pairs.PAIRS[0].make("cpu", True)
    with profile(target="sm_90") as prof:
        for launch in (after, before, after):
            launch.run()
    assert {hint.kind for hint in prof.advice} >= {"uncoalesced_access"}
    # Both request the same, so accesses are those of the first, which moves no sectors in vain.
    assert set(prof.accesses["efficiency"]) == {1.0}
    assert len(prof.inspections) == 2
