"""Devices by every word that users and drivers have for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ttools.core.errors import UsageError
from ttools.core.gpus.devices import (
    DEVICES,
    device_called,
    read_device,
    read_device_file,
    read_gpu,
)


@pytest.mark.parametrize(
    ("text", "name"), [("h100", "h100"), ("RTX 4090", "rtx4090"), ("sm_90", "h100"), ("80", "a100")]
)
def test_gpus_by_name_and_architecture(text: str, name: str) -> None:
    assert read_gpu(text).name == name


def test_gpus_without_rates_are_named() -> None:
    with pytest.raises(UsageError, match="no rates are known of a device with sm_87"):
        read_gpu("sm_87")
    with pytest.raises(UsageError, match="no device `h999`"):
        read_gpu("h999")


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
def test_devices_by_what_drivers_call_them(driver: str, name: str | None) -> None:
    found = device_called(driver)
    assert (found.name if found else None) == name


def test_an_unknown_device_names_all() -> None:
    with pytest.raises(UsageError) as raised:
        read_device("h300")
    assert all(name in str(raised.value) for name in DEVICES)


def test_every_row_has_a_source_and_consistent_rates() -> None:
    for device in DEVICES.values():
        assert re.match("(NVIDIA|AMD|press)", device.source)
        for unit, rate in device.peaks.items():
            if unit.endswith("(fp16 sums)"):
                assert rate == 2 * device.peaks[unit.removesuffix(" (fp16 sums)")]
        tf32, fp16 = device.peaks.get("dot tf32"), device.peaks["dot fp16"]
        # Published figures are rounded; on GeForce cards and others alike tf32 is half of fp16.
        assert tf32 is None or tf32 == pytest.approx(fp16 / 2, rel=0.03)
        if "dot int8" in device.peaks:
            assert device.peaks["dot int8"] in (
                pytest.approx(2 * fp16, rel=0.03),
                pytest.approx(4 * fp16, rel=0.03),
            )


def test_rates_of_units_that_share() -> None:
    rtx, h100, b300 = (read_device(name) for name in ("rtx4090", "h100", "b300"))
    assert rtx.peak("dot fp16 (fp16 sums)") == 2 * 165.2e12
    assert h100.peak("dot fp16 (fp16 sums)") == h100.peak("dot fp16")
    assert rtx.peak("dot f8E5M2 (fp16 sums)") == 2 * 330.3e12
    assert h100.peak("dot tf32x3") == pytest.approx(494.7e12 / 3)
    assert h100.peak("dot bf16x6") == pytest.approx(989.4e12 / 6)
    assert read_device("t4").peak("dot tf32x3") is None
    # 132 multiprocessors, 16 results a clock of 1.98 GHz.
    assert h100.peak("function") == pytest.approx(132 * 16 * 1.98e9, rel=0.01)
    assert b300.peak("function") is None
    assert h100.peak("library") is None


FILE = """
name = "mine"
architecture = "sm_90"
multiprocessors = 10
bandwidth_gb = 100.0
peaks = {fp32 = 1.0, "dot fp16" = 8}
"""


def test_a_device_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    device = read_device_file(path)
    assert (device.name, device.target.name, device.cache) == ("mine", "sm_90", None)
    assert (device.bandwidth, device.peak("dot bf16")) == (100e9, 8e12)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("name =", "title =", "a device has no `title`; it has name"),
        ('"mine"', '"H100"', "`H100` is a device of the table"),
        ("sm_90", "sm_1", "there is no target `sm_1`"),
        ("10\n", "0\n", r"describes no device: .*multiprocessors"),
        ("fp32 = 1.0", "fp64 = 1.0", "`peaks` has no `fp32`"),
        ("100.0", "nan", "describes no device"),
        ("100.0", "'fast'", "describes no device"),
        ("peaks", "peaks = {", "is no device file"),
    ],
)
def test_files_that_describe_no_device(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(UsageError, match=sentence):
        read_device_file(path)
    with pytest.raises(UsageError, match="cannot read the device file"):
        read_device_file(tmp_path / "gone.toml")


def test_units_without_a_rate_of_their_own_use_a_close_one() -> None:
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
