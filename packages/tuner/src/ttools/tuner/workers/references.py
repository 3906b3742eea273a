"""Pickling of objects by name, or by a way to create them, instead of by value.

`pickle` rejects locks, open files, sockets and other objects that belong to one process. Most of
these are reached through a module, such as the lock in `triton.cdiv`; a process that imports the
module has an equivalent object. Locks of the user's program are replaced with new locks, because no
other thread holds them in the new process. Any object that remains is replaced with an
`UnavailableObject`, which describes it, for launches that do not use the object.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any, NoReturn

from cloudpickle.cloudpickle import list_registry_pickle_by_value

from ttools.core import triton_versions
from ttools.core.errors import TtoolsError
from ttools.core.ownership import owner_of_function

_PROTOCOL = 5
_LOCKS: dict[type, Callable[[], Any]] = {
    type(threading.Lock()): threading.Lock,
    type(threading.RLock()): threading.RLock,
}

IN_THIS_PROCESS = (
    "use `--workers 0` to tune it in the script's process, where a crash of a configuration "
    "terminates the script"
)


class UnavailableObjectError(TtoolsError):
    """A launch uses an object that exists only in the process of the script."""


class UnavailableObject:
    """Takes the place of an object that exists only in the process of the script.

    Args:
        description: Description of the object, for the error that is raised on any use of it.
    """

    def __init__(self, description: str) -> None:
        self.__dict__["_description"] = description

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._description,)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise UnavailableObjectError(
            f"it uses {self.__dict__['_description']}, which exists only in the script's process; "
            f"{IN_THIS_PROCESS}"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # pickle and copy probe any object for these
        self._refuse()

    __call__ = __setattr__ = __delattr__ = __enter__ = __exit__ = _refuse
    __bool__ = __len__ = __iter__ = __next__ = __getitem__ = __setitem__ = __contains__ = _refuse
    __int__ = __index__ = __float__ = _refuse


def reduced_by_name(value: Any) -> tuple[Any, ...] | None:
    """Return the form in which pickle writes a kernel or a constexpr function by module and name.

    Returns:
        None if the name does not lead to the object, or if it is a kernel outside Triton itself,
        whose module may have changed since it was imported.
    """
    function = getattr(value, "fn", None)  # methods of objects have none
    module_name = str(getattr(function, "__module__", None))
    value_name = str(getattr(function, "__qualname__", None))
    is_host_function = isinstance(value, triton_versions.constexpr_function_class())
    is_tritons = function is not None and owner_of_function(function) == "triton"
    if not _is_importable(module_name) or not (is_tritons or is_host_function):
        return None
    value_by_name: Any = sys.modules[module_name]
    for part in value_name.split("."):
        value_by_name = getattr(value_by_name, part, None)
    return (resolve_name, (f"{module_name}:{value_name}",)) if value_by_name is value else None


def reduced_or_replaced(
    value: Any, reducer: Callable[[Any], Any] | None, replaces: bool
) -> str | tuple[Any, ...]:
    """Return the form in which pickle writes an object, even one that pickle itself rejects.

    Args:
        value: An object that is neither a class nor a function written in Python.
        reducer: The pickler's own reducer for objects of this class; None if there is none.
        replaces: If True, an object that cannot be written is replaced by an `UnavailableObject`.

    Raises:
        Exception: Raised by pickle for an object that it rejects, unless it is replaced.
    """
    reduced: str | tuple[Any, ...]
    try:
        reduced = value.__reduce_ex__(_PROTOCOL) if reducer is None else reducer(value)
    except Exception:
        reference = _global_of_a_module(value)
        if reference is not None:
            return reference
        if type(value) in _LOCKS:
            return _LOCKS[type(value)], ()
        if not replaces:
            raise
        return UnavailableObject, (_description(value),)
    return reduced


def _global_of_a_module(value: Any) -> tuple[Any, ...] | None:
    for name, module in list(sys.modules.items()):
        if not _is_importable(name):
            continue
        for key, member in list(vars(module).items()):
            if member is value:
                return resolve_name, (f"{name}:{key}",)
    return None


def _is_importable(name: str) -> bool:
    """Return whether another process can import a module by its name."""
    module = sys.modules.get(name)
    if module is None or name in ("__main__", "__mp_main__"):
        return False
    by_value = list_registry_pickle_by_value()
    parts = name.split(".")
    if any(".".join(parts[:count]) in by_value for count in range(1, len(parts) + 1)):
        return False
    return getattr(module, "__spec__", None) is not None


def _description(value: Any) -> str:
    kind = type(value)
    if isinstance(value, io.IOBase):
        return f"the open file {getattr(value, 'name', '')!r}"
    return f"an object of {kind.__module__}.{kind.__qualname__}"
