"""References for tests whose tolerances are too strict for torch's own CPU results.

The tolerances were chosen for small numbers on a GPU. They assume a nearly exact reference, and
sums whose terms do not cancel.
"""

from __future__ import annotations

import functools
from typing import Any

#: The unit roundoff of float32.
_ROUNDOFF = 2.0**-24


def compare_products_by_their_terms() -> None:
    """Compare half-precision products with exact references and a bound on float32 sums.

    Afterwards, `torch.matmul` of half-precision matrices on the CPU sums in double precision, and
    comparisons of its result by `torch.testing.assert_close` allow an additional error. This is the
    greatest error of a float32 sum in any order: K u Σ|a||b|, for K terms and the unit roundoff u
    (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 3.1). If terms cancel, this
    error can exceed 1% of the sum.
    """
    import torch
    from torch.utils.weak import WeakIdKeyDictionary

    bounds: Any = WeakIdKeyDictionary()
    original, assert_close = torch.matmul, torch.testing.assert_close
    half = (torch.float16, torch.bfloat16)

    @functools.wraps(original)
    def matmul(left: Any, right: Any, **options: Any) -> Any:
        if left.dtype not in half or left.device.type != "cpu" or options:
            return original(left, right, **options)
        left_wide, right_wide = left.double(), right.double()
        product = original(left_wide, right_wide).to(left.dtype)
        terms = original(left_wide.abs(), right_wide.abs())
        bounds[product] = left.shape[-1] * _ROUNDOFF * terms
        return product

    @functools.wraps(assert_close)
    def close(actual: Any, expected: Any, **options: Any) -> None:
        try:
            assert_close(actual, expected, **options)
        except AssertionError:
            bound = bounds.get(expected)
            if bound is None or actual.shape != expected.shape or actual.dtype != expected.dtype:
                raise
            wanted = expected.double()
            allowed = bound + options.get("atol", 0.0) + options.get("rtol", 0.0) * wanted.abs()
            if not bool(((actual.double() - wanted).abs() <= allowed).all()):
                raise

    setattr(torch, "matmul", matmul)  # noqa: B010 (its type differs)
    setattr(torch.testing, "assert_close", close)  # noqa: B010
