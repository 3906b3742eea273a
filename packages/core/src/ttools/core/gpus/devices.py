"""Looks up GPUs by name, as users and drivers write them, or reads them from a user's file.

The published data of devices is in `products.py`, the limits of multiprocessors in `targets.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from ttools.core.errors import UsageError, did_you_mean, file_errors
from ttools.core.gpus.products import DEVICES
from ttools.core.gpus.rates import Device
from ttools.core.gpus.targets import ARCHITECTURES, Target, find_target, read_target
from ttools.core.json_document import Amount, parse_toml

__all__ = [
    "DEVICES",
    "Device",
    "Gpu",
    "device_called",
    "device_of",
    "device_of_machine",
    "gpu_names",
    "one_gpu",
    "read_device",
    "read_device_file",
    "read_gpu",
]


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU that a user names by its product or by its architecture.

    Attributes:
        target: The architecture, for which kernels are compiled.
        device: Published data of the GPU; if the user names an architecture, the data of the first
            GPU in the table that has this architecture. None if there is no such GPU.
        is_product: True if the user names the product.
    """

    target: Target
    device: Device | None
    is_product: bool = False


def read_gpu(gpu: str | Device) -> Gpu:
    """Return a GPU by its name or architecture.

    Args:
        gpu: Name (`h100`, `RTX 4090`, `NVIDIA H200`), architecture (`sm_90`, `gfx942`), or the data
            of a GPU that is not in the table.

    Raises:
        UsageError: There is no such GPU; the message has the most similar names, or lists all.
    """
    if isinstance(gpu, Device):
        return Gpu(target=gpu.target, device=gpu, is_product=True)
    text = gpu
    for device in DEVICES.values():
        if _plain(text) == _plain(device.name):
            return Gpu(target=device.target, device=device, is_product=True)
    target = find_target(text)
    if target is not None:
        return Gpu(target=target, device=device_of(target.name))
    hint = did_you_mean(text.strip().lower(), [*DEVICES, *ARCHITECTURES], 3)
    names = (
        f"; choose from {', '.join(DEVICES)}, or an architecture: {', '.join(ARCHITECTURES)}; "
        "`profile` and `tune` also read a description from a file: --device-file FILE"
    )
    raise UsageError(f"there is no GPU `{text}`{hint or names}")


def gpu_names(gpus: Iterable[Gpu]) -> dict[Target, str]:
    """Return how reports name the GPUs of each target: as `h100 (sm_90)`, or only as `sm_90`."""
    products: dict[Target, list[str]] = {}
    for gpu in gpus:
        names = products.setdefault(gpu.target, [])
        if gpu.is_product and gpu.device is not None and gpu.device.name not in names:
            names.append(gpu.device.name)
    return {
        target: f"{', '.join(names)} ({target.name})" if names else target.name
        for target, names in products.items()
    }


def one_gpu(gpu: str | Device | None, device: str | Device | None) -> str | Device | None:
    """Return the GPU that a caller names by `gpu`, or by its former name `device`.

    Raises:
        UsageError: The caller names both.
    """
    if gpu is not None and device is not None:
        raise UsageError("`device` is the former name of `gpu`; give only `gpu`")
    return device if gpu is None else gpu


def read_device(gpu: str | Device) -> Device:
    """Return the data of a GPU, see `read_gpu`.

    Raises:
        UsageError: There is no such GPU, or its rates are not known.
    """
    named = read_gpu(gpu)
    if named.device is None:
        architectures = ", ".join(dict.fromkeys(item.architecture for item in DEVICES.values()))
        raise UsageError(
            f"the peak rates of GPUs with {named.target.name} are not known; choose from "
            f"{architectures}"
        )
    return named.device


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
    with file_errors(f"read the device file `{path}`"):
        raw = path.read_bytes()
    try:
        data = parse_toml(raw.decode("utf-8"))
    except ValueError as error:
        raise UsageError(f"`{path}` is not a device file: {error}") from error
    fields = _DeviceFile.__dataclass_fields__
    if unknown := [name for name in data if name not in fields]:
        raise UsageError(
            f"`{path}`: there is no field `{unknown[0]}`; choose from {', '.join(fields)}"
        )
    try:
        entry = msgspec.convert(data, _DeviceFile)
    except ValueError as error:
        raise UsageError(f"`{path}` does not describe a device: {error}") from error
    if "fp32" not in entry.peaks:
        raise UsageError(f"`{path}` does not describe a device: `peaks` has no `fp32`")
    if any(_plain(entry.name) == _plain(name) for name in DEVICES):
        raise UsageError(
            f"`{path}`: `{entry.name}` is the name of a built-in device; choose another name"
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


#: Words in a GPU's name, as the driver reports it, that indicate a variant with other rates.
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
