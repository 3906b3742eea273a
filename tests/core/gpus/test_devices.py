"""Tests of the table of devices: names that users and drivers use, and published rates."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ttools.core.errors import UsageError
from ttools.core.gpus.devices import (
    DEVICES,
    Device,
    device_called,
    one_gpu,
    read_device,
    read_device_file,
    read_gpu,
)
from ttools.core.gpus.targets import ARCHITECTURES


@pytest.mark.parametrize(
    ("text", "name"), [("h100", "h100"), ("RTX 4090", "rtx4090"), ("sm_90", "h100"), ("80", "a100")]
)
def test_gpus_by_name_and_architecture(text: str, name: str) -> None:
    assert read_device(text).name == name


def test_gpus_without_rates_are_named() -> None:
    assert read_gpu("sm_87").device is None
    with pytest.raises(UsageError, match="the peak rates of GPUs with sm_87 are not known"):
        read_device("sm_87")


@pytest.mark.parametrize(
    ("text", "target", "device"),
    [
        ("h100", "sm_90", "h100"),
        ("H200", "sm_90", "h200"),
        ("sm_90", "sm_90", "h100"),
        ("gfx942", "gfx942", "mi300x"),
        ("gfx1100", "gfx1100", None),
    ],
)
def test_both_kinds_of_names(text: str, target: str, device: str | None) -> None:
    gpu = read_gpu(text)
    assert gpu.target.name == target
    assert (gpu.device.name if gpu.device else None) == device


@pytest.mark.parametrize(
    ("typed", "suggestion"),
    [("h10", "`h100`"), ("rtx490", "`rtx4090`"), ("sm_91", "`sm_90`"), ("gfx941", "`gfx942`")],
)
def test_both_kinds_of_names_are_suggested(typed: str, suggestion: str) -> None:
    with pytest.raises(UsageError, match=f"there is no GPU `{typed}`; did you mean") as raised:
        read_gpu(typed)
    assert suggestion in str(raised.value)


def test_gpu_and_its_former_name_exclude_each_other() -> None:
    assert one_gpu("h100", None) == one_gpu(None, "h100") == "h100"
    with pytest.raises(UsageError, match="`device` is the former name of `gpu`"):
        one_gpu("h100", "a100")


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40", None),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA A10G", None),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 5070 Ti", "rtx5070-ti"),
        ("NVIDIA GeForce RTX 5070", "rtx5070"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("AMD Instinct MI325X", "mi325x"),
        ("", None),
    ],
)
def test_devices_by_the_names_of_drivers(driver: str, name: str | None) -> None:
    device = device_called(driver)
    assert (device.name if device else None) == name


def test_the_error_for_an_unknown_device_lists_all() -> None:
    with pytest.raises(UsageError) as raised:
        read_device("voodoo")
    assert all(name in str(raised.value) for name in (*DEVICES, *ARCHITECTURES))


#: Operations of a multiprocessor per clock cycle, from the documents of the architectures, for
#: ordinary units and matrix units. GeForce cards have half the matrix rate with fp32 accumulators.
_PER_CLOCK: dict[str, dict[str, float]] = {
    "sm_75": {"fp32": 128, "dot fp16": 1024},
    "sm_80": {"fp32": 128, "fp64": 64, "dot fp64": 128, "dot fp16": 2048},
    "sm_86": {"fp32": 256, "dot fp16": 1024},
    "sm_89": {"fp32": 256, "dot fp16": 1024},
    "sm_90": {"fp32": 256, "fp64": 128, "dot fp64": 256, "dot fp16": 4096},
    "sm_100": {"fp32": 256, "fp64": 128, "dot fp16": 8192},
    "sm_103": {"fp32": 256, "dot fp16": 8192},
    "sm_120": {"fp32": 256, "dot fp16": 1024},
    "gfx90a": {"fp32": 128, "fp64": 128, "dot fp64": 256, "dot fp32": 256, "dot fp16": 1024},
    "gfx942": {"fp32": 256, "fp64": 128, "dot fp64": 256, "dot fp16": 2048},
    "gfx950": {"fp32": 256, "fp64": 128, "dot fp16": 4096},
}
#: Rates of other matrix types as multiples of that for fp16 with accumulators of the same size.
_BESIDE_FP16 = {"dot tf32": 0.5, "dot bf16": 1, "dot fp8": 2, "dot int8": 2}
#: Rates that do not follow from the tables above; those of the B300 are published with two digits.
_EXCEPTIONS: dict[tuple[str, str], float] = {
    ("b300", "dot int8"): 512,
    ("b300", "fp64"): 4,
    ("mi250x", "dot int8"): 1024,
}
#: Highest clock in GHz on the manufacturers' pages.
_GHZ = {
    "t4": 1.59,
    "a100": 1.41,
    "a100-40gb": 1.41,
    "a30": 1.44,
    "a10": 1.695,
    "a40": 1.74,
    "rtx3090": 1.695,
    "l40s": 2.52,
    "l4": 2.04,
    "rtx4090": 2.52,
    "h100": 1.98,
    "h100-pcie": 1.755,
    "h200": 1.98,
    "b200": 1.965,
    "b300": 1.965,
    "rtx5090": 2.407,
    "rtx5080": 2.617,
    "rtx5070-ti": 2.452,
    "rtx5070": 2.512,
    "mi250x": 1.7,
    "mi300x": 2.1,
    "mi325x": 2.1,
    "mi355x": 2.4,
}


@pytest.mark.parametrize("device", DEVICES.values(), ids=lambda device: device.name)
def test_every_figure_has_a_source(device: Device) -> None:
    figures = {"bandwidth", "cache", *device.peaks}
    assert set(device.unconfirmed) <= figures
    every = figures - {"cache"} == set(device.unconfirmed)
    assert re.match("not confirmed: " if every else "(NVIDIA|AMD)('s)? ", device.source)
    assert all(device.is_confirmed(unit) != every for unit in ("memory", "fp32", "function"))


@pytest.mark.parametrize("device", DEVICES.values(), ids=lambda device: device.name)
def test_rates_agree_with_multiprocessors_and_a_clock(device: Device) -> None:
    if "fp32" in device.unconfirmed:
        pytest.skip("the rates are limited for export and do not follow from a clock")
    halved = device.name.startswith("rtx")
    clocks: dict[bool, dict[str, float]] = {True: {}, False: {}}
    for unit, rate in device.peaks.items():
        if unit.startswith("atomics"):
            continue  # measured
        per_clock = dict(_PER_CLOCK[device.architecture])
        fp16 = per_clock["dot fp16"]
        for name, multiple in _BESIDE_FP16.items():
            per_clock[name] = multiple * fp16 / (2 if halved and name != "dot int8" else 1)
        per_clock["dot fp16"] /= 2 if halved else 1
        per_clock["dot fp16 (fp16 sums)"], per_clock["dot fp8 (fp16 sums)"] = fp16, 2 * fp16
        operations = _EXCEPTIONS.get((device.name, unit), per_clock.get(unit))
        assert operations is not None, f"{unit} has no operations per clock"
        # Matrix units for fp64 run at the clock of the ordinary units.
        matrix = unit.startswith("dot ") and unit != "dot fp64"
        clocks[matrix][unit] = rate / (operations * device.multiprocessors)
    # Published figures are rounded to two digits at worst.
    for same in clocks.values():
        for unit, clock in same.items():
            rounded = 0.07 if (device.name, unit) in _EXCEPTIONS else 0.035
            assert clock == pytest.approx(same.get("fp32", same.get("dot fp16")), rel=rounded)
    ordinary, matrix_units = clocks[False]["fp32"], clocks[True]["dot fp16"]
    assert ordinary == pytest.approx(_GHZ[device.name] * 1e9, rel=0.01)
    assert 0.9 * ordinary <= matrix_units <= 1.02 * ordinary


def test_rates_of_units_that_share() -> None:
    rtx, h100, b300 = (read_device(name) for name in ("rtx4090", "h100", "b300"))
    assert rtx.peak("dot fp16 (fp16 sums)") == 2 * 165.2e12
    assert h100.peak("dot fp16 (fp16 sums)") == h100.peak("dot fp16")
    assert rtx.peak("dot f8E5M2 (fp16 sums)") == 2 * 330.3e12
    assert h100.peak("dot tf32x3") == pytest.approx(494.7e12 / 3)
    assert h100.peak("dot bf16x6") == pytest.approx(989.4e12 / 6)
    assert read_device("t4").peak("dot tf32x3") is None
    # 132 multiprocessors with 16 results per cycle at 1.98 GHz.
    assert h100.peak("function") == pytest.approx(132 * 16 * 1.98e9, rel=0.01)
    assert b300.peak("function") is None
    # Two operations per instruction: 133.8 and 78 TFLOP/s in the white papers, and 39 for bf16.
    a100, t4 = read_device("a100"), read_device("t4")
    assert h100.peak("fp16") == h100.peak("bf16") == pytest.approx(133.8e12)
    assert (a100.peak("fp16"), a100.peak("bf16")) == (78e12, 39e12)
    assert (t4.peak("fp16"), t4.peak("bf16"), rtx.peak("fp16")) == (16.2e12, 8.1e12, 82.6e12)
    # On the B300, int8 is 30 times slower than fp8.
    assert b300.peak("dot i8") == 150e12
    assert h100.peak("library") is None


FILE = """
name = "mine"
architecture = "sm_90"
multiprocessors = 10
bandwidth_gb = 100.0
peaks = {fp32 = 1.0, "dot fp16" = 8}
"""


def test_a_device_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    device = read_device_file(path)
    assert (device.name, device.target.name, device.cache) == ("mine", "sm_90", None)
    assert (device.bandwidth, device.peak("dot bf16")) == (100e9, 8e12)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("name =", "title =", "there is no field `title`; choose from name"),
        ('"mine"', '"H100"', "`H100` is the name of a built-in device"),
        ("sm_90", "sm_1", "there is no target `sm_1`"),
        ("10\n", "0\n", r"does not describe a device: .*multiprocessors"),
        ("fp32 = 1.0", "fp64 = 1.0", "`peaks` has no `fp32`"),
        ("100.0", "nan", "does not describe a device"),
        ("100.0", "'fast'", "does not describe a device"),
        ("peaks", "peaks = {", "is not a device file"),
    ],
)
def test_invalid_files_of_devices_are_errors(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(UsageError, match=sentence):
        read_device_file(path)
    with pytest.raises(UsageError, match="cannot read the device file"):
        read_device_file(tmp_path / "gone.toml")


def test_units_without_a_rate_use_that_of_a_similar_unit() -> None:
    h100, a100 = read_device("h100"), read_device("a100")
    assert h100.peak("dot bf16") == h100.peak("dot fp16")
    assert a100.peak("dot f8E5M2") == a100.peak("dot fp16")
    assert a100.peak("dot fp32") == 156e12
    assert a100.peak("nothing") is None


def test_every_device_can_be_compiled_for() -> None:
    for device in DEVICES.values():
        assert device.target.name == device.architecture
        assert device.bandwidth > 1e11
        assert 40 <= device.multiprocessors <= 304
        assert device.cache is None or 4 * 2**20 <= device.cache <= 256 * 2**20
        assert device.peaks["fp32"] < device.peaks["dot fp16"]


@pytest.mark.parametrize("name", ["H100", "nvidia h100", "NVIDIA-H100"])
def test_devices_by_name(name: str) -> None:
    assert read_device(name).name == "h100"
