"""Objects that another process finds under their names, or makes anew, instead of copies of them.

`pickle` refuses locks, open files, sockets and whatever else belongs to one process. Most of them
are reached through a module, as the lock in `triton.cdiv` is: another process that imports the
module has its own. A lock of the program itself is made anew, as nobody else holds it there. What
remains is described by an `UnavailableObject`, for launches that can do without it.
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
    "`--workers 0` tunes it in that process, where a configuration that crashes ends the script"
)


class UnavailableObjectError(TtoolsError):
    """A launch uses an object that exists only in the process of the script."""


class UnavailableObject:
    """Takes the place of an object that exists only in the process of the script.

    Args:
        description: What the object is, for the error that any use of it raises.
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
            raise AttributeError(name)  # what pickle, copy and the like ask any object for
        self._refuse()

    __call__ = __setattr__ = __delattr__ = __enter__ = __exit__ = _refuse
    __bool__ = __len__ = __iter__ = __next__ = __getitem__ = __setitem__ = __contains__ = _refuse
    __int__ = __index__ = __float__ = _refuse


def reduced_by_name(value: Any) -> tuple[Any, ...] | None:
    """Return how pickle writes a kernel or a constexpr function by its module and name.

    Returns:
        None if it cannot be imported by its name, and for kernels that are not Triton's own: a
        module may have changed since its kernels were made.
    """
    function = getattr(value, "fn", None)  # methods of objects have none
    module_name = str(getattr(function, "__module__", None))
    value_name = str(getattr(function, "__qualname__", None))
    is_host_function = isinstance(value, triton_versions.constexpr_function_class())
    is_tritons = function is not None and owner_of_function(function) == "triton"
    if not _is_importable(module_name) or not (is_tritons or is_host_function):
        return None
    found: Any = sys.modules[module_name]
    for part in value_name.split("."):
        found = getattr(found, part, None)
    return (resolve_name, (f"{module_name}:{value_name}",)) if found is value else None


def reduced_or_replaced(
    value: Any, reducer: Callable[[Any], Any] | None, replaces: bool
) -> str | tuple[Any, ...]:
    """Return how pickle writes an object, also one that it refuses.

    Args:
        value: An object that is neither a class nor a function written in Python.
        reducer: The pickler's own for objects of this class; None if there is none.
        replaces: If True, an `UnavailableObject` takes the place of what cannot be written.

    Raises:
        Exception: pickle's own, for what it refuses if nothing takes its place.
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
        for key, each in list(vars(module).items()):
            if each is value:
                return resolve_name, (f"{name}:{key}",)
    return None


def _is_importable(name: str) -> bool:
    """Return whether a module is imported by its name in another process."""
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
