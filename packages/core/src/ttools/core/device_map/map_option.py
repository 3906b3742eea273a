"""Parses requests for a device map: `cuda=cpu`, with capability and size of the device.

Importing this module does not import torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ttools.core.errors import UsageError

if TYPE_CHECKING:
    from ttools.core.gpus.devices import Gpu

#: The default compute capability. Its features, such as bf16 and asynchronous copies, can all be
#: emulated on the CPU. Later ones have tensor memory and warp specialisation, for which scripts
#: would select different kernels.
CAPABILITY = (8, 0)
_FORM = "cuda=cpu[,capability=X.Y][,sms=N]"
#: Upper bound of `sms`. No GPU has that many multiprocessors, and the bound limits the size of
#: arrays that scripts allocate with one element per multiprocessor.
_MOST_SMS = 65535


@dataclass(frozen=True, kw_only=True)
class DeviceMap:
    """The CUDA device that the CPU emulates.

    Attributes:
        capability: The compute capability to emulate. If it is None, scripts see `CAPABILITY`, but
            launches are only compared with limits that apply to all GPUs.
        sms: Number of multiprocessors; None for the number of processors of this process.
    """

    capability: tuple[int, int] | None = None
    sms: int | None = None

    def __str__(self) -> str:
        parts = ["cuda=cpu"]
        if self.capability is not None:
            parts.append("capability={}.{}".format(*self.capability))
        if self.sms is not None:
            parts.append(f"sms={self.sms}")
        return ",".join(parts)


def read_device_map(text: str) -> DeviceMap | None:
    """Parse a device map as users write it; return None for `off`.

    Raises:
        UsageError: The text is not a device map.
    """
    if text.strip().lower() == "off":
        return None
    pairs: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name.strip() in pairs:
            raise UsageError(f"the device map `{text}` is neither `off` nor of the form `{_FORM}`")
        pairs[name.strip()] = value.strip()
    return device_map_of(pairs)


def device_map_of(pairs: Mapping[str, str]) -> DeviceMap:
    """Return a device map from its parts: `{"cuda": "cpu", "capability": "9.0", "sms": "132"}`.

    Raises:
        UsageError: A part is invalid.
    """
    text = ",".join(f"{name}={value}" for name, value in pairs.items())
    if pairs.get("cuda") != "cpu" or pairs.keys() - {"cuda", "capability", "sms"}:
        raise UsageError(
            f"the device map `{text}` is not supported; it must have the form `{_FORM}`"
        )
    sms = pairs.get("sms")
    if sms is not None and not (sms.isascii() and sms.isdigit() and 0 < int(sms) <= _MOST_SMS):
        raise UsageError(f"`sms={sms}` in a device map: must be a number from 1 to {_MOST_SMS}")
    capability = None
    if "capability" in pairs:
        match = re.fullmatch(r"(?a:(\d{1,2})\.(\d))", pairs["capability"])
        if match is None:
            raise UsageError(
                f"`capability={pairs['capability']}` in a device map: must have the form X.Y, such "
                "as `capability=9.0`"
            )
        capability = int(match[1]), int(match[2])
    return DeviceMap(capability=capability, sms=None if sms is None else int(sms))


def map_of_gpu(gpu: Gpu) -> DeviceMap:
    """Return the device map that emulates a GPU.

    Raises:
        UsageError: The GPU is an AMD GPU; only CUDA devices can be emulated.
    """
    name = gpu.target.name
    if gpu.target.backend != "cuda":
        raise UsageError(
            f"{name} cannot be emulated: the device map emulates only CUDA devices; `ttools "
            f"inspect --gpu {name}` and `ttools profile --gpu {name}` compile for it"
        )
    capability = divmod(int(name.removeprefix("sm_")), 10)
    return DeviceMap(
        capability=capability, sms=None if gpu.device is None else gpu.device.multiprocessors
    )


def emulated_gpu(
    device_map: str | None,
    gpu: str | None,
    names: tuple[str, str] = ("device_map", "gpu"),
) -> str | None:
    """Return the requested device map, given as text or by the name of the GPU to emulate.

    Args:
        device_map: A device map as users write it; None if it is not given.
        gpu: Name or architecture of a GPU; None if it is not given.
        names: Names of these two options in messages.

    Raises:
        UsageError: Both are given, or the GPU is unknown or cannot be emulated.
    """
    if gpu is None:
        return device_map
    from ttools.core.gpus.devices import read_gpu

    try:
        emulated = str(map_of_gpu(read_gpu(gpu)))
    except UsageError as error:
        raise UsageError(f"{names[1]}: {error.message}") from error
    if device_map is not None:
        raise UsageError(
            f"{names[0]} and {names[1]} both choose the emulated device: give only one of them "
            f"({names[1]} {gpu} is equivalent to {names[0]} {emulated})"
        )
    return emulated
