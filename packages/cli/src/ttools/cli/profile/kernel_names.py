"""Names of kernels as people know them: those of C++ are mangled in what the profiler sees."""

from __future__ import annotations

import sys

#: Characters of a name that is longer.
_MOST = 100


def readable_name(kernel: str) -> str:
    """A kernel's name without mangling, return type and parameters, cut where it is very long.

    Names stay as they are where torch, which can read them, has not been imported.
    """
    demangle = getattr(getattr(sys.modules.get("torch"), "_C", None), "_demangle", None)
    if not kernel.startswith("_Z") or demangle is None:
        return kernel
    name = str(demangle(kernel)).replace("(anonymous namespace)::", "")
    name = _without_parameters(name.removeprefix("void "))
    return name if len(name) <= _MOST else name[: _MOST - 1] + "…"


def _without_parameters(name: str) -> str:
    depth = 0
    for at, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0 and at > 0:
            return name[:at].rstrip()
    return name
