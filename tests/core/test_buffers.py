"""Tests of NumPy arrays as kernel arguments, which share their memory with the kernel."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.buffers import ArrayBuffer, as_argument
from ttools.core.errors import UsageError

TRITON_NAMES = {
    "bool": "*u1",
    "int8": "*i8",
    "uint16": "*u16",
    "int64": "*i64",
    "float16": "*fp16",
    "float32": "*fp32",
    "float64": "*fp64",
    "bfloat16": "*bf16",
    "float8_e4m3fn": "*fp8e4nv",
    "float8_e5m2": "*fp8e5",
    "float8_e4m3fnuz": "*fp8e4b8",
    "float8_e5m2fnuz": "*fp8e5b16",
}


def named(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


@pytest.mark.parametrize(("name", "expected"), TRITON_NAMES.items())
def test_triton_specialises_the_array(name: str, expected: str) -> None:
    from triton.runtime.jit import mangle_type

    assert mangle_type(as_argument(np.zeros(4, named(name)))) == expected


def test_kernel_writes_into_the_array() -> None:
    import triton
    import triton.language as tl

    from ttools.interpreter.api import interpret

    @triton.jit
    def add_one(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets * stride, mask=mask)
        tl.store(out_ptr + offsets, x + 1, mask=mask)

    memory = np.arange(20, dtype=np.float32)
    x = as_argument(memory[::2])
    out = np.zeros(12, ml_dtypes.bfloat16)
    with interpret():
        add_one[(1,)](x, as_argument(out), x.numel(), x.stride(0), BLOCK=16)
    np.testing.assert_array_equal(out.astype(np.float32), [*np.arange(1, 21, 2), 0, 0])


def test_other_values_are_returned_unchanged() -> None:
    marker = object()
    assert as_argument(marker) is marker
    assert as_argument(3) == 3


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3, np.complex64), "Triton has no type for complex64"),
        (np.zeros(3, object), "no type for object"),
        (np.zeros(3, ">f4"), r"byte order .* \.astype\('float32'\)"),
        (np.broadcast_to(np.zeros(1), (3,)), "read-only"),
        (np.zeros(3, [("a", "f4"), ("b", "i1")])["a"], "strides"),
    ],
)
def test_unsupported_arrays_are_errors(array: np.ndarray, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        as_argument(array)


@given(
    rows=st.integers(0, 5),
    columns=st.integers(0, 5),
    order=st.sampled_from("CF"),
    rotate=st.booleans(),
    steps=st.tuples(*[st.sampled_from([-2, -1, 1, 2])] * 2),
)
def test_strides_and_storage_of_views(
    rows: int, columns: int, order: str, rotate: bool, steps: tuple[int, int]
) -> None:
    base = np.zeros((rows, columns), np.float32, order="C" if order == "C" else "F")
    view = base[:: steps[0], :: steps[1]]
    buffer = ArrayBuffer(view.T if rotate else view)
    begin, end = buffer.storage_extent()
    assert end - begin == base.nbytes
    assert buffer.strides == tuple(s // 4 for s in buffer.array.strides)
    for index in np.ndindex(*buffer.shape):
        address = buffer.data_ptr() + 4 * sum(
            i * s for i, s in zip(index, buffer.strides, strict=True)
        )
        assert begin <= address < end
