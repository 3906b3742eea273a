"""The fixture `mapped`, which maps CUDA devices to the CPU during a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ttools.core.device_map.mapping import map_devices


@pytest.fixture
def mapped() -> Iterator[None]:
    with map_devices({"cuda": "cpu"}):
        yield
