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
        moved: Maps each name that has moved to its new package. Access through the old package
            issues a `DeprecationWarning` that names the new one.
    """
    moved = moved or {}

    def getattribute(name: str) -> object:
        if name in moved:
            new = moved[name]
            text = f"{package}.{name} has moved: import it from {new}, as {new}.{name}"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return getattr(import_module(new), name)
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not modules[name]:
            return import_module(f"{package}.{name}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return getattribute
