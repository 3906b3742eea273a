"""Sources of kernels are equal if a compiler makes the same of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import triton.language as tl

from ttools.core.compilation.kernel_source import KernelSource


def source(constant: Any) -> KernelSource:
    signature = {"x_ptr": "*fp32", "c": "constexpr"}
    return KernelSource(name="k", signature=signature, constants={(1,): constant})


#: No two of them are compiled alike.
DIFFERENT = [
    *(0, 1, True, False, 1.0, 0.0, -0.0, float("nan"), None, "1", (1,), [1], (1.0,), (True,), ()),
    *(tl.float16, tl.float32),
]


@pytest.mark.parametrize("n", range(len(DIFFERENT)))
def test_constants_are_compared_as_a_compiler_sees_them(n: int) -> None:
    for m, other in enumerate(DIFFERENT):
        one, two = source(DIFFERENT[n]), source(other)
        assert (one == two) == (n == m), (DIFFERENT[n], other)
        if n == m:
            assert hash(one) == hash(two)


def test_everything_but_the_place_of_the_launch_matters() -> None:
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
