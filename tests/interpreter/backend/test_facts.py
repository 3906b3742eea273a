"""Tests of the facts about a launch: which parameters it does not write."""

from __future__ import annotations

from itertools import product

import torch

from ttools.core.spec import storage_extent
from ttools.interpreter.abi.facts import FactFinder
from ttools.interpreter.abi.module import MemoryEffects
from ttools.interpreter.run.device_copies import has_device_memory


def effects(*written: int, unknown: bool = False) -> MemoryEffects:
    return MemoryEffects(frozenset(written), synchronises=False, unknown_writes=unknown)


def test_extent_is_the_whole_storage() -> None:
    x = torch.zeros(10, 10)
    view = x[2:4, 3:5]
    assert storage_extent(view) == (x.data_ptr(), x.data_ptr() + 400)
    assert storage_extent(None) == (0, 0)
    assert storage_extent(x.data_ptr()) is None


def test_objects_that_are_their_own_storage() -> None:
    class Pointer:
        def data_ptr(self) -> int:
            return 64

        def untyped_storage(self) -> Pointer:
            return self

    assert storage_extent(Pointer()) is None


def test_reinterpreted_tensors_have_their_base_s_extent() -> None:
    import triton

    x = torch.zeros(16, dtype=torch.int8)
    assert storage_extent(triton.reinterpret(x, triton.language.int8)) == storage_extent(x)


def test_every_arrangement_of_three_arguments_over_two_storages() -> None:
    storages = [torch.zeros(8), torch.zeros(8)]
    finder = FactFinder(effects(2), frozenset({0, 1, 2}))
    for choice in product(range(2), repeat=3):
        values = [storages[c] for c in choice]
        expected = {i for i in (0, 1) if choice[i] != choice[2]}
        assert finder.facts(values).readonly == expected


def test_facts_are_computed_for_each_launch() -> None:
    storages = [torch.zeros(8) for _ in range(7)]
    finder = FactFinder(effects(1), frozenset({0, 1}))
    for _ in range(2):
        for x, y in product(storages, repeat=2):
            assert finder.facts([x, y]).readonly == (frozenset() if x is y else {0})


def test_raw_addresses_may_overlap_everything() -> None:
    x, y = torch.zeros(8), torch.zeros(8)
    finder = FactFinder(effects(1), frozenset({0, 1}))
    assert finder.facts([x.data_ptr(), y]).readonly == frozenset()
    assert finder.facts([x, y.data_ptr()]).readonly == frozenset()
    assert finder.facts([x, y]).readonly == {0}


def test_unknown_writes_leave_nothing_readonly() -> None:
    finder = FactFinder(effects(1, unknown=True), frozenset({0, 1}))
    assert finder.facts([torch.zeros(8), torch.zeros(8)]).readonly == frozenset()


def test_parameters_of_a_kernel_without_stores_are_readonly() -> None:
    finder = FactFinder(effects(), frozenset({0}))
    assert finder.facts([torch.zeros(8)]).readonly == {0}


def test_a_cpu_build_has_no_device_memory() -> None:
    assert has_device_memory() == torch.cuda.is_available()
