"""Proves launches of Triton kernels right at all sizes of a range, or finds the least wrong one.

    ttools.prove.check_sizes(run, n=range(1, 1 << 33)).raise_for_findings()

The public names are imported on first use: pytest loads the plugin in this package at the start of
each test run, and that must not import torch or Triton.

PYTEST_DONT_REWRITE: tells pytest not to rewrite the assertions of this package. Where
`ttools sanitize` runs pytest, it is already imported, and pytest would warn about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttools.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ttools.prove.api import SizesResult, check_sizes

__all__ = ["SizesResult", "check_sizes"]

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "api"))
