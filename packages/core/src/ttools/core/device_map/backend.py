"""A CUDA backend for torch that uses host memory.

For each device type, torch's C++ code needs a backend: kernels of operators
(`operators/registry.py`), a device guard and hooks (`hooks.py`). Once installed, the backend
remains until the process ends, so that existing tensors remain usable.
"""

from __future__ import annotations

import threading
import warnings
from functools import cache, partial
from typing import Any

import torch

from ttools.core.device_map import hooks, memory
from ttools.core.device_map.aliases import check_capsules
from ttools.core.device_map.operators.recorded import computed_on_cpu
from ttools.core.device_map.operators.registry import BACKENDS, kernels
from ttools.core.errors import UnsupportedError

_lock = threading.Lock()


@cache
def _refusal() -> UnsupportedError | None:
    """Install the hooks; return the error if that is impossible, else None."""
    if torch.cuda._initialized:
        return UnsupportedError(
            "a device map in a process that has already used a GPU, because its GPU tensors would "
            "be treated as CPU tensors",
            help="enter the device map before the first CUDA tensor is created",
        )
    try:
        check_capsules()
        hooks.install()
    except (AttributeError, LookupError, OSError, ValueError) as error:
        return UnsupportedError(
            f"the device map with torch {torch.__version__}, whose CUDA backend cannot be replaced "
            f"({error})",
            help="use torch 2.13, or `--device-map off` with tensors on the CPU",
        )
    return None


def prepare() -> None:
    """Install the hooks before the first tensor is created, if this torch allows it."""
    with _lock:
        _refusal()
    hooks.ask_on_next_use(True)


def end() -> None:
    """Make torch check again for a GPU when code names a CUDA device after a map has ended."""
    hooks.ask_on_next_use(True)


def install() -> None:
    """Install the backend, once per process.

    Raises:
        UnsupportedError: This build of torch accepts no backend, or a GPU is already in use.
    """
    with _lock:
        refusal = _refusal()
        if refusal is not None:
            raise refusal
        _install_kernels()
    hooks.start_autograd()


@cache
def _install_kernels() -> None:
    namespaces = ["aten", "_", *(["c10d"] if torch.distributed.is_available() else [])]
    make: Any = torch.library.Library
    libraries = {name: make(name, "IMPL") for name in namespaces}
    for library in libraries.values():
        hooks.keep(library)
    with warnings.catch_warnings():
        # Suppress the warning of a CUDA build of torch that its own kernels are overridden.
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        for key, backend in BACKENDS.items():
            for name, kernel in kernels(key):
                namespace, _, short = name.partition("::")
                libraries[namespace].m.impl(short, backend, kernel)
    # These two operators are replaced for the CPU, too: tensor subclasses of libraries may wrap a
    # CPU tensor and call the CPU's operators.
    libraries["aten"].impl("_pin_memory", memory.pinned_copy, "CPU")
    libraries["aten"].impl("is_pinned", memory.is_pinned, "CPU")
    for key, backend in BACKENDS.items():
        libraries["_"].fallback(_computed_by_name(key), backend)
    count = getattr(torch._C, "_cuda_getDeviceCount", None)
    memory.install(gpu=count is not None and count() > 0)


def _computed_by_name(key: str) -> Any:
    """Return a kernel for operators without a kernel for the device, such as those of libraries."""
    computed = cache(partial(computed_on_cpu, key=key))

    def fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
        return computed(op.name())(*args, **kwargs)

    return fallback
