"""The clocks, temperature and power that a GPU has, as its driver reports them; never changed.

Needs `nvidia-ml-py` (the extra `ttools-tuner[gpu]`); without it nothing is recorded.
"""

from __future__ import annotations

from typing import Any


class Conditions:
    """The conditions of the current GPU."""

    def __init__(self) -> None:
        self._library, self._handle = _open()

    def read(self) -> dict[str, float] | None:
        """Those of now in MHz, degrees Celsius and watts; None where the driver reports none."""
        library = self._library
        if library is None:
            return None
        try:
            return {
                "sm_mhz": library.nvmlDeviceGetClockInfo(self._handle, library.NVML_CLOCK_SM),
                "memory_mhz": library.nvmlDeviceGetClockInfo(self._handle, library.NVML_CLOCK_MEM),
                "celsius": library.nvmlDeviceGetTemperature(
                    self._handle, library.NVML_TEMPERATURE_GPU
                ),
                "watts": library.nvmlDeviceGetPowerUsage(self._handle) / 1000,
            }
        except library.NVMLError:
            return None


def _open() -> tuple[Any, Any]:
    try:
        import pynvml
        import torch
    except ImportError:
        return None, None
    try:
        pynvml.nvmlInit()
        # By its identity: the order of devices is the program's own.
        identity = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{identity}")
    except (pynvml.NVMLError, RuntimeError, AssertionError, AttributeError):
        return None, None
