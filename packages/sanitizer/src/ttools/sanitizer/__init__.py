"""Finds defects in Triton kernels: out-of-bounds accesses, races, uninitialised values.

    with ttools.sanitizer.sanitize() as report:
        kernel[grid](...)
    report.raise_for_findings()

The public names are resolved on first use: the pytest plugin lives in this package, and a test
run that does not use it must not import torch or Triton for it.

PYTEST_DONT_REWRITE: pytest finds this package loaded where `ttools sanitize` runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttools.sanitizer.api import DEFAULT_TIMEOUT, Sanitization, sanitize
    from ttools.sanitizer.sizes.api import SizesResult, check_sizes

__all__ = ["DEFAULT_TIMEOUT", "Sanitization", "SizesResult", "check_sizes", "sanitize"]

_OF_SIZES = frozenset({"SizesResult", "check_sizes"})


def __getattr__(name: str) -> object:
    """Imports a public name when it is first asked for (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _OF_SIZES:
        from ttools.sanitizer.sizes import api as sizes_api

        return getattr(sizes_api, name)
    from ttools.sanitizer import api

    return getattr(api, name)
