"""Tests that sources of kernels are equal if and only if they compile to the same code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import triton.language as tl

from ttools.core.compilation.kernel_source import KernelSource


def source(constant: Any) -> KernelSource:
    signature = {"x_ptr": "*fp32", "c": "constexpr"}
    return KernelSource(name="k", signature=signature, constants={(1,): constant})


#: Constants of which no two compile to the same code.
DIFFERENT = [
    *(0, 1, True, False, 1.0, 0.0, -0.0, float("nan"), None, "1", (1,), [1], (1.0,), (True,), ()),
    *(tl.float16, tl.float32),
]


@pytest.mark.parametrize("n", range(len(DIFFERENT)))
def test_constants_with_different_code_are_different(n: int) -> None:
    for m, other in enumerate(DIFFERENT):
        left, right = source(DIFFERENT[n]), source(other)
        assert (left == right) == (n == m), (DIFFERENT[n], other)
        if n == m:
            assert hash(left) == hash(right)


def test_all_fields_are_compared_except_the_launch_site() -> None:
    plain = source(1)
    assert replace(plain, launched="s.py:3") == plain
    for other in (
        replace(plain, name="other"),
        replace(plain, function=len),
        replace(plain, options={"num_warps": 8}),
        replace(plain, hints={(0,): [["tt.divisibility", 16]]}),
        replace(plain, signature={"x_ptr": "*fp16", "c": "constexpr"}),
    ):
        assert other != plain
    assert plain != "k"
    unhashable = {"a": 1}
    assert source(unhashable) == source(unhashable)
