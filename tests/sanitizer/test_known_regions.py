"""Regions that are remembered are those that would be found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ttools.interpreter.region import NOWHERE, region_of
from ttools.sanitizer.known_regions import KnownRegions


def _same(x, y):
    pass


def _resized(x, y):
    x.resize_(3)


def _restrided(x, y):
    x.as_strided_((4, 2), (3, 1))


def _moved(x, y):
    x.set_(x.untyped_storage(), 2, (4,), (1,))


def _elsewhere(x, y):
    x.data = y


def _shrunk(x, y):
    x.untyped_storage().resize_(20)


def _grown(x, y):
    x.untyped_storage().resize_(200)


@pytest.mark.parametrize(
    "change", [_same, _resized, _restrided, _moved, _elsewhere, _shrunk, _grown]
)
def test_a_change_of_a_tensor_is_seen(change):
    x, y = torch.zeros(12), torch.zeros(5)
    launch: Any = SimpleNamespace(
        plan=SimpleNamespace(pointers={0, 2}), arguments=[x, 7, y], values=[x, 7, y]
    )
    found = []

    def find(index):
        found.append(index)
        return region_of(launch.arguments[index], launch.values[index])

    known = KnownRegions()
    first = known.regions(launch, find)
    change(x, y)
    again = known.regions(launch, find)
    assert list(again) == [region_of(x, x), NOWHERE, region_of(y, y)]
    assert (again is first) == (change is _same) == (found == [0, 2])


def test_what_is_no_tensor_is_looked_up_each_time():
    launch: Any = SimpleNamespace(
        plan=SimpleNamespace(pointers={0}), arguments=[4096], values=[4096]
    )
    found = []
    known = KnownRegions()
    for _ in range(2):
        known.regions(launch, lambda index: found.append(index) or NOWHERE)
    assert found == [0, 0]
