"""Tests that out-of-bounds accesses are skipped and reported by default."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ttools.core.buffers import as_argument
from ttools.core.triton_versions import triton_version
from ttools.interpreter import interpret
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.run import notices
from ttools.interpreter.run.bounds import GUARDS


@triton.jit
def copy_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


@triton.jit
def add_kernel(out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + offsets, 1, mask=offsets < n)


@triton.jit
def swap_kernel(out_ptr, seen_ptr, at):
    tl.store(seen_ptr, tl.atomic_cas(out_ptr + at, 0, 5))


@triton.jit
def gather_kernel(out_ptr, x_ptr, index_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tensor_in_array = offsets < n
    index = tl.load(index_ptr + offsets, mask=tensor_in_array, other=0)
    tl.store(out_ptr + offsets, tl.load(x_ptr + index, mask=tensor_in_array), mask=tensor_in_array)


@triton.jit
def walk_kernel(out_ptr, x_ptr, rounds, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    pointers = x_ptr + lanes
    for _ in range(rounds):
        total += tl.load(pointers)
        pointers += BLOCK
    tl.store(out_ptr + lanes, total)


@triton.jit
def table_kernel(out_ptr, table_ptr, count, offset, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    for n in range(count):
        source = tl.load(table_ptr + n).to(tl.pointer_type(tl.float32))
        tl.store(out_ptr + n * BLOCK + lanes, tl.load(source + offset + lanes))


@triton.jit
def returning_kernel(out_ptr, n):
    element = tl.program_id(0)
    if element >= n:
        return
    tl.store(out_ptr + element, 1.0)


@triton.jit
def wrapping_kernel(out_ptr, far, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK).to(tl.int64)
    tl.store(out_ptr + (lanes * far), 7.0)


@triton.jit
def described_kernel(out_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    described = tl.make_tensor_descriptor(out_ptr, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    described.store([tl.program_id(0) * ROWS, 0], tl.full((ROWS, COLUMNS), 1.0, tl.float32))


@triton.jit
def block_pointer_kernel(out_ptr, rows, columns, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(
        out_ptr,
        (rows, columns),
        (columns, 1),
        (tl.program_id(0) * BLOCK, 0),
        (BLOCK, BLOCK),
        (1, 0),
    )
    for _ in range(0, columns, BLOCK):
        tl.store(block, tl.full((BLOCK, BLOCK), 1.0, tl.float32), boundary_check=(0, 1))
        block = tl.advance(block, (0, BLOCK))


def tensor_in_array(
    size: int, before: int = 64, **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a tensor whose storage is a part of a larger array, and this array."""
    options.setdefault("dtype", torch.float32)
    item = torch.empty(0, **options).element_size()
    memory = np.zeros(((2 * before + size) * item,), np.uint8)
    part = memory[before * item : (before + size) * item]
    # The tensor has a separate storage, whose memory the array keeps alive.
    tensor = torch.frombuffer((ctypes.c_char * len(part)).from_buffer(part.data), **options)
    return tensor, torch.from_numpy(memory)


def bytes_outside(array: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of the array outside of the tensor."""
    first = tensor.data_ptr() - array.data_ptr()
    last = first + tensor.numel() * tensor.element_size()
    return torch.cat([array[:first], array[last:]])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("schedule", ["fused", "materialised"])
def test_stores_outside_are_skipped(threads: int, schedule: Any) -> None:
    out, array = tensor_in_array(100)
    x = torch.arange(128, dtype=torch.float32)
    with interpret(threads=threads, schedule=schedule) as run:
        copy_kernel[(8,)](out, x, 128, BLOCK=16)
    assert torch.equal(out, x[:100])
    assert not bytes_outside(array, out).any()
    (skipped,) = run.skipped
    assert (skipped.kernel, skipped.kind, skipped.lanes) == ("copy_kernel", "store", 28)
    assert skipped.location is not None
    assert skipped.location.line == copy_kernel.starting_line_number + 3


def test_loads_outside_return_zero() -> None:
    x, array = tensor_in_array(100)
    array.fill_(255)
    x.fill_(3.0)
    out = torch.full((128,), -1.0)
    with interpret() as run:
        copy_kernel[(8,)](out, x, 128, BLOCK=16)
    assert out.tolist() == [3.0] * 100 + [0.0] * 28
    assert [skipped.lanes for skipped in run.skipped] == [28]


def test_atomics_outside_are_skipped() -> None:
    out, array = tensor_in_array(100, dtype=torch.int32)
    returned = torch.full((1,), 9, dtype=torch.int32)
    with interpret() as run:
        add_kernel[(8,)](out, 128, BLOCK=16)
        swap_kernel[(1,)](out, returned, 100)
        swap_kernel[(1,)](out, returned, -1)
    assert out.tolist() == [1] * 100
    assert returned.item() == 0
    assert not bytes_outside(array, out).any()
    assert [(s.kind, s.lanes) for s in run.skipped] == [("atomic", n) for n in (28, 1, 1)]


def test_indices_from_memory() -> None:
    index = torch.tensor([0, 99, 100, -1, -100, 2**31 - 1, -(2**31), 5], dtype=torch.int32)
    x, _ = tensor_in_array(100)
    x.copy_(torch.arange(1, 101, dtype=torch.float32))
    out = torch.full((8,), -1.0)
    with interpret() as run:
        gather_kernel[(1,)](out, x, index, 8, BLOCK=8)
    assert out.tolist() == [1.0, 100.0, 0.0, 0.0, 0.0, 0.0, 0.0, 6.0]
    assert [skipped.lanes for skipped in run.skipped] == [5]


def test_pointers_that_a_loop_moves() -> None:
    x, _ = tensor_in_array(40)
    x.fill_(1.0)
    out = torch.zeros(16)
    with interpret() as run:
        walk_kernel[(1,)](out, x, 2, BLOCK=16)
        assert run.skipped == []
        walk_kernel[(1,)](out, x, 4, BLOCK=16)
    assert out.tolist() == [3.0] * 8 + [2.0] * 8
    assert [skipped.lanes for skipped in run.skipped] == [24]


def test_64_bit_addresses_that_wrap() -> None:
    out, array = tensor_in_array(4)
    with interpret() as run:
        for far in (2**60, 2**62, -(2**61), 2**63 - 1):
            wrapping_kernel[(1,)](out, far, BLOCK=4)
    assert out[0] == 7.0
    assert not bytes_outside(array, out).any()
    # 2**62 elements of 4 bytes are 2**64 bytes, so that all lanes store to the first element. With
    # -(2**61) elements, half of them do.
    assert [skipped.lanes for skipped in run.skipped] == [3, 2, 3]


def test_tables_of_pointers() -> None:
    tensors = [torch.full((16,), float(n)) for n in range(3)]
    table = torch.tensor([tensor.data_ptr() for tensor in tensors])
    out = torch.full((48,), -1.0)
    with interpret() as run:
        table_kernel[(1,)](out, table, 3, 0, BLOCK=16)
        assert run.skipped == []
        assert out.tolist() == [float(n // 16) for n in range(48)]
        later = torch.full((16,), 7.0)  # a tensor that is newer than the launch is also found
        table[1] = later.data_ptr()
        table_kernel[(1,)](out, table, 3, 0, BLOCK=16)
        assert out[16:32].tolist() == [7.0] * 16
        assert run.skipped == []
        table[2] = 64  # an address outside of all tensors
        table_kernel[(1,)](out, table, 3, 0, BLOCK=16)
    assert out[32:].tolist() == [0.0] * 16
    assert [skipped.lanes for skipped in run.skipped] == [16]


def test_views_can_be_left_for_their_storage() -> None:
    array = torch.arange(64, dtype=torch.float32)
    out = torch.zeros(32)
    with interpret() as run:
        copy_kernel[(2,)](out, array[16:20], 32, BLOCK=16)
    assert torch.equal(out, array[16:48])
    assert run.skipped == []


def test_tensors_without_elements() -> None:
    nothing, out = torch.zeros(0), torch.full((4,), -1.0)
    with interpret() as run:
        copy_kernel[(1,)](nothing, nothing, 0, BLOCK=4)
        assert run.skipped == []
        copy_kernel[(1,)](out, nothing, 4, BLOCK=4)
        copy_kernel[(1,)](nothing, out, 4, BLOCK=4)
    assert out.tolist() == [0.0] * 4
    assert [(entry.kind, entry.lanes) for entry in run.skipped] == [("load", 4), ("store", 4)]


def test_bounds_of_arrays() -> None:
    memory = np.zeros(64, np.float32)
    part = memory[:16].copy()
    with interpret() as run:
        copy_kernel[(2,)](as_argument(part), torch.ones(32), 32, BLOCK=16)
    assert part.tolist() == [1.0] * 16
    assert [skipped.lanes for skipped in run.skipped] == [16]


class Wrapper:
    """A pointer to memory of unknown size."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor, self.dtype = tensor, tensor.dtype

    def data_ptr(self) -> int:
        return self._tensor.data_ptr()


def test_memory_of_unknown_size_is_not_guarded() -> None:
    out = torch.zeros(32)
    with interpret() as run:
        copy_kernel[(2,)](Wrapper(out[:16]), torch.ones(32), 32, BLOCK=16)
    assert out.tolist() == [1.0] * 32
    assert run.skipped == []


def test_bounds_of_descriptors_follow_from_their_shape() -> None:
    out, array = tensor_in_array(60)
    with interpret() as run:
        described_kernel[(4,)](out, 6, 10, ROWS=4, COLUMNS=16)
        assert out.tolist() == [1.0] * 60
        assert run.skipped == []
        described_kernel[(4,)](out, 8, 10, ROWS=4, COLUMNS=16)
    assert not bytes_outside(array, out).any()
    assert [skipped.lanes for skipped in run.skipped] == [20]


@pytest.mark.skipif(triton_version() >= (3, 8), reason="Triton 3.8 removed block pointers")
def test_bounds_of_block_pointers_follow_from_their_shape() -> None:
    out, array = tensor_in_array(60)
    with interpret() as run:
        block_pointer_kernel[(2,)](out, 6, 10, BLOCK=4)
        assert out.tolist() == [1.0] * 60
        assert run.skipped == []
        block_pointer_kernel[(2,)](out, 8, 10, BLOCK=4)
    assert not bytes_outside(array, out).any()
    assert sum(skipped.lanes for skipped in run.skipped) == 20


def test_unsafe_disables_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for unsafe, variable in ((True, None), (None, "1")):
        if variable:
            monkeypatch.setenv("TTOOLS_UNSAFE", variable)
        out, array = tensor_in_array(16)
        with interpret(unsafe=unsafe) as run:
            copy_kernel[(2,)](out, torch.ones(32), 32, BLOCK=16)
        assert bytes_outside(array, out).view(torch.float32)[64:80].tolist() == [1.0] * 16
        assert run.skipped == []
    with interpret(unsafe=False) as run:
        copy_kernel[(2,)](out, torch.ones(32), 32, BLOCK=16)
    assert [skipped.lanes for skipped in run.skipped] == [16]


@pytest.mark.parametrize("changed", ["scalar", "grid", "storage", "nothing"])
def test_launches_after_equal_ones_are_guarded(changed: str) -> None:
    out, array = tensor_in_array(100)
    x = torch.arange(256, dtype=torch.float32)
    smaller = out[:0].set_(out.untyped_storage()[: 64 * 4], 0, (64,), (1,))
    with interpret(unsafe=True):
        copy_kernel[(8,)](out, x, 100, BLOCK=16)
    with interpret() as run:
        for _ in range(3):
            copy_kernel[(8,)](out, x, 100, BLOCK=16)
        assert run.skipped == []
        if changed == "scalar":
            copy_kernel[(8,)](out, x, 128, BLOCK=16)
        elif changed == "grid":
            copy_kernel[(7,)](out, x, 256, BLOCK=16)
        elif changed == "storage":
            copy_kernel[(8,)](smaller, x, 100, BLOCK=16)
        else:
            out.zero_()
            copy_kernel[(8,)](out, x, 100, BLOCK=16)
    assert torch.equal(out, x[:100])
    assert not bytes_outside(array, out).any()
    lanes = {"scalar": [28], "grid": [12], "storage": [36], "nothing": []}[changed]
    assert [skipped.lanes for skipped in run.skipped] == lanes


def test_each_line_is_reported_once(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "_skipped", set())
    out = torch.zeros(100)
    for _ in range(3):
        copy_kernel[(8,)](out, out.clone(), 128, BLOCK=16)
    printed = capfd.readouterr()
    assert printed.out == ""
    warnings = [line for line in printed.err.splitlines() if "warning" in line]
    line = copy_kernel.starting_line_number + 3
    assert [text.split(";")[0] for text in warnings] == [
        f"ttools: warning: kernel `copy_kernel` at {__file__}:{line}: 28 {accesses} outside its "
        "tensors were skipped in the first launch with such accesses"
        for accesses in ("loads", "stores")
    ]
    assert all("`ttools sanitize" in text for text in warnings)


class Observer:
    """An observer that runs launches with some instruments."""

    def __init__(self, instruments: Instruments) -> None:
        self.instruments = instruments
        self.monitors: list[Any] = []

    def launch(self, launch: Any) -> Any:
        report = launch.execute(self.instruments)
        self.monitors.append(launch.monitor)
        return report


@pytest.mark.parametrize("instruments", [Instruments(), Instruments(lines=True)])
def test_observed_launches_are_guarded(instruments: Instruments) -> None:
    out, array = tensor_in_array(100)
    with interpret(observer=Observer(instruments)) as run:
        copy_kernel[(8,)](out, torch.ones(128), 128, BLOCK=16)
    assert not bytes_outside(array, out).any()
    assert [skipped.lanes for skipped in run.skipped] == [28]


def _launches() -> list[tuple[Any, Any]]:
    """Return launches with the number of their accesses that need no guard."""
    f32 = torch.float32
    return [
        (lambda: copy_kernel[(8,)](torch.zeros(128), torch.zeros(128), 128, BLOCK=16), 2),
        (lambda: copy_kernel[(8,)](torch.zeros(100), torch.zeros(100), 100, BLOCK=16), 2),
        (lambda: copy_kernel[(8,)](torch.zeros(100), torch.zeros(128), 128, BLOCK=16), 1),
        (lambda: copy_kernel[(8,)](torch.zeros(100)[1:], torch.zeros(101), 100, BLOCK=16), 1),
        (lambda: add_kernel[(8,)](torch.zeros(128, dtype=torch.int32), 128, BLOCK=16), 1),
        (lambda: walk_kernel[(1,)](torch.zeros(16), torch.zeros(64), 4, BLOCK=16), 2),
        (lambda: walk_kernel[(1,)](torch.zeros(16), torch.zeros(63), 4, BLOCK=16), 1),
        (lambda: returning_kernel[(9,)](torch.zeros(5), 5), 1),
        (lambda: returning_kernel[(9,)](torch.zeros(5), 6), 0),
        (
            lambda: gather_kernel[(1,)](
                torch.zeros(8), torch.zeros(9), torch.zeros(8, dtype=torch.int32), 8, BLOCK=8
            ),
            2,
        ),
        (lambda: described_kernel[(4,)](torch.zeros(60, dtype=f32), 6, 10, ROWS=4, COLUMNS=16), 1),
    ]


class Choices:
    """An observer that counts the accesses of launches that are not guarded."""

    def __init__(self) -> None:
        self.proved: list[int] = []

    def launch(self, launch: Any) -> Any:
        extents = tuple(
            (
                t.untyped_storage().data_ptr(),
                t.untyped_storage().data_ptr() + t.untyped_storage().nbytes(),
            )
            for t in (launch.values[n] for n in sorted(launch.kernel.plan.pointers))
        )
        chosen = launch.kernel.guards.choose(
            extents, launch.raw_parameters, launch.grid
        ).instruments
        every = sum(
            op.name.startswith(("tt.load", "tt.store", "tt.atomic"))
            for op in launch.kernel.variants.module.kernel.walk()
        )
        self.proved.append(every if chosen is None else len(chosen.proved))
        return launch.execute(GUARDS)


@pytest.mark.parametrize("number", range(len(_launches())))
def test_proved_accesses_have_no_guard(number: int) -> None:
    call, proved = _launches()[number]
    choices = Choices()
    with interpret(observer=choices):
        call()
    assert choices.proved == [proved]
