"""Finds defects in Triton kernels: out-of-bounds accesses, races, uninitialised values.

    with ttools.sanitizer.sanitize() as report:
        kernel[grid](...)
    report.raise_for_failures()

The public names are imported on first use: pytest loads the plugin in this package at the start of
each test run, and that must not import torch or Triton.

PYTEST_DONT_REWRITE: tells pytest not to rewrite the assertions of this package. If
`ttools sanitize` runs pytest, the package is already imported, and pytest would print a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttools.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ttools.sanitizer.api import DEFAULT_TIMEOUT, Sanitization, sanitize

__all__ = ["DEFAULT_TIMEOUT", "Sanitization", "sanitize"]

__getattr__ = lazy_names(
    __name__,
    dict.fromkeys(__all__, "api"),
    moved={"SizesResult": "ttools.prove.SizesResult", "check_sizes": "ttools.prove.prove"},
)
