"""Public names of packages that are imported on first use (PEP 562)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    package: str, modules: Mapping[str, str], *, moved: Mapping[str, str] | None = None
) -> Callable[[str], object]:
    """Return the `__getattr__` of a package.

    Args:
        package: Name of the package.
        modules: Maps each public name to the submodule that defines it, or to `""` if the name is
            itself a submodule.
        moved: Maps each former name to the full new name, such as `ttools.prove.prove`. Use of a
            former name issues a `DeprecationWarning` that contains the new one.
    """
    moved = moved or {}

    def getattribute(name: str) -> object:
        if name in moved:
            owner, _, new_name = moved[name].rpartition(".")
            text = f"{package}.{name} is now {moved[name]}"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return getattr(import_module(owner), new_name)
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not modules[name]:
            return import_module(f"{package}.{name}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return getattribute
