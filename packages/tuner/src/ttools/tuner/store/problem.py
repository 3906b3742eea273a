"""The identity of a tuning problem: a kernel's source, a tuning key and a device.

Results of equal problems are reused.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypedDict

import msgspec

from ttools.core import triton_versions
from ttools.core.environment import cpu_model
from ttools.core.gpus.devices import Device
from ttools.core.json_document import parse_json
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.interpreter.runtime.pool import default_threads


class _Key(TypedDict):
    """The part that every key has in common, in addition to the values of arguments by name."""

    dtypes: list[str]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A kernel and a tuning key on a device; results of equal problems are shared.

    Attributes:
        source: Hash of the kernel's source and of everything that it uses.
        key: Values for each combination of which the autotuner tunes separately, as JSON.
        device: The device on which times are measured, or the GPU for which they are predicted.
        versions: Versions of Triton and ttools.

    Raises:
        ValueError: The key is invalid, for example because the file is damaged.
    """

    kernel: str
    source: str
    key: str
    device: str
    versions: str

    def __post_init__(self) -> None:
        msgspec.convert(parse_json(self.key), _Key)

    @property
    def key_values(self) -> dict[str, Any]:
        """The values of the key by name; `dtypes` contains the element types of the tensors."""
        return dict(json.loads(self.key))

    @property
    def sizes(self) -> list[str]:
        """The values of the key without dtypes, as text: `n=1000`."""
        return [f"{name}={value}" for name, value in self.key_values.items() if name != "dtypes"]

    @property
    def dtypes(self) -> list[str]:
        """The distinct element types of the key."""
        return list(dict.fromkeys(self.key_values["dtypes"]))

    def __str__(self) -> str:
        dtypes = ", ".join(self.dtypes)
        return f"{self.kernel} for {', '.join([*self.sizes, dtypes])}" if dtypes else self.kernel


def problem_of(launch: TunedCall, device: str) -> Problem:
    """Return the problem of a launch."""
    function = triton_versions.innermost_jit_function(launch.tuner)
    return Problem(
        kernel=launch.kernel,
        source=hashlib.sha256(str(function.cache_key).encode()).hexdigest()[:16],
        key=_key(launch),
        device=device,
        versions=f"triton {triton_versions.installed_triton()}, ttools {version('ttools-tuner')}",
    )


def _key(launch: TunedCall) -> str:
    names = [name for name in launch.tuner.keys if name in launch.arguments]
    key: dict[str, Any] = {
        name: _plain(value) for name, value in zip(names, launch.key, strict=False)
    }
    dtypes = [str(value).removeprefix("torch.") for value in launch.key[len(names) :]]
    return json.dumps({**key, "dtypes": dtypes})


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    return f"tensor {tuple(value.shape)}" if hasattr(value, "shape") else repr(value)


def host_device(threads: int | None) -> str:
    """Describe the CPU as a device: its model and the number of threads of a launch."""
    return f"cpu: {cpu_model()}, {threads or default_threads()} threads"


def gpu_device() -> str:
    """Describe the current GPU as a device: its name and architecture."""
    import torch

    number = torch.cuda.current_device()
    major, minor = torch.cuda.get_device_capability(number)
    kind = "hip" if torch.version.hip else "cuda"
    return f"{kind}: {torch.cuda.get_device_name(number)} (sm_{major}{minor})"


def gpu_architecture() -> str:
    """Return the architecture of the current GPU, such as `sm_90` or `gfx942`."""
    import torch

    number = torch.cuda.current_device()
    if torch.version.hip:
        return str(torch.cuda.get_device_properties(number).gcnArchName).partition(":")[0]
    major, minor = torch.cuda.get_device_capability(number)
    return f"sm_{major}{minor}"


def predicted_device(device: Device) -> str:
    """Describe a GPU for which times are projected; results for it are stored separately."""
    return f"{device.name} ({device.architecture}), projected"


def where(launch: TunedCall) -> tuple[str, int]:
    """Return file and line of the kernel, for reports."""
    function = triton_versions.innermost_jit_function(launch.tuner)
    return function.fn.__code__.co_filename, int(function.starting_line_number)
