"""The module in which Triton looks for the driver of the CPU backend."""

from __future__ import annotations

from triton.backends.driver import DriverBase

from ttools_triton import find

CPUDriver = find("driver", "CPUDriver", DriverBase)
