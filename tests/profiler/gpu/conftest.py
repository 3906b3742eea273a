"""Launches of these tests are made by the CPU's driver, also on a machine with a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ttools.core import triton_versions

#: Triton knows compiled kernels by the number of their device: another one than a GPU's.
_DEVICE = -1


@pytest.fixture(autouse=True)
def cpu_launches() -> Iterator[None]:
    """Make the CPU's driver Triton's active one, so that it stands in for that of a GPU."""
    config, before = triton_versions.driver_config(), triton_versions.active_driver()
    # Triton imports the module itself when it looks for drivers, and has to be the first.
    from ttools.interpreter.backend.driver import CPUDriver

    if isinstance(before, CPUDriver):
        yield
        return
    config.set_active(CPUDriver(_DEVICE))
    try:
        yield
    finally:
        config.set_active(before)
