"""`--device-map cuda=cpu`: scripts that hard-code CUDA devices run unedited on the CPU.

Owns what happens to devices named in torch calls and to what tensors say of themselves; the
answers of `torch.cuda` are in `cuda.py`, Proton's in `proton.py`. Everything is
a replaced attribute, seen by all threads and put back on exit; nothing runs in between, so
operators cost what they always cost.

What a script sees:

* From the first time it asks for a CUDA device, *every* dense tensor says `is_cuda` and
  `device == cuda:0`, so that tensors never disagree about where they are. Before that, and in a
  script that never asks, tensors say that they are on the CPU.
* Moving copies, as between memories: `.cuda()` of a CPU tensor and `.cpu()` of a mapped one give
  tensors of their own; `.cuda()` of a mapped one gives the tensor itself. Which is which is noted
  on the storage where the script creates or moves a tensor. Results of operators carry no note and
  are copied: rather one copy too many than two tensors that share memory and should not.
* `torch.compile` returns what it is given: the compiler would believe the devices.

Storages always report the real device (`tensor.untyped_storage().device`); use `real_device`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.patches import Patches

_lock = threading.RLock()
_active: list[_Mapping] = []


@contextmanager
def map_devices(
    mapping: Mapping[str, str], *, on_first_use: Callable[[], None] | None = None
) -> Iterator[None]:
    """Makes the CPU stand in for CUDA devices, in all threads, until the context ends.

    Re-entrant. torch need not be imported yet: the map is put in place when it is.

    Args:
        mapping: `{"cuda": "cpu"}`, the only map there is; an empty one changes nothing.
        on_first_use: Called once, when the script first asks for a CUDA device.

    Raises:
        UsageError: Another mapping was asked for.
    """
    if not mapping:
        yield
        return
    if dict(mapping) != {"cuda": "cpu"}:
        pairs = ",".join(f"{source}={target}" for source, target in mapping.items())
        raise UsageError(f"the device map `{pairs}` is not possible; the only one is `cuda=cpu`")
    with _lock:
        current = _active[-1] if _active else _Mapping(on_first_use)
        current.patches.__enter__()
        _active.append(current)
    try:
        yield
    finally:
        with _lock:
            _active.pop()
            current.patches.__exit__(None, None, None)


def is_active() -> bool:
    """Whether a device map is in place."""
    return bool(_active)


def reported_device() -> Any:
    """The device that kernels' tensors are to be on, as scripts should see it.

    `cuda:0` while a map is in place, from then on also reported by tensors; else `cpu`.
    """
    import torch

    if not _active:
        return torch.device("cpu")
    _active[0].use()
    return torch.device("cuda", 0)


def real_device(tensor: Any) -> Any:
    """Where a tensor's memory really is, whatever a map makes it say."""
    import torch

    return torch._C.TensorBase.device.__get__(tensor)


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
        actions = {
            "torch": self._patch_torch,
            "triton": self._patch_triton,
            "triton.profiler": self._patch_proton,
        }
        for name, action in actions.items():
            module = sys.modules.get(name)
            if module is not None:
                action(module)
            else:
                finder = _AfterImport(name, action)
                sys.meta_path.insert(0, finder)
                patches.callback(finder.remove)

    def use(self) -> None:
        """Notes that the script asks for a CUDA device."""
        if not self._used:
            self._used = True
            if self._on_first_use is not None:
                self._on_first_use()

    @property
    def used(self) -> bool:
        """Whether the script has asked for a CUDA device."""
        return self._used

    def counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, whose calls count as asking for a CUDA device."""

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self.use()
            return function(*args, **kwargs)

        return wrapper

    def _patch_torch(self, torch: ModuleType) -> None:
        from ttools.core.device_map.cuda import replacements
        from ttools.core.device_map.numerics import numeric_replacements
        from ttools.core.device_map.tensors import tensor_replacements

        # This set is built from the functions that are there at its first use, and kept.
        importlib.import_module("torch.utils._device")._device_constructors()
        self._replace(replacements(torch, self.counting))
        self._replace(tensor_replacements(torch, self))
        self._replace(numeric_replacements(torch, self))

    def _patch_triton(self, triton: ModuleType) -> None:
        from ttools.core.device_map.cuda import triton_replacements

        self._replace(triton_replacements(triton))

    def _patch_proton(self, profiler: ModuleType) -> None:
        from ttools.core.device_map.proton import proton_replacements

        self._replace(proton_replacements(profiler))

    def _replace(self, replacements: Iterable[tuple[Any, str, Any]]) -> None:
        # All of them first: one may be built on another's original.
        for owner, name, value in list(replacements):
            self.patches.replace(owner, name, value)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module as soon as it has been imported."""

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._action = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec that the other finders give, with a loader that calls the function."""
        if fullname != self._name:
            return None
        self.remove()
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            self._wrap(spec.loader)
        return spec

    def remove(self) -> None:
        """Stops waiting."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def _wrap(self, loader: Any) -> None:
        # On the loader's instance: a loader of another class would hide its other abilities.
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            if is_active():
                self._action(module)

        loader.exec_module = exec_module
