"""GPUs with their peak rates, as their makers publish them.

Rates are without sparsity. Sources: NVIDIA's data sheets of A100, H100, H200, L40S, A10 and T4, its
Blackwell architecture brief and the white papers of the Ada and Blackwell GeForce architectures;
AMD's data sheets of Instinct MI250X, MI300X and MI355X. Must not know any kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from ttools.core.errors import UsageError
from ttools.core.gpus.targets import Target, read_target

_T = 1e12


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU.

    Attributes:
        name: as users write it.
        architecture: `sm_90`, `gfx942`.
        bandwidth: of its memory, bytes per second.
        peaks: operations per second by unit, see `counting.costs`; `dot fp16` and so on for its
            matrix units.
    """

    name: str
    architecture: str
    bandwidth: float
    peaks: Mapping[str, float]

    @property
    def target(self) -> Target:
        """To compile for."""
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
    gigabytes: float,
    *,
    fp32: float,
    fp16_dot: float,
    tf32_dot: float | None = None,
    fp64: float | None = None,
    fp64_dot: float | None = None,
    fp8_dot: float | None = None,
    int8_dot: float | None = None,
) -> Device:
    """Rates in units of 10^12 operations and 10^9 bytes per second."""
    rates = {
        "fp64": fp64,
        "fp32": fp32,
        "dot fp64": fp64_dot,
        "dot tf32": tf32_dot,
        "dot fp16": fp16_dot,
        "dot fp8": fp8_dot,
        "dot int8": int8_dot,
    }
    return Device(
        name=name,
        architecture=architecture,
        bandwidth=gigabytes * 1e9,
        peaks={unit: rate * _T for unit, rate in rates.items() if rate is not None},
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

DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        _device("t4", "sm_75", 320, fp32=8.1, fp16_dot=65, int8_dot=130),
        _device(
            "a100",
            "sm_80",
            2039,
            fp64=9.7,
            fp32=19.5,
            fp64_dot=19.5,
            tf32_dot=156,
            fp16_dot=312,
            int8_dot=624,
        ),
        _device("a10", "sm_86", 600, fp32=31.2, fp16_dot=125, tf32_dot=62.5, int8_dot=250),
        _device("rtx3090", "sm_86", 936, fp32=35.6, fp16_dot=71, tf32_dot=35.6, int8_dot=284),
        _device("l40s", "sm_89", 864, fp32=91.6, fp16_dot=362, tf32_dot=183, fp8_dot=733),
        _device("rtx4090", "sm_89", 1008, fp32=82.6, fp16_dot=165, tf32_dot=82.6, fp8_dot=330),
        _device("h100", "sm_90", 3350, **_HOPPER),
        _device("h200", "sm_90", 4800, **_HOPPER),
        _device(
            "b200", "sm_100", 8000, fp64=37, fp32=75, tf32_dot=1100, fp16_dot=2250, fp8_dot=4500
        ),
        _device("rtx5090", "sm_120", 1792, fp32=104.8, fp16_dot=209.5, tf32_dot=104.8, fp8_dot=419),
        _device("mi250x", "gfx90a", 1638, fp64=23.9, fp32=23.9, fp64_dot=47.9, fp16_dot=191.5),
        _device(
            "mi300x",
            "gfx942",
            5300,
            fp64=81.7,
            fp32=163.4,
            fp64_dot=163.4,
            tf32_dot=653.7,
            fp16_dot=1307.4,
            fp8_dot=2614.9,
            int8_dot=2614.9,
        ),
        _device("mi355x", "gfx950", 8000, fp64=78.6, fp32=157.3, fp16_dot=2516, fp8_dot=5033),
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
