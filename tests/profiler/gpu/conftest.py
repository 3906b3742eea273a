"""Makes Triton's driver that of the CPU for the tests of this folder, also on GPU machines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ttools.core import triton_versions

#: Triton caches compiled kernels by device number, so that this number must differ from a GPU's.
_DEVICE = -1


@pytest.fixture(autouse=True)
def cpu_launches() -> Iterator[None]:
    """Activate the CPU's driver in place of a GPU's."""
    config, before = triton_versions.driver_config(), triton_versions.active_driver()
    # Triton imports this module when it looks for drivers, and has to do so first.
    from ttools.interpreter.backend.driver import CPUDriver

    if isinstance(before, CPUDriver):
        yield
        return
    config.set_active(CPUDriver(_DEVICE))
    try:
        yield
    finally:
        config.set_active(before)
