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

from ttools.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ttools.sanitizer.api import DEFAULT_TIMEOUT, Sanitization, sanitize

__all__ = ["DEFAULT_TIMEOUT", "Sanitization", "sanitize"]

__getattr__ = lazy_names(
    __name__,
    dict.fromkeys(__all__, "api"),
    moved=dict.fromkeys(("SizesResult", "check_sizes"), "ttools.prove"),
)
