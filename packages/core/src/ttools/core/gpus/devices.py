"""GPUs by name, as users and drivers write them, or from a file of the user's.

What their makers publish of them is `products.py`; what one multiprocessor has is in `targets.py`.
Must not know any kernel.
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
    """A GPU by name: `h100`, `RTX 4090`, `NVIDIA H200`.

    Raises:
        UsageError: there is none of that name in the table; all are named.
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
    """A GPU that a file in TOML describes.

    Its fields are `name`, `architecture`, `multiprocessors`, `bandwidth_gb` in GB/s, `cache_mib`,
    `source`, and a table `peaks` with 10^12 operations per second by unit.

    Raises:
        UsageError: it cannot be read, or describes no device.
    """
    try:
        with file_errors(f"read the device file `{path}`"):
            data = parse_toml(path.read_text("utf-8"))
    except ValueError as error:
        raise UsageError(f"`{path}` is no device file: {error}") from error
    known = _DeviceFile.__dataclass_fields__
    if unknown := [name for name in data if name not in known]:
        raise UsageError(f"`{path}`: a device has no `{unknown[0]}`; it has {', '.join(known)}")
    try:
        found = msgspec.convert(data, _DeviceFile)
    except ValueError as error:
        raise UsageError(f"`{path}` describes no device: {error}") from error
    if "fp32" not in found.peaks:
        raise UsageError(f"`{path}` describes no device: `peaks` has no `fp32`")
    if any(_plain(found.name) == _plain(name) for name in DEVICES):
        raise UsageError(
            f"`{path}`: `{found.name}` is a device of the table; give yours another name"
        )
    return Device(
        name=found.name,
        architecture=read_target(found.architecture).name,
        multiprocessors=found.multiprocessors,
        bandwidth=found.bandwidth_gb * 1e9,
        cache=None if found.cache_mib is None else int(found.cache_mib * 2**20),
        peaks={unit: rate * 1e12 for unit, rate in found.peaks.items()},
        source=found.source or str(path),
    )


def device_of(architecture: str) -> Device | None:
    """The first GPU of the table with an architecture, as `sm_90`; None if it has none."""
    return next((each for each in DEVICES.values() if each.architecture == architecture), None)


def device_of_machine() -> Device | None:
    """The GPU that torch uses here; None if it is not in the table."""
    import torch

    if not torch.cuda.is_available():
        return None
    return device_called(torch.cuda.get_device_name())


#: In a driver's name, after that of a product: it has other rates.
_OTHERS = frozenset({"laptop", "max-q", "d", "3e", "nvl"})


def device_called(text: str) -> Device | None:
    """A GPU by what its driver calls it, as `NVIDIA H100 80GB HBM3`; None if it is unknown."""
    words = _words(text)
    found = [
        device
        for device in DEVICES.values()
        if (own := _words(device.name))[0] == words[0] and set(own) <= set(words)
    ]
    if not found or _OTHERS & set(words):
        return None
    return max(found, key=lambda device: len(_words(device.name)))


def _words(text: str) -> list[str]:
    """What a name has beside its maker and brand: `h100`, `pcie`."""
    words = re.findall(r"max-q|[a-z]+\d*[a-z]*|\d+[a-z]*", text.lower())
    joined = re.sub(r"\brtx (?=\d)", "rtx", " ".join(words))
    return [word for word in joined.split() if word not in _BRANDS] or [""]


_BRANDS = ("nvidia", "amd", "geforce", "instinct", "tesla", "radeon")


def _plain(text: str) -> str:
    return "".join(_words(text))


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
