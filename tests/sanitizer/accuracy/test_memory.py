"""Shadows of elements in memory."""

from __future__ import annotations

import numpy as np
import pytest

from ttools.sanitizer.accuracy import memory
from ttools.sanitizer.accuracy.memory import ShadowMemory, StorageShadow
from ttools.sanitizer.accuracy.shadow import Shadow, with_row


def _stored() -> tuple[np.ndarray, StorageShadow]:
    array = np.zeros(1000, np.float32)
    start = array.ctypes.data
    shadow = StorageShadow(start, start + array.nbytes, array.dtype)
    lanes = np.array([3, 700], np.int64)
    array[lanes] = [1.5, 2.5]
    rows = with_row(None, 0, np.array([0.25, 0.5]))
    shadow.store_lanes(start + 4 * lanes, Shadow(np.array([1.25, 2.0]), rows), 1, 0)
    return array, shadow


def test_an_element_keeps_its_shadow_until_its_bytes_change() -> None:
    array, shadow = _stored()
    addresses = array.ctypes.data + 4 * np.array([2, 3, 700])
    found = shadow.load(addresses)
    assert found is not None
    assert found[0].tolist() == [False, True, True]
    assert found[1].exact.tolist()[1:] == [1.25, 2.0]
    assert found[1].row(0).tolist()[1:] == [0.25, 0.5]
    array[700] = 7.0
    found = shadow.load(addresses)
    assert found is not None
    assert found[0].tolist() == [False, True, False]
    assert shadow.load(addresses[:1]) is None


def test_a_second_store_replaces_the_shadow() -> None:
    array, shadow = _stored()
    addresses = array.ctypes.data + 4 * np.array([3], np.int64)
    shadow.store_lanes(addresses, Shadow(np.array([9.0])), 2, 1)
    found = shadow.load(addresses)
    assert found is not None
    assert found[1].exact.tolist() == [9.0]
    assert found[1].row(0).tolist() == [0.0]
    assert shadow.count == 2
    assert shadow.launch[:2].tolist() == [2, 1]


def test_shadows_of_earlier_launches_are_dropped_if_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    array, shadow = _stored()
    monkeypatch.setattr(memory, "_LARGEST", shadow.rows.nbytes)
    lanes = np.arange(500, dtype=np.int64)
    for part in (lanes[:200], lanes[200:256]):
        shadow.store_lanes(array.ctypes.data + 4 * part, Shadow(1.0 * part), 2, 0)
    assert shadow.count == 256
    assert not shadow.is_full
    found = shadow.load(array.ctypes.data + 4 * np.array([3, 220, 700]))
    assert found is not None
    assert found[0].tolist() == [True, True, False]
    assert found[1].exact.tolist()[:2] == [3.0, 220.0]
    shadow.store_lanes(array.ctypes.data + 4 * lanes[256:], Shadow(1.0 * lanes[256:]), 2, 0)
    assert shadow.is_full


def test_exact_values_of_screened_launches_are_kept_until_their_bytes_change() -> None:
    array, shadow = _stored()
    exact = shadow.begin_screening(settled_error=0.0, is_loaded=True)
    assert np.flatnonzero(~np.isnan(exact)).tolist() == [3, 700]
    array[4:7] = [1.0, 2.0, 3.0]
    exact[4:7] = [1.5, 2.5, 3.5]
    shadow.end_screening(2)
    array[5] = 7.0
    exact = shadow.begin_screening(settled_error=0.0, is_loaded=True)
    assert np.flatnonzero(~np.isnan(exact)).tolist() == [3, 4, 6, 700]
    exact[4] = 9.0
    shadow.drop_screening()
    shadow.absorb()
    found = shadow.load(array.ctypes.data + 4 * np.array([3, 4, 5, 6]))
    assert found is not None
    assert found[0].tolist() == [True, True, False, True]
    assert found[1].exact[[0, 1, 3]].tolist() == [1.25, 1.5, 3.5]
    assert found[1].row(0)[0] == 0.25


def test_shadows_of_freed_memory_are_forgotten() -> None:
    shadows, dtype = ShadowMemory(), np.dtype(np.float32)
    shadows.begin([(4096, 8192)])
    first = shadows.find(np.array([4096, 8188]), dtype)
    assert first is not None
    assert shadows.find(np.array([4096, 8192]), dtype) is None  # outside
    assert shadows.find(np.array([4097]), dtype) is None  # not a whole element
    shadows.begin([(4096, 8192)])
    assert shadows.find(np.array([4096]), dtype) is first
    shadows.begin([(4096, 6144)])
    shadows.begin([(4096, 8192)])
    assert shadows.find(np.array([4096]), dtype) is not first


def test_arrays_of_freed_memory_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [np.zeros(64, np.float32) for _ in range(3)]
    extents = [(array.ctypes.data, array.ctypes.data + array.nbytes) for array in arrays]
    monkeypatch.setattr(memory, "_MOST_KEPT", 1)
    shadows, dtype, exact = ShadowMemory(), np.dtype(np.float32), []
    for extent in extents:
        shadows.begin([extent])
        shadow = shadows.of(extent, dtype)
        exact.append(shadow.begin_screening(settled_error=0.0, is_loaded=False))
        assert np.isnan(exact[-1]).all()
        exact[-1][:] = 1.0
        shadow.end_screening(1)
    assert exact[1] is exact[0]
    assert not shadows.may_know(extents[0], dtype)


def test_shadows_of_storages_that_no_longer_exist_are_dropped() -> None:
    shadows, dtype = ShadowMemory(), np.dtype(np.float32)
    array = np.zeros(64, np.float32)
    own, other = (array.ctypes.data, array.ctypes.data + array.nbytes), (64, 128)
    for live in ([], [own], [own], []):
        shadows.begin([own], lambda live=live: live)  # type: ignore[misc]
    shadow = shadows.of(own, dtype)
    shadow.begin_screening(settled_error=0.0, is_loaded=False)[:] = 1.0
    shadows.begin([other], lambda: [own])
    assert shadows.may_know(own, dtype)
    shadows.begin([other], list)
    assert not shadows.may_know(own, dtype)
