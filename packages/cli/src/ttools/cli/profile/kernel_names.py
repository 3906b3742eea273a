"""Readable names of kernels: profilers report mangled C++ names."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache

#: Maximum length of a name.
_MOST = 100


def readable_name(kernel: str) -> str:
    """Return a kernel's name without mangling, return type and parameters, shortened if very long.

    A name stays unchanged if neither torch (which is used only if it was imported) nor a C++
    library can demangle it.
    """
    if not kernel.startswith("_Z"):
        return kernel
    torch = getattr(getattr(sys.modules.get("torch"), "_C", None), "_demangle", None)
    demangle: Callable[[str], str] = torch or _demangled
    name = str(demangle(kernel)).replace("(anonymous namespace)::", "")
    name = _without_parameters(name.removeprefix("void "))
    return shortened(name, _MOST)


def shortened(name: str, width: int) -> str:
    """Shorten a name to at most `width` characters by omitting its middle."""
    if len(name) <= width:
        return name
    end = (width - 1) // 2
    return f"{name[: width - 1 - end]}…{name[-end:]}"


def _without_parameters(name: str) -> str:
    depth = 0
    for at, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0 and at > 0:
            return name[:at].rstrip()
    return name


def _demangled(name: str) -> str:
    library = _library()
    if library is None:
        return name
    status = ctypes.c_int()
    read = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value or not read:
        return name
    try:
        return ctypes.string_at(read).decode()
    finally:
        library.free(ctypes.c_void_p(read))


@cache
def _library() -> ctypes.CDLL | None:
    """Return the C++ library, which demangles names without the slow import of torch."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        library.__cxa_demangle.restype = ctypes.c_void_p
    except (OSError, AttributeError):
        return None
    return library
