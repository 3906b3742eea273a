"""Devices by every word that users and drivers have for them."""

from __future__ import annotations

import pytest

from ttools.core.errors import UsageError
from ttools.core.gpus.devices import DEVICES, read_device, read_gpu


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
