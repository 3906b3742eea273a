"""Triton's language for eager kernels: modules and functions that need no compiler.

Triton itself is not changed. The copy of a kernel that is executed has its own globals, in which
modules are replaced by views, builtins by functions that call the current session's semantic layer,
and jit functions by their eager versions. Therefore expressions such as `tl.sum(x)` also work at a
debugger's prompt in the kernel.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

from triton import language as tl
from triton.language import core

from ttools.core.ownership import Owner, owner_of_module
from ttools.core.triton_versions import jit_function_class, libdevice_module
from ttools.interpreter.eager import combine, control
from ttools.interpreter.eager.functions import function_for
from ttools.interpreter.eager.session import current
from ttools.interpreter.eager.values import (
    GENERATOR,
    EagerConstexpr,
    bound_class,
    called,
    lift,
    unwrapped,
)

_LIBDEVICE = "triton.language.extra.libdevice"
#: Owners of modules that kernels use unchanged, because their functions only take constants.
_PLAIN: frozenset[Owner] = frozenset({"python", "numpy", "torch", "ml_dtypes"})
#: Modules of torch that contain jit functions, which kernels of TorchInductor call.
_OF_TORCH = ("torch._inductor.",)

#: Functions of the language that the compiler executes itself, by id, and their eager versions.
_STATIC: dict[int, Any] = {
    id(core.range): control.loop_range,
    id(builtins.range): control.loop_range,
    id(core.static_range): control.static_range,
    id(core.static_assert): control.static_assert,
    id(core.static_print): control.static_print,
    id(core.constexpr): EagerConstexpr,
}


class ModuleView:
    """A module whose attributes are replaced by their eager versions."""

    def __init__(self, module: ModuleType) -> None:
        self.__dict__["_module"] = module

    def __getattr__(self, name: str) -> Any:
        return wrap(getattr(self.__dict__["_module"], name))

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["_module"])

    def __repr__(self) -> str:
        return f"<eager view of {self.__dict__['_module'].__name__}>"


def wrap(value: Any) -> Any:
    """Return the object that an eager kernel uses in place of a global object or an attribute."""
    if isinstance(value, ModuleType):
        return _view(value)
    value = _of_libdevice(value)
    static = _STATIC.get(id(value))
    if static is not None:
        return static
    if isinstance(value, type) and getattr(value, "__triton_aggregate__", False):
        return _aggregate(value)
    if getattr(value, "__triton_builtin__", False):
        return _builtin(value)
    if type(value) is tl.constexpr:
        return EagerConstexpr(value)
    if isinstance(value, jit_function_class()):
        return function_for(value)
    if hasattr(type(value), "cache_key") and callable(value):
        return _constexpr_function(value)
    return value


def _view(module: ModuleType) -> Any:
    name = module.__name__
    if owner_of_module(module) in _PLAIN and not name.startswith(_OF_TORCH):
        return module
    return _module_view(libdevice_module() if name == _LIBDEVICE else module)


@lru_cache(maxsize=256)
def _module_view(module: ModuleType) -> ModuleView:
    return ModuleView(module)


def _of_libdevice(value: Any) -> Any:
    """Return the CPU backend's implementation of a function of Triton's libdevice module."""
    if getattr(value, "__module__", "") == _LIBDEVICE:
        return getattr(libdevice_module(), value.__name__, value)
    return value


@lru_cache(maxsize=2048)
def _builtin(function: Callable[..., Any]) -> Callable[..., Any]:
    if function is core.map_elementwise:
        return combine.map_elementwise

    def call(*arguments: Any, **named: Any) -> Any:
        return called(function, current().semantic, arguments, named)

    call.__name__ = getattr(function, "__name__", "builtin")
    call.__doc__ = function.__doc__
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


@lru_cache(maxsize=256)
def _constexpr_function(function: Any) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        return lift(function(*arguments, _semantic=current().semantic, **named))

    call.__name__ = getattr(function, "__name__", "constexpr_function")
    return call


@lru_cache(maxsize=256)
def _aggregate(cls: type) -> Callable[..., Any]:
    bound = bound_class(cls)

    def make(*arguments: Any, **named: Any) -> Any:
        return bound(*arguments, _semantic=current().semantic, _generator=GENERATOR, **named)

    make.__name__ = cls.__name__
    make.__wrapped__ = cls  # type: ignore[attr-defined]
    return make


def language_modules() -> tuple[ModuleType, ...]:
    """Return the modules through which users call functions of the language."""
    return tl, tl.math, libdevice_module()


#: Python functions that the compiler calls with the values of constants.
_OF_CONSTANTS: tuple[Any, ...] = (len, list, float, int, isinstance, getattr, hasattr)


def _on_constants(function: Any) -> Any:
    if isinstance(function, type):
        # Classes stay classes for `isinstance`.
        return function
    return lambda *arguments: function(*map(unwrapped, arguments))


def python_builtins(breakpoint: Callable[..., Any]) -> dict[str, Any]:
    """Return the builtins of Python that a kernel can use.

    Args:
        breakpoint: Function that `breakpoint()` in a kernel calls.
    """
    return {
        **vars(builtins),
        **{function.__name__: _on_constants(function) for function in _OF_CONSTANTS},
        "range": control.loop_range,
        "min": _builtin(core.builtin_min),
        "max": _builtin(core.builtin_max),
        "breakpoint": breakpoint,
    }
