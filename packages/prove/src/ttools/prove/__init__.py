"""Proves launches of Triton kernels right at all sizes of a range, or finds the least wrong one.

    ttools.prove.check_sizes(run, n=range(1, 1 << 33)).raise_for_findings()

The public names are resolved on first use: the pytest plugin lives in this package, and a test
run that does not use it must not import torch or Triton for it.

PYTEST_DONT_REWRITE: pytest finds this package loaded where `ttools sanitize` runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttools.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ttools.prove.api import SizesResult, check_sizes

__all__ = ["SizesResult", "check_sizes"]

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "api"))
