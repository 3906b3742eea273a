"""`--device-map cuda=cpu`: scripts that hard-code CUDA devices run unedited on the CPU.

A script sees a machine with one CUDA device: its tensors there are torch's own CUDA tensors, whose
memory is the host's (`memory.py`) and whose operators compute on the CPU (`operators/`, put in
place by `backend.py`). What torch's Python asks of CUDA itself is answered by replaced attributes
(`cuda.py`, `tensors.py`, and `proton.py` for Triton's profiler), seen by all threads and put back
on exit. CUDA tensors stay what they are.
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
from ttools.core.device_map.memory import count_maps, on_host
from ttools.core.device_map.properties import describe, described, forget
from ttools.core.device_map.request import DeviceMap, device_map_of, read_device_map
from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.imports import after_import
from ttools.core.patches import Patches

#: Backends of Triton's that ask torch whether there is a GPU.
_GPUS = ("nvidia", "amd")

_lock = threading.RLock()
_active: list[_Mapping] = []
#: Maps that end with the process.
_for_good = ExitStack()
VARIABLE = "TTOOLS_DEVICE_MAP"


@contextmanager
def map_devices(
    mapping: Mapping[str, str] | DeviceMap, *, on_first_use: Callable[[], None] | None = None
) -> Iterator[None]:
    """Makes the CPU stand in for CUDA devices, in all threads, until the context ends.

    Re-entrant: an inner map is the outer one. torch need not be imported yet: the map is put in
    place when it is. Processes that this one starts get the map where they import torch or Triton.

    Args:
        mapping: `{"cuda": "cpu"}`, with `capability` and `sms` of the device if it has to have
            others; an empty one changes nothing.
        on_first_use: Called once, when the script first asks for a CUDA device.

    Raises:
        UsageError: Another mapping was asked for, or one that differs from the one in place.
    """
    if not mapping:
        yield
        return
    asked = mapping if isinstance(mapping, DeviceMap) else device_map_of(mapping)
    with _lock:
        if not _active:
            describe(asked)
        elif asked not in (described(), DeviceMap()):
            raise UsageError(f"the device map `{asked}` inside another, `{described()}`")
        current = _active[-1] if _active else _Mapping(on_first_use)
        current.patches.__enter__()
        _active.append(current)
        count_maps(1)
    try:
        yield
    finally:
        if not sys.is_finalizing():  # a map that nobody ended has nothing left to restore
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
    """Maps CUDA devices to the CPU when asked to, or by default when there is no GPU.

    Args:
        choice: what `--device-map` says; by default what `TTOOLS_DEVICE_MAP` does.
        announce: called when the script first asks for a device of a map that nobody asked for.

    Yields:
        Whether the map is one that nobody asked for.

    Raises:
        UsageError: it asks for no map that can be.
    """
    explicit = choice or read(VARIABLE)
    if explicit is None and gpu_usable():
        yield False
        return
    asked = requested() if choice is None else read_device_map(choice)
    if explicit is None:
        asked = DeviceMap()
    if asked is None:
        with in_environment({VARIABLE: "off"}):
            yield False
        return
    with map_devices(asked, on_first_use=None if explicit else announce):
        yield explicit is None


def map_as_environment_says() -> None:
    """Makes the map that `TTOOLS_DEVICE_MAP` asks for, if there is none, for the whole process.

    `children.py` calls it in every process that imports torch or Triton, so that the children of a
    mapped process are mapped, too.

    Raises:
        UsageError: the variable asks for no map.
    """
    asked = requested()
    if asked is not None and not _active:
        _for_good.enter_context(map_devices(asked))


def map_for_good() -> None:
    """Makes the map that `TTOOLS_DEVICE_MAP` asks for, `cuda=cpu` by default, until it is ended.

    Raises:
        UsageError: the variable asks for no map.
    """
    _for_good.enter_context(map_devices(requested() or DeviceMap()))


def end_map_for_good() -> None:
    """Ends the maps that were made for good."""
    _for_good.close()


def requested() -> DeviceMap | None:
    """The map that `TTOOLS_DEVICE_MAP` asks for; None if it is unset or `off`.

    Raises:
        UsageError: the variable asks for no map.
    """
    text = read(VARIABLE)
    try:
        return None if text is None else read_device_map(text)
    except UsageError as error:
        raise UsageError(f"{VARIABLE}: {error.message}") from error


def is_active() -> bool:
    """Whether a device map is in place."""
    return bool(_active)


def reported_device() -> Any:
    """Where kernels' tensors are to be: `cuda:0` while a map is in place, else `cpu`."""
    import torch

    if not _active:
        return torch.device("cpu")
    _active[0].use()
    return torch.device("cuda", 0)


def real_device(tensor: Any) -> Any:
    """Where a tensor's memory really is: a mapped one's is the host's."""
    import torch

    return torch.device("cpu") if on_host(tensor) else tensor.device


class _Mapping:
    """The map that is in place.

    Attributes:
        patches: the attributes replaced, at once or when torch and Triton are imported.
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
        """Notes that the script asks for a CUDA device, which is there from now on."""
        if not self._used:
            from ttools.core.device_map.backend import install

            install()
            self._used = True
            if self._on_first_use is not None:
                self._on_first_use()

    def counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, whose calls count as asking for a CUDA device."""

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self.use()
            return function(*args, **kwargs)

        return wrapper

    def _patch_torch(self, torch: ModuleType) -> None:
        from ttools.core.device_map.backend import end, prepare
        from ttools.core.device_map.cuda import replacements
        from ttools.core.device_map.process_groups import group_replacements
        from ttools.core.device_map.runtime import runtime_replacements
        from ttools.core.device_map.tensors import from_file, sending, tensor_replacements

        prepare()
        self.patches.callback(end)
        self._replace(replacements(torch, self.counting))
        self._replace(tensor_replacements(torch))
        self._replace(group_replacements(torch))
        self._replace(runtime_replacements(torch))
        self._choose_libraries(torch._C)
        # torch calls it when a device is first named, or never again if it has.
        self.patches.replace(torch.cuda, "_lazy_init", self.use)
        files = torch.serialization._package_registry
        entry = (0, lambda storage: None, from_file)
        files.insert(0, entry)
        self.patches.callback(lambda: files.remove(entry))
        self._send_between_processes(sending)

    def _choose_libraries(self, switches: Any) -> None:
        """A torch for CUDA would take the tensors to libraries whose memory the host's is not.

        A script may ask for one kernel of attention only; torch's own composition stands in.
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
            before = reducers[kind]
            reducers[kind] = sending(before)
            self.patches.callback(functools.partial(reducers.__setitem__, kind, before))

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
        # All of them first: one may be built on another's original.
        for owner, name, value in list(replacements):
            self.patches.replace(owner, name, value)
