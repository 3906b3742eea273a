"""The device guard and the hooks that torch's C++ code requires for CUDA.

A torch build for CPUs has no guard for CUDA, and the virtual functions of its CUDA hooks throw
exceptions or return false. A torch build for CUDA has both, but they fail on a machine without a
GPU. All symbols are looked up and compared with torch's own headers before anything is changed.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

_CUDA, _PRIVATE_USE = 1, 20  # c10::DeviceType
_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"
_REGISTER_GUARD = (
    "_ZN3c104impl24DeviceGuardImplRegistrarC1ENS_10DeviceTypeEPKNS0_24DeviceGuardImplInterfaceE"
)
_HOOKS = "_ZN2at6detail12getCUDAHooksEv"
_INTERFACE = "N2at18CUDAHooksInterfaceE"
#: Hooks that are replaced by functions that return true; the other hooks stay unchanged.
_HOOKED = ("isBuilt", "isAvailable", "hasPrimaryContext", "init")
#: Pinned memory comes from the CPU allocator.
_PINNED, _HOST_ALLOCATOR = "getPinnedMemoryAllocator", "_ZN3c1015GetCPUAllocatorEv"
#: The hook that returns the device of a pointer, used for `__cuda_array_interface__`.
_DEVICE_OF = "getDeviceFromPtr"
_WORD = ctypes.sizeof(ctypes.c_void_p)
#: Number of vtable entries before the function pointers: the offset to the top and the type info.
_BEFORE = 2

_ENGINE = "_ZN5torch8autograd6Engine18get_default_engineEv"
_START_THREADS = "_ZN5torch8autograd6Engine20start_device_threadsEv"
_REQUIRE = "_ZN5torch5utils24set_requires_device_initEN3c1010DeviceTypeEb"


def keep(value: object) -> None:
    """Keep a value alive until the process ends, since torch may use it after Python has ended."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def install() -> None:
    """Install guard and hooks.

    Raises:
        LookupError: This torch lacks a symbol or has a different memory layout.
        AttributeError, OSError: For the same reasons.
    """
    actions = (_guard(), _hooks(), _initialisation())
    for action in actions:
        action()


#: Sets whether torch calls `torch.cuda._lazy_init` when code next names a CUDA device.
ask_on_next_use: Callable[[bool], object] = bool


def _initialisation() -> Callable[[], object]:
    require = getattr(_library("libtorch_python.so"), _REQUIRE)
    require.argtypes = [ctypes.c_int8, ctypes.c_bool]
    require.restype = None

    def act() -> None:
        global ask_on_next_use
        ask_on_next_use = partial(require, _CUDA)

    return act


def _library(name: str) -> ctypes.CDLL:
    return ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / name))


# ---- the guard


def _guard() -> Callable[[], object]:
    """Return an action that registers a guard for a single CUDA device.

    torch allows guards in Python for its private backend only, but the resulting C++ object works
    for any device.
    """
    c10 = _library("libc10.so")
    guards = (ctypes.c_void_p * (_PRIVATE_USE + 1)).in_dll(c10, _GUARDS)
    if guards[_CUDA]:
        # A torch build for CUDA has this function for machines without a GPU.
        ensure: Callable[[], object] = torch._C._ensureCUDADeviceGuardSet
        return ensure
    register = getattr(c10, _REGISTER_GUARD)
    register.argtypes = [ctypes.c_void_p, ctypes.c_int8, ctypes.c_void_p]
    register.restype = None
    python_guards = torch._C._acc

    class Guard(python_guards.DeviceGuard):
        def type_(self) -> Any:
            return torch._C._autograd.DeviceType.CUDA

    def act() -> None:
        registrar = ctypes.create_string_buffer(8)  # an object without members
        private = guards[_PRIVATE_USE]
        guard = Guard()
        python_guards.register_python_privateuseone_device_guard(guard)
        register(registrar, _CUDA, guards[_PRIVATE_USE])
        register(registrar, _PRIVATE_USE, private)
        keep(guard)

    return act


# ---- autograd


def start_autograd() -> None:
    """Make autograd's engine support the device even if a backward pass has already run.

    The engine starts a thread for each device with a guard, but only at its first backward pass.
    """
    cpu = _library("libtorch_cpu.so")
    get_engine = getattr(cpu, _ENGINE)
    get_engine.restype = ctypes.c_void_p
    # In a forked process whose parent has such threads, torch rejects backward passes.
    with suppress(RuntimeError), torch.enable_grad():
        if not _queues(get_engine()):
            torch.ones(1, device="cpu", requires_grad=True).sum().backward()  # type: ignore[no-untyped-call]
        if not _queues(get_engine()):
            start = getattr(cpu, _START_THREADS)
            start.argtypes = [ctypes.c_void_p]
            start.restype = None
            start(get_engine())


def _queues(engine: int) -> int:
    """Return the size in bytes of the engine's first member, the vector of device queues."""
    first, end = (ctypes.c_void_p * 2).from_address(engine + _WORD)
    return (end or 0) - (first or 0)


# ---- the hooks


def _hooks() -> Callable[[], object]:
    """Return an action that makes the hooks report a built and initialised CUDA backend.

    The hooks object gets its own table of virtual functions, in which some of the functions are
    replaced.
    """
    get_hooks = getattr(_library("libtorch_cpu.so"), _HOOKS)
    get_hooks.restype = ctypes.c_void_p
    table_of = ctypes.c_void_p.from_address(get_hooks())
    first = table_of.value or 0
    slots = [*_virtual_functions("AcceleratorHooksInterface.h")]
    slots += _virtual_functions("CUDAHooksInterface.h")
    _check_type(first, len(slots))
    table = (ctypes.c_void_p * (_BEFORE + len(slots)))()
    ctypes.memmove(table, first - _BEFORE * _WORD, ctypes.sizeof(table))
    replaced: dict[str, Any] = dict.fromkeys(_HOOKED, _yes)
    replaced[_DEVICE_OF] = _first_device
    replaced[_PINNED] = getattr(_library("libc10.so"), _HOST_ALLOCATOR)
    for name, function in replaced.items():
        if name not in slots:
            raise LookupError(f"its CUDA hooks have no {name}")
        table[_BEFORE + slots.index(name)] = ctypes.cast(function, ctypes.c_void_p).value

    def act() -> None:
        keep(table)
        keep(_yes)
        keep(_first_device)
        table_of.value = ctypes.addressof(table) + _BEFORE * _WORD

    return act


def _check_type(table: int, functions: int) -> None:
    """Compare the table with torch's headers."""
    # Itanium C++ ABI 2.9.5: a type's own table, then its name, then its base classes; in a CUDA
    # build of torch, the class of the hooks derives from the interface.
    kind = ctypes.c_void_p.from_address(table - _WORD).value or 0
    name = ctypes.string_at(ctypes.c_void_p.from_address(kind + _WORD).value or 0).decode()
    base = ctypes.c_void_p.from_address(kind + 2 * _WORD).value or 0
    derived = name.endswith("CUDAHooksE") and base
    if derived:
        name = ctypes.string_at(ctypes.c_void_p.from_address(base + _WORD).value or 0).decode()
    if name != _INTERFACE:
        raise LookupError(f"its CUDA hooks are of the type {name}")
    present = _entries(table)
    if present is not None and not derived and present != functions:
        raise LookupError(
            f"its CUDA hooks have {present} functions, but its headers declare {functions}"
        )


class _Info(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class _Symbol(ctypes.Structure):
    """The struct `Elf64_Sym`."""

    _fields_ = (
        ("name", ctypes.c_uint32),
        ("info", ctypes.c_uint8),
        ("other", ctypes.c_uint8),
        ("section", ctypes.c_uint16),
        ("value", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
    )


def _entries(table: int) -> int | None:
    """Return the number of functions in a vtable, computed from the size of its symbol.

    Returns:
        The number, or None if the vtable has no symbol.
    """
    lookup = getattr(ctypes.CDLL(None), "dladdr1", None)
    if lookup is None:  # only GNU's C library has it
        return None
    info, symbol = _Info(), ctypes.POINTER(_Symbol)()
    by_symbol = 1  # RTLD_DL_SYMENT
    is_found = lookup(
        ctypes.c_void_p(table), ctypes.byref(info), ctypes.byref(symbol), ctypes.c_int(by_symbol)
    )
    if not is_found or not info.symbol or not symbol:
        return None
    size: int = symbol.contents.size
    return size // _WORD - _BEFORE


def _virtual_functions(header: str) -> list[str]:
    """Read the names of a class's virtual functions, in the order of its table, from a header.

    The headers are those of torch.
    """
    path = Path(torch.__file__).parent / "include" / "ATen" / "detail" / header
    code = re.sub(r"//.*", "", path.read_text("utf-8"))
    if torch.version.hip is None:
        code = re.sub(r"#ifdef USE_ROCM\b.*?#endif", "", code, flags=re.DOTALL)
    names = re.findall(r"\bvirtual\b[^;{]*?(~?\w+)\s*\(", code)
    if not names or not names[0].startswith("~"):
        return names  # an overriding destructor has no new entries
    return [names[0], names[0], *names[1:]]


_yes = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int8)(lambda *_: True)
# c10::Device has two bytes: its type, then its number.
_first_device = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p, ctypes.c_void_p)(
    lambda *_: _CUDA
)
