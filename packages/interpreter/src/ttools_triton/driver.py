"""The driver half of the plugin, where Triton looks for it."""

from __future__ import annotations

from triton.backends.driver import DriverBase

from ttools_triton import find

CPUDriver = find("driver", "CPUDriver", DriverBase)
