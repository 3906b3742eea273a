"""What makers publish of their GPUs: rates, multiprocessors and caches, each row with its source.

Rates are without sparsity, in operations per second; a rate that no source gives is left out. Units
that do a fixed part of what others do come from NVIDIA's CUDA C++ Programming Guide, table
"Throughput of Native Arithmetic Instructions". Must not know how users name a device.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

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
        peaks: operations per second by unit: `fp32`, and `dot fp16` and so on for its matrix units,
            `dot fp16 (fp16 sums)` where they are faster if they sum in 16 bits.
        source: where its maker says so.
    """

    name: str
    architecture: str
    multiprocessors: int
    bandwidth: float
    cache: int | None
    peaks: Mapping[str, float]
    source: str = ""

    @property
    def target(self) -> Target:
        """The target to compile for."""
        return read_target(self.architecture)

    def peak(self, unit: str) -> float | None:
        """Operations per second of a unit; of a close one where it has none of its own."""
        for name in (unit, *_STAND_INS.get(unit, ())):
            if name in self.peaks:
                return self.peaks[name]
        if several := re.fullmatch(r"(dot \w+)x(\d)", unit):  # products of parts, as of `tf32x3`
            rate = self.peak(several[1])
            return rate / int(several[2]) if rate else None
        if unit.endswith(_SUMS):
            return self.peak(unit.removesuffix(_SUMS))
        if unit == "function" and self.architecture in _FUNCTIONS:
            return self.peaks["fp32"] * _FUNCTIONS[self.architecture]
        if unit == "integer":
            return self.peaks["fp32"] * _INTEGERS.get(self.architecture, 1)
        return None


_SUMS = " (fp16 sums)"
#: Results of special-function units (reciprocals, roots, sines, powers and logarithms to base 2)
#: as a part of the operations of fp32: 16 a clock beside 64 or 128 fused products of two each.
#: What takes no such unit takes eight instructions or more.
_FUNCTIONS = {
    **dict.fromkeys(("sm_75", "sm_80"), 16 / (2 * 64)),
    **dict.fromkeys(("sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120"), 16 / (2 * 128)),
}
#: Operations on 32-bit integers as multiples of those of fp32: what a multiprocessor can issue,
#: 128 lanes a clock, each of which does two at most (a product and a sum, three of logic or sum).
#: The units themselves are slower, by how much depends on which they are.
_INTEGERS = dict.fromkeys(("sm_75", "sm_80"), 2)
_FP8 = ("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ")
#: Units that do the work of others: bf16 at the rate of fp16, fp32 products as tf32, and so on.
_STAND_INS: dict[str, tuple[str, ...]] = {
    "fp16": ("fp32",),
    "bf16": ("fp16", "fp32"),
    "dot bf16": ("dot fp16",),
    "dot fp32": ("dot tf32", "fp32"),
    "dot fp64": ("fp64",),
    "dot i8": ("dot int8", "dot fp8"),
    **{f"dot {name}": ("dot fp8", "dot fp16") for name in _FP8},
    **{
        f"dot {name} (fp16 sums)": ("dot fp8 (fp16 sums)", "dot fp8", "dot fp16 (fp16 sums)")
        for name in _FP8
    },
}


def _device(
    name: str,
    architecture: str,
    multiprocessors: int,
    gigabytes: float,
    mebibytes: int | None,
    source: str,
    **teraflops: float,
) -> Device:
    """A device by its bandwidth in GB/s, its cache in MiB and its rates in 10^12 per second.

    A rate is named after its unit: `fp32`, `fp16_dot` for `dot fp16`, and `fp16_dot_fp16` for
    that with sums of fp16.
    """
    named = {_unit(unit): rate * 1e12 for unit, rate in teraflops.items()}
    return Device(
        name=name,
        architecture=architecture,
        multiprocessors=multiprocessors,
        bandwidth=gigabytes * 1e9,
        cache=mebibytes and mebibytes * 2**20,
        peaks=named,
        source=source,
    )


def _unit(name: str) -> str:
    operand, dot, sums = (*name.split("_"), "", "")[:3]
    return f"{dot} {operand}".strip() + (f" ({sums} sums)" if sums else "")


def _geforce(
    fp32: float, fp16: float, *, tf32: float, int8: float, fp8: float | None = None
) -> dict[str, float]:
    """The rates of a GeForce, whose matrix units are twice as fast if they sum in fp16."""
    rates = {"fp32": fp32, "fp16_dot": fp16, "fp16_dot_fp16": 2 * fp16, "bf16_dot": fp16}
    rates |= {"tf32_dot": tf32, "int8_dot": int8}
    return rates | ({"fp8_dot": fp8, "fp8_dot_fp16": 2 * fp8} if fp8 else {})


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
_B300 = {"fp64": 1.25, "fp32": 75, "tf32_dot": 1125, "fp16_dot": 2250, "fp8_dot": 4500}
_RTX5090 = _geforce(104.8, 209.5, tf32=104.8, fp8=419, int8=838)
_RTX5080 = _geforce(56.3, 112.6, tf32=56.3, fp8=225.1, int8=450.2)
_RTX5070TI = _geforce(43.9, 87.9, tf32=43.9, fp8=175.8, int8=351.5)
_RTX5070 = _geforce(30.9, 61.7, tf32=30.9, fp8=123.5, int8=246.9)
_MI250X = {"fp64": 23.9, "fp32": 23.9, "fp64_dot": 47.9, "fp16_dot": 191.5}
_MI355X = {"fp64": 78.6, "fp32": 157.3, "fp16_dot": 2516, "fp8_dot": 5033}
_RTX4090 = _geforce(82.6, 165.2, tf32=82.6, fp8=330.3, int8=660.6)
_RTX3090 = _geforce(35.6, 71, tf32=35.6, int8=284)
_L40S = {"fp32": 91.6, "fp16_dot": 362, "tf32_dot": 183, "fp8_dot": 733, "int8_dot": 733}
_L4 = {"fp32": 30.3, "fp16_dot": 121, "tf32_dot": 60, "fp8_dot": 242.5, "int8_dot": 242.5}
_A30 = {
    "fp64": 5.2,
    "fp32": 10.3,
    "fp64_dot": 10.3,
    "tf32_dot": 82,
    "fp16_dot": 165,
    "int8_dot": 330,
}
_A40 = {"fp32": 37.4, "fp16_dot": 149.7, "tf32_dot": 74.8, "int8_dot": 299.3}
_H100_PCIE = {
    "fp64": 25.6,
    "fp32": 51.2,
    "fp64_dot": 51.2,
    "tf32_dot": 378,
    "fp16_dot": 756.5,
    "fp8_dot": 1513,
    "int8_dot": 1513,
}
_H20 = {
    "fp64": 1,
    "fp32": 44,
    "tf32_dot": 74,
    "fp16_dot": 148,
    "fp8_dot": 296,
    "int8_dot": 296,
}
_A10 = {"fp32": 31.2, "fp16_dot": 125, "tf32_dot": 62.5, "int8_dot": 250}
_T4 = {"fp32": 8.1, "fp16_dot": 65, "int8_dot": 130}

#: By name; the first of an architecture stands for it.
DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        # name, architecture, multiprocessors, GB/s, MiB of cache
        _device(
            "t4", "sm_75", 40, 320, 4, "NVIDIA: data sheet of the T4, Turing white paper", **_T4
        ),
        _device(
            "a100",
            "sm_80",
            108,
            2039,
            40,
            "NVIDIA: data sheet of the A100 (80 GB), Ampere white paper",
            **_A100,
        ),
        _device(
            "a100-40gb", "sm_80", 108, 1555, 40, "NVIDIA: data sheet of the A100 (40 GB)", **_A100
        ),
        _device("a30", "sm_80", 56, 933, 24, "NVIDIA: data sheet of the A30", **_A30),
        _device("a10", "sm_86", 72, 600, 6, "NVIDIA: data sheet of the A10", **_A10),
        _device("a40", "sm_86", 84, 696, 6, "NVIDIA: data sheet of the A40", **_A40),
        _device("rtx3090", "sm_86", 82, 936, 6, "NVIDIA: white paper of GA102", **_RTX3090),
        _device("l40s", "sm_89", 142, 864, None, "NVIDIA: data sheet of the L40S", **_L40S),
        _device("l4", "sm_89", 58, 300, 48, "NVIDIA: data sheet of the L4, Ada white paper", **_L4),
        _device(
            "rtx4090", "sm_89", 128, 1008, 72, "NVIDIA: Ada white paper, appendix A", **_RTX4090
        ),
        _device(
            "h100",
            "sm_90",
            132,
            3350,
            50,
            "NVIDIA: Hopper white paper, data sheet of the H100 SXM",
            **_HOPPER,
        ),
        _device(
            "h100-pcie",
            "sm_90",
            114,
            2000,
            50,
            "NVIDIA: Hopper white paper, data sheet of the H100 PCIe",
            **_H100_PCIE,
        ),
        _device(
            "h200",
            "sm_90",
            132,
            4800,
            50,
            "NVIDIA: Hopper white paper, data sheet of the H200",
            **_HOPPER,
        ),
        _device("h20", "sm_90", 78, 4000, None, "press reports of NVIDIA's specification", **_H20),
        _device("b200", "sm_100", 148, 8000, None, "NVIDIA: Blackwell architecture brief", **_B200),
        _device(
            "b300",
            "sm_103",
            148,
            8000,
            None,
            "NVIDIA: data sheet of HGX B300; multiprocessors as CUDA tells them",
            **_B300,
        ),
        _device(
            "rtx5090",
            "sm_120",
            170,
            1792,
            96,
            "NVIDIA: RTX Blackwell white paper, appendix A",
            **_RTX5090,
        ),
        _device(
            "rtx5080",
            "sm_120",
            84,
            960,
            64,
            "NVIDIA: RTX Blackwell white paper, appendix A",
            **_RTX5080,
        ),
        _device(
            "rtx5070-ti",
            "sm_120",
            70,
            896,
            48,
            "NVIDIA: RTX Blackwell white paper, appendix A",
            **_RTX5070TI,
        ),
        _device(
            "rtx5070",
            "sm_120",
            48,
            672,
            48,
            "NVIDIA: RTX Blackwell white paper, appendix A",
            **_RTX5070,
        ),
        _device(
            "mi250x",
            "gfx90a",
            104,
            1638,
            8,
            "AMD: data sheet of the MI250X, CDNA 2 white paper",
            **_MI250X,
        ),
        _device(
            "mi300x",
            "gfx942",
            304,
            5300,
            256,
            "AMD: data sheet of the MI300X, CDNA 3 white paper",
            **_MI300X,
        ),
        _device("mi325x", "gfx942", 304, 6000, 256, "AMD: data sheet of the MI325X", **_MI300X),
        _device(
            "mi355x",
            "gfx950",
            256,
            8000,
            256,
            "AMD: data sheet of the MI355X, CDNA 4 white paper",
            **_MI355X,
        ),
    )
}
