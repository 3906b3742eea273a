"""The device map: scripts that hard-code CUDA devices run unedited on the CPU.

The script sees a machine with one CUDA device. Tensors on that device are torch's own CUDA tensors,
but their memory is host memory (`aliases.py`), and their operators compute on the CPU
(`operators/`, installed by `backend.py`). Functions of torch's Python code that use CUDA are
replaced (`cuda.py`, `tensors.py`, and `proton.py` for Triton's profiler). The replacements are
visible to all threads, and the originals are restored when the map ends. Tensors that still exist
then remain CUDA tensors in host memory.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any

from ttools.core.configuration import read
from ttools.core.context_values import in_environment
from ttools.core.device_map.map_option import DeviceMap, device_map_of, read_device_map
from ttools.core.device_map.memory import count_maps, on_host
from ttools.core.device_map.properties import describe, described, forget
from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.imports import after_import
from ttools.core.patches import Patches

#: Triton backends that query torch to find out whether there is a GPU.
_GPUS = ("nvidia", "amd")

_lock = threading.RLock()
_active: list[_Mapping] = []
#: Maps that last until the process ends.
_for_good = ExitStack()
VARIABLE = "TTOOLS_DEVICE_MAP"


@contextmanager
def map_devices(
    mapping: Mapping[str, str] | DeviceMap, *, on_first_use: Callable[[], None] | None = None
) -> Iterator[None]:
    """Map CUDA devices to the CPU in all threads during the `with` block.

    Maps can be nested; an inner map must equal the outer one. If torch is not imported yet, the map
    takes effect when it is imported. Child processes get the map when they import torch or Triton.

    Args:
        mapping: `{"cuda": "cpu"}`, optionally with `capability` and `sms` of the device; an empty
            mapping changes nothing.
        on_first_use: Called once, when the script first uses a CUDA device.

    Raises:
        UsageError: The mapping is invalid or differs from the active one.
    """
    if not mapping:
        yield
        return
    device_map = mapping if isinstance(mapping, DeviceMap) else device_map_of(mapping)
    with _lock:
        if not _active:
            describe(device_map)
        elif device_map not in (described(), DeviceMap()):
            raise UsageError(
                f"cannot enter the device map `{device_map}` while `{described()}` is active"
            )
        current = _active[-1] if _active else _Mapping(on_first_use)
        current.patches.__enter__()
        _active.append(current)
        count_maps(1)
    try:
        yield
    finally:
        if not sys.is_finalizing():  # at the end of the process, there is nothing to restore
            with _lock:
                _active.pop()
                count_maps(-1)
                current.patches.__exit__(None, None, None)
                if not _active:
                    forget()


@contextmanager
def devices_by_default(
    choice: str | None, announce: Callable[[], None] | None = None
) -> Iterator[bool]:
    """Map CUDA devices to the CPU if requested, or by default if there is no GPU.

    Args:
        choice: The value of `--device-map`; if None, the value of `TTOOLS_DEVICE_MAP` is used.
        announce: Function to call when the script first uses a device of a map that was not
            requested.

    Yields:
        True if the map was not requested explicitly.

    Raises:
        UsageError: The request is not a valid device map.
    """
    explicit = choice or read(VARIABLE)
    if explicit is None and gpu_usable():
        yield False
        return
    device_map = requested() if choice is None else read_device_map(choice)
    if explicit is None:
        device_map = DeviceMap()
    if device_map is None:
        with in_environment({VARIABLE: "off"}):
            yield False
        return
    with map_devices(device_map, on_first_use=None if explicit else announce):
        yield explicit is None


def map_as_environment_says() -> None:
    """Install the map that `TTOOLS_DEVICE_MAP` requests, for the rest of the process.

    An active map is left unchanged. `children.py` calls this function in every process that imports
    torch or Triton, so that child processes of a mapped process are mapped, too.

    Raises:
        UsageError: The variable has an invalid value.
    """
    device_map = requested()
    if device_map is not None and not _active:
        _for_good.enter_context(map_devices(device_map))


def map_for_good() -> None:
    """Install the map that `TTOOLS_DEVICE_MAP` requests, by default `cuda=cpu`.

    The map lasts until `end_map_for_good` is called.

    Raises:
        UsageError: The variable has an invalid value.
    """
    _for_good.enter_context(map_devices(requested() or DeviceMap()))


def end_map_for_good() -> None:
    """End the maps that `map_for_good` installed."""
    _for_good.close()


def requested() -> DeviceMap | None:
    """Return the map that `TTOOLS_DEVICE_MAP` requests; None if it is unset or `off`.

    Raises:
        UsageError: The variable has an invalid value.
    """
    text = read(VARIABLE)
    try:
        return None if text is None else read_device_map(text)
    except UsageError as error:
        raise UsageError(f"{VARIABLE}: {error.message}") from error


def is_active() -> bool:
    """Return whether a device map is active."""
    return bool(_active)


def reported_device() -> Any:
    """Return the device to report for tensors: `cuda:0` while a map is active, else `cpu`."""
    import torch

    if not _active:
        return torch.device("cpu")
    _active[0].use()
    return torch.device("cuda", 0)


def real_device(tensor: Any) -> Any:
    """Return the device whose memory holds a tensor: the CPU for mapped tensors."""
    import torch

    return torch.device("cpu") if on_host(tensor) else tensor.device


class _Mapping:
    """The active map.

    Attributes:
        patches: The replaced attributes, which are installed when torch and Triton are imported, or
            immediately if they are already imported.
    """

    def __init__(self, on_first_use: Callable[[], None] | None) -> None:
        self.patches = Patches(self._install)
        self._on_first_use = on_first_use
        self._used = False

    def _install(self, patches: Patches) -> None:
        patches.enter(in_environment({VARIABLE: str(described())}))
        actions = {
            "torch": self._patch_torch,
            "triton": self._patch_triton,
            "triton.profiler": self._patch_proton,
            "torch._dynamo.device_interface": self._patch_dynamo,
            **{f"triton.backends.{name}.driver": self._patch_driver for name in _GPUS},
        }
        for name, action in actions.items():
            patches.callback(after_import(name, action))

    def use(self) -> None:
        """Record that the script uses a CUDA device; install the backend on first use."""
        if not self._used:
            from ttools.core.device_map.backend import install

            install()
            self._used = True
            if self._on_first_use is not None:
                self._on_first_use()

    def counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that calls count as use of a CUDA device."""

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self.use()
            return function(*args, **kwargs)

        return wrapper

    def _patch_torch(self, torch: ModuleType) -> None:
        from ttools.core.device_map.backend import end, prepare
        from ttools.core.device_map.cuda import replacements
        from ttools.core.device_map.runtime import group_replacements, runtime_replacements
        from ttools.core.device_map.tensors import from_file, sending, tensor_replacements

        prepare()
        self.patches.callback(end)
        self._replace(replacements(torch, self.counting))
        self._replace(tensor_replacements(torch))
        self._replace(group_replacements(torch))
        self._replace(runtime_replacements(torch))
        self._choose_libraries(torch._C)
        # torch calls this function when code first names a CUDA device.
        self.patches.replace(torch.cuda, "_lazy_init", self.use)
        files = torch.serialization._package_registry
        entry = (0, lambda storage: None, from_file)
        files.insert(0, entry)
        self.patches.callback(lambda: files.remove(entry))
        self._send_between_processes(sending)

    def _choose_libraries(self, switches: Any) -> None:
        """Disable the CUDA libraries that torch uses, because they cannot access host memory.

        Even if a script selects a particular attention kernel, attention is composed of torch's
        operators.
        """
        for get, switch, value in (
            ("_get_cudnn_enabled", "_set_cudnn_enabled", False),
            ("_get_cudnn_sdp_enabled", "_set_sdp_use_cudnn", False),
            ("_get_math_sdp_enabled", "_set_sdp_use_math", True),
        ):
            original = getattr(switches, switch)
            self.patches.callback(functools.partial(original, getattr(switches, get)()))
            original(value)
            if "sdp" in switch:
                self.patches.replace(switches, switch, lambda enabled: None)

    def _send_between_processes(self, sending: Callable[[Any], Any]) -> None:
        import torch.multiprocessing  # registers how tensors are sent

        reducers: Any = vars(ForkingPickler)["_extra_reducers"]
        for kind in (torch.Tensor, torch.nn.Parameter):
            reducer = reducers[kind]
            reducers[kind] = sending(reducer)
            self.patches.callback(functools.partial(reducers.__setitem__, kind, reducer))

    def _patch_triton(self, triton: ModuleType) -> None:
        from ttools.core.device_map.triton_drivers import triton_replacements

        self._replace(triton_replacements(triton))

    def _patch_driver(self, driver: ModuleType) -> None:
        from ttools.core.device_map.triton_drivers import driver_replacements

        self._replace(driver_replacements(driver))

    def _patch_dynamo(self, devices: ModuleType) -> None:
        from ttools.core.device_map.cuda import dynamo_replacements

        self._replace(dynamo_replacements(devices))

    def _patch_proton(self, profiler: ModuleType) -> None:
        from ttools.core.device_map.proton import proton_replacements

        self._replace(proton_replacements(profiler))

    def _replace(self, replacements: Iterable[tuple[Any, str, Any]]) -> None:
        # Create all replacements first, because one of them may use the original function of
        # another.
        for owner, name, value in list(replacements):
            self.patches.replace(owner, name, value)
