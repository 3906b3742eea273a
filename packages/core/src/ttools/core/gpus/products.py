"""The table of GPUs: rates, multiprocessors, bandwidth and caches, each row with its source.

Rates are without sparsity, and rates without a source are left out. The figures were compared with
the figures that other publications cite from the named documents. They were also checked for
consistency: a rate is the product of the operations per clock of a multiprocessor, the number of
multiprocessors and the clock rate. Figures that only secondary sources give are marked
`unconfirmed`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ttools.core.gpus.rates import Device


def _device(
    name: str,
    architecture: str,
    multiprocessors: int,
    gigabytes: float,
    mebibytes: int | None,
    memory: int,
    source: str,
    teraflops: Mapping[str, float],
    *,
    unconfirmed: str = "",
) -> Device:
    """Create a device from rates in 10^12 operations per second.

    Rates are named after their units: `fp32`, `fp16_dot` for `dot fp16`, and `fp16_dot_fp16` for
    the same products with fp16 sums.
    """
    return Device(
        name=name,
        architecture=architecture,
        multiprocessors=multiprocessors,
        bandwidth=gigabytes * 1e9,
        cache=mebibytes and mebibytes * 2**20,
        memory=memory * 2**30,
        peaks={_unit(unit): rate * 1e12 for unit, rate in teraflops.items()},
        source=source,
        unconfirmed=tuple(map(_unit, unconfirmed.split())),
    )


def _unit(name: str) -> str:
    if " " in name:
        return name  # the name already names a unit
    operand, dot, sums = (*name.split("_"), "", "")[:3]
    return f"{dot} {operand}".strip() + (f" ({sums} sums)" if sums else "")


def _geforce(
    fp32: float, fp16: float, *, tf32: float, int8: float, fp8: float | None = None
) -> dict[str, float]:
    """Return the rates of a GeForce, whose matrix units are twice as fast with fp16 sums."""
    rates = {"fp32": fp32, "fp16_dot": fp16, "fp16_dot_fp16": 2 * fp16, "bf16_dot": fp16}
    rates |= {"tf32_dot": tf32, "int8_dot": int8}
    return rates | ({"fp8_dot": fp8, "fp8_dot_fp16": 2 * fp8} if fp8 else {})


_T4 = {"fp32": 8.1, "fp16_dot": 65, "int8_dot": 130}
_A100 = {
    "fp64": 9.7,
    "fp32": 19.5,
    "fp64_dot": 19.5,
    "tf32_dot": 156,
    "fp16_dot": 312,
    "int8_dot": 624,
}
_A30 = {
    "fp64": 5.2,
    "fp32": 10.3,
    "fp64_dot": 10.3,
    "tf32_dot": 82,
    "fp16_dot": 165,
    "int8_dot": 330,
}
_A10 = {"fp32": 31.2, "tf32_dot": 62.5, "fp16_dot": 125, "int8_dot": 250}
_A40 = {"fp32": 37.4, "tf32_dot": 74.8, "fp16_dot": 149.7, "int8_dot": 299.3}
_L40S = {"fp32": 91.6, "tf32_dot": 183, "fp16_dot": 362, "fp8_dot": 733, "int8_dot": 733}
_L4 = {"fp32": 30.3, "tf32_dot": 60, "fp16_dot": 121, "fp8_dot": 242.5, "int8_dot": 242.5}
_HOPPER = {
    "fp64": 33.5,
    "fp32": 66.9,
    "fp64_dot": 66.9,
    "tf32_dot": 494.7,
    "fp16_dot": 989.4,
    "fp8_dot": 1978.9,
    "int8_dot": 1978.9,
}
#: The rates of atomics are not published; `benchmarks/atomics.py` measured them on an H100 SXM. The
#: GPU adds up integers of one warp before it sends them to the cache, but not floats.
_H100 = {
    **_HOPPER,
    "atomics on one address (f16)": 0.00101,
    "atomics on one address (bf16)": 0.00102,
    "atomics on one address (i32)": 0.0425,
    "atomics on one address (f32)": 0.000564,
    "atomics on one address (i64)": 0.0428,
    "atomics on one address (f64)": 0.000564,
}
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
_B200 = {
    "fp64": 37,
    "fp32": 75,
    "tf32_dot": 1100,
    "fp16_dot": 2250,
    "fp8_dot": 4500,
    "int8_dot": 4500,
}
#: On the B300, int8 products are 30 times slower than fp8 products.
_B300 = {
    "fp64": 1.25,
    "fp32": 75,
    "tf32_dot": 1125,
    "fp16_dot": 2250,
    "fp8_dot": 4500,
    "int8_dot": 150,
}
#: One of the two dies of a module; programs see each die as a separate device.
_MI250X = {
    "fp64": 23.9,
    "fp32": 23.9,
    "fp64_dot": 47.9,
    "fp32_dot": 47.9,
    "fp16_dot": 191.5,
    "int8_dot": 191.5,
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
_MI355X = {"fp64": 78.6, "fp32": 157.3, "fp16_dot": 2516, "fp8_dot": 5033, "int8_dot": 5033}

_GA102 = "NVIDIA Ampere GA102 white paper"
_ADA = "NVIDIA Ada white paper"
_HOPPER_PAPER = "NVIDIA H100 white paper, table 3"
_RTX_BLACKWELL = "NVIDIA RTX Blackwell white paper"
#: Source of rates that were computed: cores, clock and fp4 operations are from the card's product
#: page, and operations per clock and multiprocessor are those that the white paper gives for other
#: cards.
_BY_CLOCK = "NVIDIA's page of the card (cores, clock, AI TOPS), at the rates a clock of the "
_BLACKWELL_BRIEF = "NVIDIA Blackwell technical brief 2.1, table 3 (HGX B200 and B300)"
_CUDA = "; multiprocessors as CUDA reports them"

#: Devices by name; the first device of an architecture represents that architecture.
DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        # name, architecture, multiprocessors, GB/s, MiB of cache, GB of memory
        _device("t4", "sm_75", 40, 320, 4, 16, "NVIDIA T4 data sheet", _T4),
        _device(
            *("a100", "sm_80", 108, 2039, 40, 80),
            "NVIDIA A100 white paper, table 4; A100 80GB data sheet (SXM)",
            _A100,
        ),
        _device("a100-40gb", "sm_80", 108, 1555, 40, 40, "NVIDIA A100 white paper, table 4", _A100),
        _device(
            "a30", "sm_80", 56, 933, 24, 24, "NVIDIA A30 data sheet", _A30, unconfirmed="cache"
        ),
        _device("a10", "sm_86", 72, 600, 6, 24, f"NVIDIA A10 data sheet; {_GA102}", _A10),
        _device("a40", "sm_86", 84, 696, 6, 48, f"NVIDIA A40 data sheet; {_GA102}", _A40),
        _device(
            *("rtx3090", "sm_86", 82, 936, 6, 24),
            f"{_GA102}, appendix A, table 9",
            _geforce(35.6, 71, tf32=35.6, int8=284),
        ),
        _device("l40s", "sm_89", 142, 864, None, 48, "NVIDIA L40S data sheet", _L40S),
        _device(
            "l4",
            "sm_89",
            58,
            300,
            48,
            24,
            f"NVIDIA L4 data sheet; {_ADA}",
            _L4,
            unconfirmed="cache",
        ),
        _device(
            *("rtx4090", "sm_89", 128, 1008, 72, 24),
            f"{_ADA} 2.1, appendix A",
            _geforce(82.6, 165.2, tf32=82.6, fp8=330.3, int8=660.6),
        ),
        _device(
            *("h100", "sm_90", 132, 3350, 50, 80),
            f"{_HOPPER_PAPER}; H100 data sheet (SXM); atomics measured",
            _H100,
        ),
        _device(
            *("h100-pcie", "sm_90", 114, 2000, 50, 80),
            f"{_HOPPER_PAPER}; H100 data sheet of 2022 (PCIe)",
            _H100_PCIE,
        ),
        _device("h200", "sm_90", 132, 4800, 50, 141, f"{_HOPPER_PAPER}; H200 data sheet", _HOPPER),
        _device(
            *("h20", "sm_90", 78, 4000, None, 96),
            "not confirmed: press reports and pages of sellers; NVIDIA publishes no data sheet",
            _H20,
            unconfirmed=" ".join(("bandwidth", *_H20)),
        ),
        _device("b200", "sm_100", 148, 8000, None, 180, _BLACKWELL_BRIEF + _CUDA, _B200),
        _device("b300", "sm_103", 148, 8000, None, 288, _BLACKWELL_BRIEF + _CUDA, _B300),
        _device(
            *("rtx5090", "sm_120", 170, 1792, 96, 32),
            f"{_RTX_BLACKWELL}, table 3",
            _geforce(104.8, 209.5, tf32=104.8, fp8=419, int8=838),
        ),
        _device(
            *("rtx5080", "sm_120", 84, 960, 64, 16),
            _BY_CLOCK + _RTX_BLACKWELL.removeprefix("NVIDIA "),
            _geforce(56.3, 112.6, tf32=56.3, fp8=225.1, int8=450.2),
            unconfirmed="cache",
        ),
        _device(
            *("rtx5070-ti", "sm_120", 70, 896, 48, 16),
            _BY_CLOCK + _RTX_BLACKWELL.removeprefix("NVIDIA "),
            _geforce(43.9, 87.9, tf32=43.9, fp8=175.8, int8=351.5),
            unconfirmed="cache",
        ),
        _device(
            *("rtx5070", "sm_120", 48, 672, 48, 12),
            f"{_RTX_BLACKWELL}, table 6",
            _geforce(30.9, 61.7, tf32=30.9, fp8=123.5, int8=246.9),
            unconfirmed="cache",
        ),
        _device(
            *("mi250x", "gfx90a", 110, 1638, 8, 64),
            "AMD MI250X data sheet, half of a module; ROCm documentation, GPU specifications",
            _MI250X,
        ),
        _device(
            *("mi300x", "gfx942", 304, 5300, 256, 192),
            "AMD MI300X data sheet; ROCm documentation, GPU specifications",
            _MI300X,
        ),
        _device(
            *("mi325x", "gfx942", 304, 6000, 256, 256),
            "AMD MI325X data sheet; ROCm documentation, GPU specifications",
            _MI300X,
        ),
        _device(
            *("mi355x", "gfx950", 256, 8000, 256, 288),
            "AMD MI355X brochure; ROCm documentation, GPU specifications",
            _MI355X,
        ),
    )
}
