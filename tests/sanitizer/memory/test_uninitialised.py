"""Tracking of unwritten memory: exactly the elements that were never written, by any writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import example, given, settings, strategies

from ttools.core.device_map.mapping import map_devices
from ttools.sanitizer import sanitize
from ttools.sanitizer.memory.pattern import fill, holding, new_word
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory


@pytest.fixture
def memory() -> Iterator[UninitialisedMemory]:
    with UninitialisedMemory() as watched:
        yield watched


def unwritten(memory: UninitialisedMemory, tensor: torch.Tensor) -> list[bool]:
    """Return, for each element of the storage, whether any of its bytes was never written."""
    storage = tensor.untyped_storage()
    shadow = memory.shadow_for(storage.data_ptr(), storage.nbytes())
    count = storage.nbytes() // tensor.element_size()
    if shadow is None:
        return [False] * count
    cells: np.ndarray[Any, Any] = shadow.reshape(count, tensor.element_size())
    return [bool(any_) for any_ in cells.any(axis=1)]


_MAKERS: list[Callable[[], torch.Tensor]] = [
    lambda: torch.empty(3, 4),
    lambda: torch.empty_like(torch.zeros(3, 4)),
    lambda: torch.empty_strided((3, 4), (1, 3)),
    lambda: torch.empty_permuted((3, 4), (1, 0)),
    lambda: torch.zeros(2).new_empty(12),
    lambda: torch.zeros(2).new_empty_strided((3, 4), (4, 1)),
    lambda: torch.zeros(2).new(3, 4),
    lambda: torch.Tensor(3, 4),
    lambda: torch.Tensor(torch.Size([3, 4])),
    lambda: torch.empty(0).resize_(3, 4),
    lambda: torch.nn.Parameter(torch.empty(3, 4)),
    lambda: torch.empty(3, 4, requires_grad=True).detach(),
    lambda: torch.zeros(0).set_(torch.UntypedStorage(48), 0, (3, 4), (4, 1)),
    lambda: torch.zeros(0).set_(torch.UntypedStorage(size=48), 0, (12,), (1,)),
]


@pytest.mark.parametrize("make", _MAKERS)
def test_operators_that_return_uninitialised_memory(
    memory: UninitialisedMemory, make: Callable[[], torch.Tensor]
) -> None:
    tensor = make()
    assert unwritten(memory, tensor) == [True] * 12


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(12),
        lambda: torch.tensor([], dtype=torch.uint8).set_(torch.UntypedStorage([1, 2, 3, 4])),
        lambda: torch.zeros(0).set_(torch.ones(3).untyped_storage().clone(), 0, (3,), (1,)),
        lambda: torch.tensor([1.0, 2.0]),
        lambda: torch.Tensor([1, 2, 3]),
        lambda: torch.zeros(2).new([1.0, 2.0]),
        lambda: torch.rand(4) + 1,
        lambda: torch.nn.Linear(3, 4).weight.detach(),
        lambda: torch.empty(12).fill_(3),
        lambda: torch.nn.init.normal_(torch.empty(12)),
    ],
)
def test_operators_that_return_initialised_memory(
    memory: UninitialisedMemory, make: Callable[[], torch.Tensor]
) -> None:
    assert not any(unwritten(memory, make()))


def test_memory_from_before_the_watch_counts_as_written() -> None:
    outside = torch.empty(8)
    with UninitialisedMemory() as memory, memory:
        assert not any(unwritten(memory, outside))


_WRITERS: list[Callable[[torch.Tensor], object]] = [
    lambda x: x[2:5].fill_(1),
    lambda x: torch.add(torch.ones(3), 1, out=x[2:5]),
    lambda x: x.__setitem__(slice(2, 5), 7.0),
    lambda x: x.index_copy_(0, torch.tensor([2, 3, 4]), torch.ones(3)),
    lambda x: x.numpy().__setitem__(slice(2, 5), 1),
    lambda x: np.from_dlpack(x).__setitem__(slice(2, 5), 1),
    lambda x: x.data[2:5].normal_(),
    lambda x: x.as_strided((3,), (1,), 2).copy_(torch.ones(3)),
    lambda x: x.untyped_storage().__setitem__(slice(8, 20), 1),
]


@pytest.mark.parametrize("write", _WRITERS)
def test_all_ways_to_write(
    memory: UninitialisedMemory, write: Callable[[torch.Tensor], object]
) -> None:
    x = torch.empty(8)
    write(x)
    assert unwritten(memory, x) == [n not in (2, 3, 4) for n in range(8)]


def test_threads_and_autograd(memory: UninitialisedMemory) -> None:
    tensors: list[tuple[int, torch.Tensor]] = []

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            scratch = torch.empty_like(grad)
            scratch[:2] = grad[:2]
            tensors.append((threading.get_ident(), scratch))
            return grad * 2

    x = torch.ones(6, requires_grad=True)
    Scaled.apply(x).sum().backward()  # type: ignore[no-untyped-call]
    ((_, scratch),) = tensors
    assert unwritten(memory, scratch) == [False, False, True, True, True, True]

    def make_and_fill(n: int) -> torch.Tensor:
        tensor = torch.empty(8)
        tensor[:n] = 1
        return tensor

    shared = torch.empty(4)
    with ThreadPoolExecutor(4) as pool:
        filled = list(pool.map(make_and_fill, range(8)))
        pool.submit(shared.fill_, 1.0).result()
    for n, tensor in enumerate(filled):
        assert unwritten(memory, tensor) == [k >= n for k in range(8)]
    assert not any(unwritten(memory, shared))


def test_memory_is_watched_until_its_storage_is_freed(memory: UninitialisedMemory) -> None:
    tensor = torch.empty(1000)
    start, nbytes = tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()
    assert memory.is_watched(start)
    view = tensor[10:]
    del tensor
    assert memory.is_watched(start)
    del view
    assert not memory.is_watched(start)
    assert memory.shadow_for(start, nbytes) is None


def test_a_kernel_writes_through_the_shadow(memory: UninitialisedMemory) -> None:
    tensor = torch.empty(6)
    storage = tensor.untyped_storage()
    shadow = memory.shadow_for(storage.data_ptr(), storage.nbytes())
    assert shadow is not None
    assert shadow.ctypes.data % 8 == 0
    shadow[4:8] = 0
    assert unwritten(memory, tensor) == [True, False, True, True, True, True]


def test_growing_keeps_the_state_of_old_elements(memory: UninitialisedMemory) -> None:
    old = torch.ones(4)
    old.resize_(8)
    assert unwritten(memory, old) == [n >= 4 for n in range(8)]
    fresh = torch.empty(6)
    fresh[1] = 1
    fresh.resize_(9)
    assert unwritten(memory, fresh) == [n != 1 for n in range(9)]
    fresh.resize_(3)
    assert unwritten(memory, fresh)[:3] == [True, False, True]


def test_a_storage_grows_without_its_tensor(memory: UninitialisedMemory) -> None:
    tensor = torch.ones(4)
    tensor.untyped_storage().resize_(32)
    assert unwritten(memory, tensor) == [n >= 4 for n in range(8)]
    tensor.untyped_storage().resize_(8)
    assert unwritten(memory, tensor) == [False, False]


def test_unwritten_elements_of_another_watch_are_adopted(memory: UninitialisedMemory) -> None:
    great = torch.empty(1 << 20)
    great[:5] = 1
    tensors = [great, torch.empty(1), torch.ones(9)]
    other = UninitialisedMemory()
    for tensor in tensors:
        assert not any(unwritten(other, tensor)), "the second watch did not see the allocation"
        other.adopt(tensor)
    assert unwritten(other, great) == unwritten(memory, great) == [n >= 5 for n in range(1 << 20)]
    assert (unwritten(other, tensors[1]), any(unwritten(other, tensors[2]))) == ([True], False)
    great.fill_(0)
    assert not any(unwritten(other, great))


def test_copies_stay_unwritten(memory: UninitialisedMemory) -> None:
    source, target = torch.empty(8), torch.empty(8)
    source[:3] = 1
    target.copy_(source)
    assert unwritten(memory, target) == [n >= 3 for n in range(8)]


@pytest.mark.parametrize(
    "copy",
    [
        torch.clone,
        lambda tensor: torch.cat([tensor, torch.ones(2)])[:12],
        lambda tensor: torch.cat([torch.ones(1), tensor])[1:],
        lambda tensor: tensor.view(3, 4).t().contiguous().t().reshape(12),
    ],
)
def test_copies_in_other_memory(memory: UninitialisedMemory, copy: Callable[..., Any]) -> None:
    source = torch.empty(12)
    source[::5] = 1
    target = torch.as_tensor(copy(source))
    storage = target.untyped_storage()
    shadow = memory.shadow_for(storage.data_ptr(), storage.nbytes())
    assert shadow is not None
    begin = target.storage_offset() * 4
    unwritten_bytes = shadow[begin : begin + 48].tolist()
    assert unwritten_bytes == [int(n // 4 % 5 != 0) for n in range(48)]
    target.fill_(2)
    assert memory.shadow_for(storage.data_ptr(), storage.nbytes()) is None


@triton.jit
def fill_and_read(x_ptr, w_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(w_ptr + i, 1.0)
    tl.debug_barrier()
    tl.store(o_ptr + i, 2 * tl.load(x_ptr + i))


def test_a_copy_that_is_passed_twice(memory: UninitialisedMemory) -> None:
    copy = torch.empty(16).clone()
    with sanitize(checks="initcheck") as report:
        fill_and_read[(1,)](copy, copy, torch.empty(16), B=16)
        assert report.findings == []
        fill_and_read[(1,)](copy, torch.empty(16), torch.empty(16), B=16)
        assert report.findings == []
        fill_and_read[(1,)](torch.empty(16).clone(), torch.empty(16), torch.empty(16), B=16)
    assert [finding.argument.name for finding in report.findings if finding.argument] == ["x_ptr"]


@pytest.mark.parametrize("time", range(2))
def test_tensors_of_a_device_map(memory: UninitialisedMemory, time: int) -> None:
    with map_devices({"cuda": "cpu"}):
        tensor = torch.empty(4, device="cuda")
        with UninitialisedMemory() as inner:
            second = torch.empty(4, device="cuda")
            assert unwritten(inner, second) == [True] * 4
    assert unwritten(memory, tensor) == [True] * 4


@given(
    data=strategies.data(),
    dtype=strategies.sampled_from(
        [torch.float32, torch.float64, torch.int64, torch.float16, torch.bfloat16, torch.uint8]
    ),
    count=strategies.integers(8, 40),
)
def test_writes_of_operators_are_tracked_per_element(
    data: Any, dtype: torch.dtype, count: int
) -> None:
    written = data.draw(strategies.lists(strategies.booleans(), min_size=count, max_size=count))
    with UninitialisedMemory() as memory:
        tensor = torch.empty(count, dtype=dtype)
        for n, value in enumerate(written):
            if value:
                tensor[n] = n
        assert unwritten(memory, tensor) == [not value for value in written]


@settings(max_examples=200)
@given(
    data=strategies.data(),
    dtype=strategies.sampled_from([torch.float64, torch.int32, torch.float16, torch.uint8]),
    count=strategies.integers(8, 60),
)
def test_elements_of_unseen_writers_are_never_reported(
    data: Any, dtype: torch.dtype, count: int
) -> None:
    written = np.array(
        data.draw(strategies.lists(strategies.booleans(), min_size=count, max_size=count))
    )
    with UninitialisedMemory() as memory:
        tensor = torch.empty(count, dtype=dtype)
        own, item = tensor.view(torch.uint8).numpy(), tensor.element_size()
        cells = np.repeat(written, item)
        bits = data.draw(strategies.binary(min_size=own.size, max_size=own.size))
        own[cells] = np.frombuffer(bits, np.uint8)[cells]
        reported = np.array(unwritten(memory, tensor))
    assert not (reported & written).any()
    unwritten_bytes = np.zeros(-(-cells.size // 8) * 8, np.bool_)
    unwritten_bytes[: cells.size] = ~cells
    words = np.repeat(unwritten_bytes.reshape(-1, 8).all(axis=1), 8)[: cells.size]
    assert reported[words.reshape(count, item).all(axis=1)].all(), "whole words are always detected"


SIZES = strategies.integers(0, 60) | strategies.integers((1 << 15) - 20, (1 << 15) + 60)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_runs_under_a_device_map_see_and_keep_its_operators() -> None:
    with map_devices({"cuda": "cpu"}):

        def product_of_two() -> float:
            pair = torch.cat([torch.ones(1, 2, device="cuda"), torch.empty(1, 2, device="cuda")])
            return float((pair.tril() @ torch.ones(2, device="cuda")).sum())

        product_of_two()  # before a watch, during one, and after it
        for _ in range(2):
            with UninitialisedMemory() as memory:
                product_of_two()
            assert any("mv" in sentence for sentence in memory.warnings)
            product_of_two()


@given(count=SIZES, first=strategies.integers(0, 60))
@example(count=(1 << 20) + 5, first=3)
@example(count=5, first=2)
def test_the_pattern_is_recognised_as_it_is_filled(count: int, first: int) -> None:
    first = min(first, count)
    padded = np.zeros(count + 16, np.uint8)
    memory = padded[8 : 8 + count]
    pattern = new_word(Random(count))
    fill(memory.ctypes.data, count, first, pattern)
    repeated = pattern * (count // 8 + 1)
    assert memory.tobytes() == b"\0" * first + repeated[first:count]
    assert not padded[:8].any()
    assert not padded[8 + count :].any()
    assert holding(memory, pattern).tolist() == [n >= first for n in range(count)]


def test_large_storages_are_released_when_the_next_one_is_allocated() -> None:
    with UninitialisedMemory() as memory:
        for _ in range(5):
            torch.empty(1 << 20, dtype=torch.uint8)
        kept = torch.empty(1 << 20, dtype=torch.uint8)
        assert list(memory.state()) == [kept.data_ptr()]
        assert memory.is_watched(kept.data_ptr())
