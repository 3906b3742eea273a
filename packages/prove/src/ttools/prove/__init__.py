"""Proofs that launches of Triton kernels are correct at all sizes, or the smallest size that fails.

    ttools.prove.prove(run, n=range(1, 1 << 33)).raise_for_failures()

The public names are imported on first use. pytest loads the plugin of this package at the start of
each test run, which must not import torch or Triton.

PYTEST_DONT_REWRITE: this word keeps pytest from rewriting the assertions of this package. If
`ttools sanitize` runs pytest, the package is already imported, and pytest would print a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttools.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ttools.prove.api import SizesResult, prove

__all__ = ["SizesResult", "prove"]

__getattr__ = lazy_names(
    __name__, dict.fromkeys(__all__, "api"), moved={"check_sizes": "ttools.prove.prove"}
)
