"""A CUDA backend for torch whose memory is the host's.

torch's C++ asks the backend of a tensor's device for three things: kernels, a guard that selects
devices and streams, and hooks that say whether the backend was built. A torch for CPUs has none of
them for CUDA; a torch for CUDA on a machine without a GPU has some that fail. Once put in place
they stay until the process ends, so that tensors that a script has made stay usable. Must not know
how scripts are run or what `torch.cuda` answers.
"""

from __future__ import annotations

import ctypes
import re
import threading
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ttools.core.device_map import memory
from ttools.core.device_map.kernels import computed_on_cpu, kernels
from ttools.core.errors import UnsupportedError

_CUDA, _PRIVATE_USE = 1, 20  # c10::DeviceType
_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"
_REGISTER_GUARD = (
    "_ZN3c104impl24DeviceGuardImplRegistrarC1ENS_10DeviceTypeEPKNS0_24DeviceGuardImplInterfaceE"
)
_HOOKS = "_ZN2at6detail12getCUDAHooksEv"
#: What the hooks answer with yes; to the others, nothing is to be done.
_HOOKED = ("isBuilt", "isAvailable", "hasPrimaryContext", "init")
#: Memory that a GPU would read is as any.
_PINNED, _HOST_ALLOCATOR = "getPinnedMemoryAllocator", "_ZN3c1015GetCPUAllocatorEv"

_lock = threading.Lock()
#: What has to live as long as torch does.
_kept: list[Any] = []


def install() -> None:
    """Gives torch the backend; once in a process.

    Raises:
        UnsupportedError: this build of torch takes none.
    """
    with _lock:
        _install()


@cache
def _install() -> None:
    try:
        _install_guard()
        _install_hooks()
    except (AttributeError, LookupError, OSError) as error:
        raise UnsupportedError(
            f"torch {torch.__version__} takes no CUDA backend from outside ({error})",
            help="use torch 2.13, or `--device-map off` with tensors on the CPU",
        ) from error
    _install_kernels()
    memory.install()


def _library(name: str) -> ctypes.CDLL:
    return ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / name))


# ---- guards


def _install_guard() -> None:
    """Registers a guard for CUDA that has one device and nothing to select.

    torch lets Python write guards for its private backend; such a guard is a C++ object as any.
    """
    c10 = _library("libc10.so")
    guards = (ctypes.c_void_p * (_PRIVATE_USE + 1)).in_dll(c10, _GUARDS)
    if guards[_CUDA]:
        # A torch for CUDA. This is there for machines without a GPU.
        torch._C._ensureCUDADeviceGuardSet()
        return
    register = getattr(c10, _REGISTER_GUARD)
    register.argtypes = [ctypes.c_void_p, ctypes.c_int8, ctypes.c_void_p]
    register.restype = None
    registrar = ctypes.create_string_buffer(8)  # an object without members
    private = guards[_PRIVATE_USE]

    class Guard(torch._C._acc.DeviceGuard):
        def type_(self) -> Any:
            return torch._C._autograd.DeviceType.CUDA

    guard = Guard()
    torch._C._acc.register_python_privateuseone_device_guard(guard)
    register(registrar, _CUDA, guards[_PRIVATE_USE])
    register(registrar, _PRIVATE_USE, private)
    _kept.append(guard)


# ---- hooks


def _install_hooks() -> None:
    """Has the hooks answer that the backend was built and its device is in use.

    The hooks are an object whose virtual functions throw or deny. It gets a table of functions of
    its own, in which some are replaced.
    """
    get_hooks = getattr(_library("libtorch_cpu.so"), _HOOKS)
    get_hooks.restype = ctypes.c_void_p
    table_of = ctypes.c_void_p.from_address(get_hooks())
    slots = _virtual_functions("AcceleratorHooksInterface.h")
    count = len(slots) + len(_virtual_functions("CUDAHooksInterface.h"))
    before = 2  # the offset to the whole object and its type precede the functions
    table = (ctypes.c_void_p * (before + count))()
    word = ctypes.sizeof(ctypes.c_void_p)
    ctypes.memmove(table, (table_of.value or 0) - before * word, ctypes.sizeof(table))
    replaced = dict.fromkeys(_HOOKED, _yes)
    replaced[_PINNED] = getattr(_library("libc10.so"), _HOST_ALLOCATOR)
    for name, function in replaced.items():
        table[before + slots.index(name)] = ctypes.cast(function, ctypes.c_void_p).value
    _kept.append(table)
    table_of.value = ctypes.addressof(table) + before * word


def _virtual_functions(header: str) -> list[str]:
    """Names of a class's virtual functions in the order of its table, by torch's own header."""
    path = Path(torch.__file__).parent / "include" / "ATen" / "detail" / header
    code = re.sub(r"//.*", "", path.read_text("utf-8"))
    names = re.findall(r"\bvirtual\b[^;{]*?(~?\w+)\s*\(", code)
    if not names or not names[0].startswith("~"):
        return names  # a destructor that overrides another's has no entries of its own
    return [names[0], names[0], *names[1:]]


@ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int8)
def _yes(_hooks: int, _device: int) -> bool:
    return True


# ---- kernels


def _install_kernels() -> None:
    library = torch.library.Library("aten", "IMPL")
    every = torch.library.Library("_", "IMPL")
    computed: Callable[[Any], Any] = cache(computed_on_cpu)
    with warnings.catch_warnings():
        # That a torch for CUDA has kernels of its own.
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        for name, kernel in kernels():
            library.impl(name, kernel, "CUDA")
    every.fallback(lambda op, *args, **kwargs: computed(op)(*args, **kwargs), "CUDA")
    _kept.extend((library, every))
