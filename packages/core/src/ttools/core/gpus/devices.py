"""GPUs by name: rates, multiprocessors and caches, as their makers publish them.

Rates are without sparsity. Sources: NVIDIA's data sheets of A100, H100, H200, L40S, A10 and T4, its
Blackwell architecture brief and the white papers of the Turing, Ampere, Hopper, Ada and Blackwell
GeForce architectures; AMD's data sheets of Instinct MI250X, MI300X and MI355X, and the white papers
of CDNA 2, 3 and 4. What one multiprocessor has is in `targets.py`. Must not know any kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from ttools.core.errors import UsageError
from ttools.core.gpus.targets import Target, read_target


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU.

    Attributes:
        name: as users write it.
        architecture: `sm_90`, `gfx942`.
        multiprocessors: or compute units.
        bandwidth: of its memory, bytes per second.
        cache: bytes of the last level; None if its maker does not say.
        peaks: operations per second by unit: `fp32`, and `dot fp16` and so on for its matrix units.
    """

    name: str
    architecture: str
    multiprocessors: int
    bandwidth: float
    cache: int | None
    peaks: Mapping[str, float]

    @property
    def target(self) -> Target:
        """The target to compile for."""
        return read_target(self.architecture)

    def peak(self, unit: str) -> float | None:
        """Operations per second of a unit; of a close one where it has none of its own."""
        for name in (unit, *_STAND_INS.get(unit, ())):
            if name in self.peaks:
                return self.peaks[name]
        return None


#: Units that do the work of others: bf16 at the rate of fp16, fp32 products as tf32, and so on.
_STAND_INS: dict[str, tuple[str, ...]] = {
    "fp16": ("fp32",),
    "bf16": ("fp16", "fp32"),
    "dot bf16": ("dot fp16",),
    "dot fp32": ("dot tf32", "fp32"),
    "dot fp64": ("fp64",),
    "dot i8": ("dot int8", "dot fp8"),
    **{f"dot {name}": ("dot fp8", "dot fp16") for name in ("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ")},
}


def _device(
    name: str,
    architecture: str,
    multiprocessors: int,
    gigabytes: float,
    mebibytes: int | None,
    **teraflops: float,
) -> Device:
    """A device by its bandwidth in GB/s, its cache in MiB and its rates in 10^12 per second.

    A rate is named after its unit: `fp32`, and `fp16_dot` for `dot fp16`.
    """
    named = {" ".join(reversed(unit.split("_"))): rate * 1e12 for unit, rate in teraflops.items()}
    return Device(
        name=name,
        architecture=architecture,
        multiprocessors=multiprocessors,
        bandwidth=gigabytes * 1e9,
        cache=mebibytes and mebibytes * 2**20,
        peaks=named,
    )


_HOPPER = {
    "fp64": 33.5,
    "fp32": 66.9,
    "fp64_dot": 66.9,
    "tf32_dot": 494.7,
    "fp16_dot": 989.4,
    "fp8_dot": 1978.9,
    "int8_dot": 1978.9,
}
_A100 = {
    "fp64": 9.7,
    "fp32": 19.5,
    "fp64_dot": 19.5,
    "tf32_dot": 156,
    "fp16_dot": 312,
    "int8_dot": 624,
}
_MI300X = {
    "fp64": 81.7,
    "fp32": 163.4,
    "fp64_dot": 163.4,
    "tf32_dot": 653.7,
    "fp16_dot": 1307.4,
    "fp8_dot": 2614.9,
    "int8_dot": 2614.9,
}
_B200 = {"fp64": 37, "fp32": 75, "tf32_dot": 1100, "fp16_dot": 2250, "fp8_dot": 4500}
_RTX5090 = {"fp32": 104.8, "fp16_dot": 209.5, "tf32_dot": 104.8, "fp8_dot": 419}
_MI250X = {"fp64": 23.9, "fp32": 23.9, "fp64_dot": 47.9, "fp16_dot": 191.5}
_MI355X = {"fp64": 78.6, "fp32": 157.3, "fp16_dot": 2516, "fp8_dot": 5033}
_RTX4090 = {"fp32": 82.6, "fp16_dot": 165, "tf32_dot": 82.6, "fp8_dot": 330}
_RTX3090 = {"fp32": 35.6, "fp16_dot": 71, "tf32_dot": 35.6, "int8_dot": 284}
_L40S = {"fp32": 91.6, "fp16_dot": 362, "tf32_dot": 183, "fp8_dot": 733}
_A10 = {"fp32": 31.2, "fp16_dot": 125, "tf32_dot": 62.5, "int8_dot": 250}
_T4 = {"fp32": 8.1, "fp16_dot": 65, "int8_dot": 130}

#: By name; the first of an architecture stands for it.
DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        # name, architecture, multiprocessors, GB/s, MiB of cache
        _device("t4", "sm_75", 40, 320, 4, **_T4),
        _device("a100", "sm_80", 108, 2039, 40, **_A100),
        _device("a10", "sm_86", 72, 600, 6, **_A10),
        _device("rtx3090", "sm_86", 82, 936, 6, **_RTX3090),
        _device("l40s", "sm_89", 142, 864, None, **_L40S),
        _device("rtx4090", "sm_89", 128, 1008, 72, **_RTX4090),
        _device("h100", "sm_90", 132, 3350, 50, **_HOPPER),
        _device("h200", "sm_90", 132, 4800, 50, **_HOPPER),
        _device("b200", "sm_100", 148, 8000, None, **_B200),
        _device("rtx5090", "sm_120", 170, 1792, 96, **_RTX5090),
        _device("mi250x", "gfx90a", 104, 1638, 8, **_MI250X),
        _device("mi300x", "gfx942", 304, 5300, 256, **_MI300X),
        _device("mi355x", "gfx950", 256, 8000, 256, **_MI355X),
    )
}


def read_device(text: str) -> Device:
    """A GPU by name: `h100`, `RTX 4090`, `NVIDIA H200`.

    Raises:
        UsageError: there is none of that name in the table; the closest are named.
    """
    word = _plain(text)
    if word not in DEVICES:
        close = get_close_matches(word, DEVICES, cutoff=0.5) or list(DEVICES)
        raise UsageError(f"there is no device `{text}` in the table; choose {', '.join(close)}")
    return DEVICES[word]


def device_of_machine() -> Device | None:
    """The GPU that torch uses here; None if it is not in the table."""
    import torch

    if not torch.cuda.is_available():
        return None
    return device_called(torch.cuda.get_device_name())


def device_called(text: str) -> Device | None:
    """A GPU by what its driver calls it, as `NVIDIA H100 80GB HBM3`; None if it is unknown."""
    word = _plain(text)
    found = [name for name in DEVICES if word.startswith(name)]
    return DEVICES[max(found, key=len)] if found else None


def _plain(text: str) -> str:
    word = text.lower().replace(" ", "").replace("-", "").replace("_", "")
    for maker in ("nvidia", "amd", "geforce", "instinct", "tesla"):
        word = word.replace(maker, "")
    return word


def read_gpu(text: str) -> Device:
    """A device by its name (`h100`) or by its architecture (`sm_90`).

    Raises:
        UsageError: none of that name is known.
    """
    if not re.match(r"(?i)(cuda:|hip:|sm_?\d|gfx|\d+a?$)", text.strip()):
        return read_device(text)
    target = read_target(text)
    for device in DEVICES.values():
        if device.architecture == target.name:
            return device
    known = ", ".join(dict.fromkeys(each.architecture for each in DEVICES.values()))
    raise UsageError(f"no rates are known of a device with {target.name}; choose from {known}")
