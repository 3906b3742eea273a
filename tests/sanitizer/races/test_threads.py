"""Races between the threads of one program."""

from __future__ import annotations

import pytest
from race_launches import Launch

from ttools.sanitizer.races import Site, find_conflicts


def found(launch):
    return [(c.kind, c.first.site, c.second.site) for c in find_conflicts(*_input(launch))]


def _input(launch):
    return launch.records()[0], launch.sites


def store_then(site, *, barrier=False, stored=(32,), lane=0):
    launch = Launch([Site("store", 4, stored), site])
    launch.access(0, 0, 0, elements=min(8, launch.sites[0].numel))
    if barrier:
        launch.barrier(0)
    launch.access(0, 1, 0, elements=min(8, site.numel), lane=lane)
    return launch


RACE = [("intra_program_race", 0, 1)]


@pytest.mark.parametrize("kind", ["load", "store", "atomic"])
def test_another_shape_is_another_thread(kind):
    assert found(store_then(Site(kind, 4, (4, 8)))) == RACE
    assert found(store_then(Site(kind, 4, (4, 8)), barrier=True)) == []


def test_the_same_lane_of_the_same_shape_is_the_same_thread():
    assert found(store_then(Site("load", 4, (32,)))) == []
    assert found(store_then(Site("load", 4, (32,)), lane=1)) == RACE


def test_dimensions_of_one_make_another_shape():
    assert found(store_then(Site("load", 4, (1, 32)))) == RACE
    assert found(store_then(Site("load", 4, (1, 32)), stored=(1, 32))) == []
    assert found(store_then(Site("load", 4, (1, 32)), stored=(32, 1))) == RACE


def test_a_scalar_store_is_made_by_one_thread_and_a_tile_read_by_many():
    assert found(store_then(Site("load", 4, (32,)), stored=())) == RACE
    assert found(store_then(Site("load", 4, ()))) == RACE
    assert found(store_then(Site("load", 4, ()), stored=())) == []


def test_another_element_size_is_another_layout():
    assert found(store_then(Site("load", 2, (32,)))) == RACE


def test_a_store_races_with_loads_of_other_threads():
    for shape, kinds in (((4, 8), RACE), ((32,), [])):
        launch = Launch([Site("load", 4, shape), Site("store", 4, (32,))])
        launch.access(0, 0, 0, elements=8)
        launch.access(0, 1, 0, elements=8)
        assert found(launch) == kinds
        launch.barrier(0)
        launch.access(0, 1, 64, elements=8)
        assert found(launch) == kinds


@pytest.mark.parametrize("kind", ["load", "store", "atomic"])
def test_loads_may_overtake_a_tile_of_atomics(kind):
    launch = Launch([Site("atomic", 4, (32,)), Site(kind, 4, (4, 8))])
    launch.access(0, 0, 0, elements=8)
    launch.access(0, 1, 0, elements=8)
    assert found(launch) == (RACE if kind == "load" else [])
    launch = Launch([Site("atomic", 4), Site(kind, 4, (32,))])
    launch.access(0, 0, 0)
    launch.access(0, 1, 0, elements=8)
    assert found(launch) == []


def test_the_witness_is_a_pair_of_different_threads():
    launch = Launch([Site("store", 4, (32,)), Site("load", 4, (32,))])
    for lane in (0, 1):
        launch.access(0, 0, 0, lane=lane)
    launch.access(0, 1, 0, lane=0)
    (conflict,) = find_conflicts(*_input(launch))
    assert (conflict.first.lane, conflict.second.lane) == (1, 0)


def test_the_witness_is_the_lowest_program_and_address():
    launch = Launch([Site("store", 4, (32,)), Site("load", 4, (4, 8))])
    for program in (2, 1):
        base = 1024 * program
        launch.access(program, 0, base, elements=8)
        launch.access(program, 1, base + 16, elements=8, lane=8)
    (conflict,) = find_conflicts(*_input(launch))
    assert (conflict.count, conflict.programs) == (8, 2)
    assert (conflict.first.program, conflict.second.program) == (1, 1)
    assert (conflict.first.address, conflict.first.lane, conflict.second.lane) == (1040, 4, 8)
    assert (conflict.start, conflict.end) == (1040, 1044)
