"""Shadows of elements in memory."""

from __future__ import annotations

import numpy as np

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


def test_shadows_of_freed_memory_are_forgotten() -> None:
    memory, dtype = ShadowMemory(), np.dtype(np.float32)
    memory.begin([(4096, 8192)])
    first = memory.find(np.array([4096, 8188]), dtype)
    assert first is not None
    assert memory.find(np.array([4096, 8192]), dtype) is None  # outside
    assert memory.find(np.array([4097]), dtype) is None  # not a whole element
    memory.begin([(4096, 8192)])
    assert memory.find(np.array([4096]), dtype) is first
    memory.begin([(4096, 6144)])
    memory.begin([(4096, 8192)])
    assert memory.find(np.array([4096]), dtype) is not first
