"""Looks up GPUs by name, as users and drivers write them, or reads them from a user's file.

The published data of devices is in `products.py`, the limits of multiprocessors in `targets.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from ttools.core.errors import UsageError, file_errors
from ttools.core.gpus.products import DEVICES
from ttools.core.gpus.rates import Device
from ttools.core.gpus.targets import read_target
from ttools.core.json_document import Amount, parse_toml

__all__ = [
    "DEVICES",
    "Device",
    "device_called",
    "device_of",
    "device_of_machine",
    "read_device",
    "read_device_file",
    "read_gpu",
]


def read_device(text: str) -> Device:
    """Return a GPU by name, such as `h100`, `RTX 4090` or `NVIDIA H200`.

    Raises:
        UsageError: The table has no such name; the message lists all.
    """
    for device in DEVICES.values():
        if _plain(text) == _plain(device.name):
            return device
    raise UsageError(
        f"there is no device `{text}` in the table; choose from {', '.join(DEVICES)}, or describe "
        "it in a file: --device-file FILE"
    )


_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e9)]


@dataclass(frozen=True)
class _DeviceFile:
    name: Annotated[str, msgspec.Meta(min_length=1)]
    architecture: str
    multiprocessors: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    bandwidth_gb: _Positive
    peaks: Mapping[str, _Positive]
    cache_mib: Amount | None = None
    source: str = ""


def read_device_file(path: Path) -> Device:
    """Read a GPU from a TOML file.

    Its fields are `name`, `architecture`, `multiprocessors`, `bandwidth_gb` in GB/s, `cache_mib`,
    `source`, and a table `peaks` with 10^12 operations per second by unit.

    Raises:
        UsageError: The file cannot be read or is invalid.
    """
    try:
        with file_errors(f"read the device file `{path}`"):
            data = parse_toml(path.read_text("utf-8"))
    except ValueError as error:
        raise UsageError(f"`{path}` is no device file: {error}") from error
    fields = _DeviceFile.__dataclass_fields__
    if unknown := [name for name in data if name not in fields]:
        raise UsageError(f"`{path}`: a device has no `{unknown[0]}`; it has {', '.join(fields)}")
    try:
        entry = msgspec.convert(data, _DeviceFile)
    except ValueError as error:
        raise UsageError(f"`{path}` describes no device: {error}") from error
    if "fp32" not in entry.peaks:
        raise UsageError(f"`{path}` describes no device: `peaks` has no `fp32`")
    if any(_plain(entry.name) == _plain(name) for name in DEVICES):
        raise UsageError(
            f"`{path}`: `{entry.name}` is a device of the table; give yours another name"
        )
    return Device(
        name=entry.name,
        architecture=read_target(entry.architecture).name,
        multiprocessors=entry.multiprocessors,
        bandwidth=entry.bandwidth_gb * 1e9,
        cache=None if entry.cache_mib is None else int(entry.cache_mib * 2**20),
        peaks={unit: rate * 1e12 for unit, rate in entry.peaks.items()},
        source=entry.source or str(path),
    )


def device_of(architecture: str) -> Device | None:
    """Return the first GPU of the table with an architecture such as `sm_90`, or None."""
    return next(
        (device for device in DEVICES.values() if device.architecture == architecture), None
    )


def device_of_machine() -> Device | None:
    """Return the GPU that torch uses here; None if it is not in the table."""
    import torch

    if not torch.cuda.is_available():
        return None
    return device_called(torch.cuda.get_device_name())


#: Words in a driver's name that mean a variant with other rates.
_OTHERS = frozenset({"laptop", "max-q", "d", "3e", "nvl"})


def device_called(text: str) -> Device | None:
    """Return a GPU by its driver's name, such as `NVIDIA H100 80GB HBM3`; None if it is unknown."""
    words = _words(text)
    candidates = [
        device
        for device in DEVICES.values()
        if (own := _words(device.name))[0] == words[0] and set(own) <= set(words)
    ]
    if not candidates or _OTHERS & set(words):
        return None
    return max(candidates, key=lambda device: len(_words(device.name)))


def _words(text: str) -> list[str]:
    """Split a name into words such as `h100` and `pcie`, without maker and brand."""
    words = re.findall(r"max-q|[a-z]+\d*[a-z]*|\d+[a-z]*", text.lower())
    joined = re.sub(r"\brtx (?=\d)", "rtx", " ".join(words))
    return [word for word in joined.split() if word not in _BRANDS] or [""]


_BRANDS = ("nvidia", "amd", "geforce", "instinct", "tesla", "radeon")


def _plain(text: str) -> str:
    return "".join(_words(text))


def read_gpu(text: str) -> Device:
    """Return a device by its name (`h100`) or by its architecture (`sm_90`).

    Raises:
        UsageError: The name is unknown.
    """
    if not re.match(r"(?i)(cuda:|hip:|sm_?\d|gfx|\d+a?$)", text.strip()):
        return read_device(text)
    target = read_target(text)
    for device in DEVICES.values():
        if device.architecture == target.name:
            return device
    architectures = ", ".join(dict.fromkeys(device.architecture for device in DEVICES.values()))
    raise UsageError(
        f"no rates are known of a device with {target.name}; choose from {architectures}"
    )
