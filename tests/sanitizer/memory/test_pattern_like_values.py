"""Written values that look like the pattern of unwritten memory are not reported.

Programs cannot know the random words with which the sanitizer fills storages. The test reads these
words from memory and stores them in tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer import sanitize

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.float8_e5m2, torch.float8_e4m3fn,
]  # fmt: skip
N, BLOCK = 1003, 128
#: Words with which older versions of the sanitizer, and other tools, fill memory.
KNOWN = [bytes.fromhex(each) for each in ("d7e1", "f9ff", "cdcd", "bebe", "efbeadde", "ffff", "7f")]


@triton.jit
def copied(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def added_in_place(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, (x.to(tl.float32) * 1).to(x.dtype), mask=i < n)


def raw(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of a tensor, in a way that is not seen as a read."""
    return memory(tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes)


def planted(bits: bytes, dtype: torch.dtype) -> Iterator[torch.Tensor]:
    """Yield tensors that contain given bits.

    The bits are in all elements, at the start of some, in one, and in all but one.
    """
    item = torch.empty(0, dtype=dtype).element_size()
    whole = np.frombuffer((bits * (N * item))[: N * item], np.uint8)
    other = np.full((N, item), 0x11, np.uint8)
    for where in ("whole", "halves", "one", "two", "all but one", "last"):
        elements = whole.reshape(N, item).copy()
        marks = np.zeros(N, np.bool_)
        if where == "halves":
            marks[: N // 2] = True
        elif where in ("one", "two"):
            marks[700 : 702 if where == "two" else 701] = True
        elif where == "last":
            marks[-1] = True
        elif where == "all but one":
            marks[:] = True
            marks[5] = False
        else:
            marks[:] = True
        elements[~marks] = other[~marks]
        if dtype is torch.bool:
            elements &= 1
        tensor = torch.zeros(N * item, dtype=torch.uint8)
        tensor.numpy()[:] = elements.reshape(-1)
        yield tensor.view(dtype)


def filled_with(dtype: torch.dtype) -> Callable[[torch.Tensor], bytes]:
    """Return a function that reads the word with which a storage of this run was filled."""
    return lambda tensor: raw(tensor)[:8].tobytes()


def through_kernels(values: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(values)
    copied[(triton.cdiv(N, BLOCK),)](values, out, N, B=BLOCK)
    again = torch.empty_like(out)
    copied[(triton.cdiv(N, BLOCK),)](out, again, N, B=BLOCK)
    if out.dtype not in (torch.bool, torch.int64, torch.float64):
        added_in_place[(triton.cdiv(N, BLOCK),)](again, N, B=BLOCK)
    return again


def used(tensor: torch.Tensor) -> None:
    """Read a tensor in all ways in which the host can."""
    tensor.clone()
    tensor.view(torch.uint8).sum()
    tensor.tolist()
    tensor.view(torch.uint8).numpy().copy()


COPIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "clone": torch.clone,
    "cat": lambda x: torch.cat([x.view(torch.uint8), x.view(torch.uint8)])[: x.nbytes].view(
        x.dtype
    ),
    "index": lambda x: x.view(torch.uint8)[torch.arange(x.nbytes)].view(x.dtype),
    "slices": lambda x: _by_slices(x),
    "numpy": lambda x: _by_numpy(x),
    "out": lambda x: torch.bitwise_or(
        x.view(torch.uint8), 0, out=torch.empty(x.nbytes, dtype=torch.uint8)
    ).view(x.dtype),
    "view": lambda x: x.view(torch.uint8).clone().view(x.dtype),
}


def _by_slices(x: torch.Tensor) -> torch.Tensor:
    new = torch.empty_like(x)
    new[: N // 3] = x[: N // 3]
    new[N // 3 :].copy_(x[N // 3 :])
    return new


def _by_numpy(x: torch.Tensor) -> torch.Tensor:
    new = torch.empty_like(x)
    new.view(torch.uint8).numpy()[:] = x.view(torch.uint8).numpy()
    return new


@pytest.mark.parametrize(
    ("checks", "poison"),
    [
        ("default", False),
        ("initcheck", True),
        pytest.param("default", True, marks=pytest.mark.slow),
        pytest.param("initcheck", False, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_known_patterns(dtype: torch.dtype, checks: str, poison: bool) -> None:
    with sanitize(checks=checks, poison=poison) as report:
        for bits in KNOWN:
            for values in planted(bits, dtype):
                used(through_kernels(values))
    assert report.findings == []
    assert report.warnings == []


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies(dtype: torch.dtype, copy: str) -> None:
    out = torch.zeros(N, dtype=dtype)
    with sanitize(checks="initcheck") as report:
        for bits in KNOWN[:2]:
            for values in planted(bits, dtype):
                mine = COPIES[copy](values)
                copied[(triton.cdiv(N, BLOCK),)](mine, out, N, B=BLOCK)
                used(mine)
                assert np.array_equal(raw(out), raw(values))
    assert report.findings == []
    assert report.warnings == []


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_word_of_another_storage(dtype: torch.dtype) -> None:
    with sanitize() as report:
        for _ in range(3):
            probe = torch.empty(N, dtype=dtype)
            for values in planted(raw(probe)[:8].tobytes(), dtype):
                used(through_kernels(COPIES["clone"](values)))
                used(through_kernels(_by_numpy(values)))
    assert report.findings == []


@pytest.mark.parametrize("checks", ["default", "initcheck"])
@pytest.mark.parametrize("elements", [1, 5, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_equal_to_the_word_of_their_own_storage(
    dtype: torch.dtype, elements: int, checks: str
) -> None:
    """Store values that the output already contains, the worst case that can occur by chance."""
    with sanitize(checks=checks) as report:
        values, out = torch.zeros(N, dtype=dtype), torch.empty(N, dtype=dtype)
        item = out.element_size()
        for n in range(elements):
            at = slice((30 + 9 * n) * item, (31 + 9 * n) * item)
            raw(values)[at] = raw(out)[at]
        copied[(triton.cdiv(N, BLOCK),)](values, out, N, B=BLOCK)
        used(out)
    assert report.findings == []


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_whole_tensor_equal_to_the_word_of_its_storage(dtype: torch.dtype) -> None:
    with sanitize() as report:
        values, out = torch.zeros(N, dtype=dtype), torch.empty(N, dtype=dtype)
        raw(values)[:] = raw(out)
        copied[(triton.cdiv(N, BLOCK),)](values, out, N, B=BLOCK)
        used(out)
    assert report.findings == [], "the log of the launch has the stores"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_unwritten_elements_beside_such_values_are_found(dtype: torch.dtype) -> None:
    for bits in KNOWN[:2]:
        for values in planted(bits, dtype):
            with sanitize() as report:
                out = torch.empty(N, dtype=dtype)
                copied[(N // BLOCK,)](values, out, N, B=BLOCK)
                out.clone()
            (finding,) = report.findings
            first_unwritten = N - N // BLOCK * BLOCK
            assert finding.message.startswith(f"{first_unwritten} of 1,003 elements of `o_ptr`")
