"""Undefined lanes: their origins, how operations propagate them, and which uses are errors."""

from __future__ import annotations

from functools import partial
from typing import Any

import instrumented
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from instrumented import Held, line_of

from ttools.ir import Module
from ttools.ir.inlining import inline_calls
from ttools.ir.parser import parse_module
from ttools.sanitizer.passes import undefined
from ttools.sanitizer.passes.shadow_memory import hidden_parameters

B = 16
SCHEDULES = ("fused", "materialised")


def run(kernel: Any, arguments: dict[str, Any], programs: int = 1, **options: Any) -> list[Held]:
    constants = {"B": B}
    return instrumented.run(kernel, (programs,), arguments, constants, undefined.apply, **options)


def checks(kernel: Any, arguments: dict[str, Any]) -> int:
    """Return the number of checks in the instrumented kernel."""
    module = instrumented.parsed(kernel, arguments, {"B": B})
    undefined.apply(module)
    return sum(op.name == "ttools.check" for op in module.kernel.walk())


def three(n: int = 10) -> dict[str, Any]:
    return {"x_ptr": torch.randn(64), "y_ptr": torch.randn(64), "o_ptr": torch.zeros(64), "n": n}


@triton.jit
def add_tail(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=m) + tl.load(y_ptr + i, mask=m), mask=m)


@triton.jit
def where_sum(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    m = i < n
    x = tl.load(x_ptr + i, mask=m)
    total = tl.sum(tl.where(m, x, 0.0), 0)
    tl.store(o_ptr, total)


@triton.jit
def mask_of_mask(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    m = i < n
    x = tl.load(x_ptr + i, mask=m)
    tl.store(o_ptr + i, x, mask=m & (x > 0))


@triton.jit
def row_and_column(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    j = tl.arange(0, 4)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + j, mask=j < n)
    m = (i[:, None] < n) & (j[None, :] < n)
    tl.store(o_ptr + i[:, None] * 4 + j[None, :], x[:, None] * y[None, :], mask=m)


@pytest.mark.parametrize("kernel", [add_tail, where_sum, mask_of_mask, row_and_column])
def test_masks_that_imply_each_other_need_no_checks(kernel: Any) -> None:
    assert checks(kernel, three()) == 0


@triton.jit
def later_mask(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    k = tl.load(y_ptr).to(tl.int32)
    tl.store(o_ptr + i, x, mask=i < k)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stored", [3, 10, 12, 16])
def test_masks_compared_at_run_time(stored: int, schedule: str) -> None:
    arguments = three(10)
    arguments["y_ptr"][0] = stored
    (check,) = run(later_mask, arguments, schedule=schedule)
    np.testing.assert_array_equal(check.where[0], (np.arange(B) >= 10) & (np.arange(B) < stored))
    assert check.argument == 0


@triton.jit
def reduced(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    m = i < n
    y = tl.load(y_ptr + i, mask=m)
    g = tl.load(x_ptr + i, mask=m)  # the cause
    total = tl.sum(g, axis=0)
    tl.store(o_ptr + i, g - tl.exp(y) * total, mask=m)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_load_whose_lanes_are_used_is_named(schedule: str) -> None:
    failures = [h for h in run(reduced, three(10), schedule=schedule) if h.any]
    assert [line_of(h) for h in failures] == ["g = tl.load(x_ptr + i, mask=m)  # the cause"]
    assert failures[0].argument == 0
    assert failures[0].where[0].tolist() == [i < 10 for i in range(B)]
    assert not any(h.any for h in run(reduced, three(16), schedule=schedule))


@triton.jit
def looped(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    acc = tl.zeros((B,), tl.float32)
    worst = 0.0
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        x = tl.load(x_ptr + i, mask=i < n)
        acc += x
        worst = tl.maximum(worst, tl.max(x, 0))
    tl.store(o_ptr + tl.arange(0, B), acc)
    tl.store(o_ptr + B, worst)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n", [16, 20, 32, 40])
def test_loops_carry_undefined_lanes(n: int, schedule: str) -> None:
    lanes, scalar = run(looped, three(n), schedule=schedule)
    tail = n % B
    assert lanes.where[0].tolist() == [bool(tail) and i >= tail for i in range(B)]
    assert scalar.where[0] == bool(tail)


@triton.jit
def branching(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    if tl.sum(x, 0) > 0:
        tl.store(o_ptr, 1.0)
    j = tl.load(y_ptr + i, mask=i < n).to(tl.int32)
    tl.store(o_ptr + i, tl.load(x_ptr + j, mask=i < 12, other=0.0))


def test_branches_and_addresses_are_checked() -> None:
    branch, address = run(branching, {**three(10), "y_ptr": torch.zeros(64)})
    assert branch.where.all()
    assert "branch" in branch.message
    assert branch.argument == 0
    assert address.where[0].tolist() == [10 <= i < 12 for i in range(B)]
    assert "address" in address.message
    assert address.argument == 1


@triton.jit
def chosen(x_ptr, y_ptr, o_ptr, n, m, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    low = tl.where(x > 0.5, 8, 0)
    inside = low + 4 < B
    low = tl.where(x > tl.load(y_ptr + low + 4, mask=inside, other=0.0), low + 4, low)
    tl.store(o_ptr + i, tl.load(y_ptr + low), mask=i < m)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stored", [10, 12])
def test_undefined_lanes_may_select_the_address_of_a_load(stored: int, schedule: str) -> None:
    """Accept a load whose address stays in the table, as in the tail of a binary search."""
    (check,) = run(chosen, {**three(10), "m": stored}, schedule=schedule)
    assert check.where[0].tolist() == [10 <= i < stored for i in range(B)]
    assert "stored" in check.message
    assert check.argument == 0


@triton.jit
def scattered(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + tl.where(x > 0.5, i, i + B), 1.0, mask=i < 12)


def test_undefined_lanes_may_not_select_the_address_of_a_store() -> None:
    (check,) = run(scattered, three(10))
    assert check.where[0].tolist() == [10 <= i < 12 for i in range(B)]
    assert "address" in check.message


@triton.jit
def chosen_table(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    j = tl.load(y_ptr + i, mask=i < n).to(tl.int32)
    j = tl.where(i % 2 == 0, j, 0)
    tl.store(o_ptr + i, tl.load(x_ptr + j), mask=i < n)


def test_an_undefined_address_is_an_error() -> None:
    (check,) = run(chosen_table, {**three(10), "y_ptr": torch.zeros(64)})
    assert check.where[0].tolist() == [i >= 10 and i % 2 == 0 for i in range(B)]
    assert "address" in check.message


@triton.jit
def product(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    a = tl.load(x_ptr + at, mask=i[:, None] < n)
    b = tl.load(y_ptr + at, mask=(i[None, :] < n) | (i[:, None] < 3))
    tl.store(o_ptr + at, tl.dot(a, b))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_product_spreads_along_rows_and_columns(schedule: str) -> None:
    arguments = {name: torch.ones(B * B) for name in ("x_ptr", "y_ptr", "o_ptr")}
    rows, columns = run(product, {**arguments, "n": 10}, schedule=schedule)
    lanes = np.arange(B)
    assert (rows.argument, columns.argument) == (0, 1)
    np.testing.assert_array_equal(rows.where[0], np.repeat(lanes[:, None] >= 10, B, 1))
    np.testing.assert_array_equal(columns.where[0], np.repeat(lanes[None, :] >= 10, B, 0))


@triton.jit
def early_exit(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    if n > 12:
        tl.store(o_ptr + i, x, mask=i < 12)
        return
    while tl.load(o_ptr) == 0:
        x = x + 1
        tl.store(o_ptr, 1.0)
    tl.store(o_ptr + i, x)


@pytest.mark.parametrize(("n", "expected"), [(13, (0, 0)), (10, (0, 6)), (16, (0, 0))])
def test_blocks_and_while_loops_carry_undefined_lanes(n: int, expected: tuple[int, int]) -> None:
    assert tuple(int(h.where.sum()) for h in run(early_exit, three(n))) == expected


@triton.jit(noinline=True)
def doubled(x, ok):
    return tl.where(ok, x, 0.0) * 2


@triton.jit
def calling(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    x = tl.load(x_ptr, mask=n > 10)
    tl.store(o_ptr, doubled(x, n > 10))
    tl.store(y_ptr, doubled(x, n > 5))


@pytest.mark.parametrize("n", [5, 10, 11])
def test_calls_are_followed(n: int) -> None:
    arguments = three(n)
    expected = arguments["x_ptr"][0] * 2 if n > 10 else torch.tensor(0.0)
    failures = [h for h in run(calling, arguments) if h.any]
    assert len(failures) == (n == 10)
    torch.testing.assert_close(arguments["o_ptr"][0], expected)


@triton.jit(noinline=True)
def several_blocks(x, n):
    if n > 3:
        return x
    return x * 2


@triton.jit
def calling_blocks(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    x = tl.load(x_ptr, mask=n > 10)
    tl.store(o_ptr, several_blocks(x, n))


def test_unsupported_operations_are_named() -> None:
    text = instrumented.ttir_of(calling_blocks, three(), {"B": B})
    module = parse_module(text)
    (call,) = inline_calls(module)
    (note,) = undefined.apply(module)
    assert note.location == call.location
    assert note.text == "tt.call of values that may be undefined is not followed"


# ---- memory that was never written


def shadowed(
    kernel: Any, arguments: dict[str, Any], shadows: dict[str, np.ndarray[Any, Any]], **options: Any
) -> list[Held]:
    """Run a kernel with tensors that have undefined bytes.

    Args:
        kernel: A function decorated with `triton.jit`.
        arguments: Tensors and integers by name.
        shadows: One byte for each byte of a tensor, by name; 1 if the byte is undefined.
        **options: Number of programs, and options of `instrumented.run`.
    """
    names = [name for name in kernel.arg_names if name != "B"]
    tracked = {names.index(name): name for name in shadows}
    hidden: list[int] = []
    for _, name in sorted(tracked.items()):
        storage = arguments[name].untyped_storage()
        assert shadows[name].nbytes == storage.nbytes()
        hidden += [shadows[name].ctypes.data, storage.data_ptr(), storage.nbytes()]
    rewrite = partial(undefined.apply, tracked=frozenset(tracked))
    assert len(hidden_parameters(tracked)) == len(hidden)
    return instrumented.run(
        kernel,
        (options.pop("programs", 1),),
        arguments,
        {"B": B},
        rewrite,
        hidden=hidden,
        **options,
    )


def bytes_of(elements: list[bool], size: int = 4) -> np.ndarray[Any, Any]:
    return np.repeat(np.array(elements, np.uint8), size)


@triton.jit
def accumulate(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(o_ptr + i, tl.load(o_ptr + i) + x, mask=i < n)
    tl.store(y_ptr + i, tl.load(o_ptr + i) * 2)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_reads_of_memory_never_written(schedule: str) -> None:
    arguments = three(10)
    unwritten = [n % 3 == 0 or n >= 12 for n in range(64)]
    shadow = bytes_of(unwritten)
    first, second = shadowed(accumulate, arguments, {"o_ptr": shadow}, schedule=schedule)
    assert first.where[0].tolist() == [unwritten[i] and i < 10 for i in range(B)]
    assert second.where[0].tolist() == [unwritten[i] and i >= 10 for i in range(B)]
    assert first.argument == second.argument == 2
    # The stored elements are defined now.
    after = [u and i >= 10 for i, u in enumerate(unwritten)]
    np.testing.assert_array_equal(shadow != 0, bytes_of(after) != 0)


@triton.jit
def copied(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i))
    tl.store(y_ptr + i, tl.load(x_ptr + i))


def test_copies_carry_undefined_elements() -> None:
    unwritten = [n % 2 == 0 for n in range(64)]
    target = bytes_of([True] * 64)
    (check,) = shadowed(copied, three(), {"x_ptr": bytes_of(unwritten), "o_ptr": target})
    expected = [*unwritten[:B], *[True] * (64 - B)]
    np.testing.assert_array_equal(target != 0, bytes_of(expected) != 0)
    # `y` has no shadow memory that could take the undefined elements.
    assert check.where[0].tolist() == unwritten[:B]
    assert line_of(check) == "tl.store(y_ptr + i, tl.load(x_ptr + i))"


def test_copies_to_tracked_memory_are_not_reported() -> None:
    written = {name: bytes_of([False] * 64) for name in ("o_ptr", "y_ptr")}
    assert shadowed(copied, three(), {"x_ptr": bytes_of([True] * 64), **written}) == []
    assert all(shadow[: 4 * B].all() for shadow in written.values())


@triton.jit
def outside(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i - 4, mask=i < 8, other=0.0) + 1)


def test_addresses_outside_of_the_storage_have_no_shadow() -> None:
    arguments = three()
    whole = torch.randn(80)
    arguments["x_ptr"] = whole[4:]
    rewrite = partial(undefined.apply, tracked=frozenset({0}))
    shadow = bytes_of([True] * 64)
    hidden = [shadow.ctypes.data, arguments["x_ptr"].data_ptr(), shadow.nbytes]
    (check,) = instrumented.run(outside, (1,), arguments, {"B": B}, rewrite, hidden=hidden)
    assert check.where[0].tolist() == [4 <= i < 8 for i in range(B)]


@triton.jit
def atomics(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_xchg(y_ptr + i, 0.0, mask=i < 4)
    tl.atomic_add(y_ptr + i, 1.0, mask=i < n)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_atomics_read_their_operands(schedule: str) -> None:
    shadow = bytes_of([True] * 64)
    (check,) = shadowed(atomics, three(10), {"y_ptr": shadow}, programs=3, schedule=schedule)
    assert (check.where == [4 <= i < 10 for i in range(B)]).all()
    assert check.argument == 1
    np.testing.assert_array_equal(shadow != 0, bytes_of([i >= 4 for i in range(64)]) != 0)


def test_arguments_that_a_kernel_reads() -> None:
    arguments = three()
    assert undefined.reads(instrumented.parsed(copied, arguments, {"B": B})) == {0}
    assert undefined.reads(instrumented.parsed(atomics, arguments, {"B": B})) == {1}
    assert undefined.reads(instrumented.parsed(accumulate, arguments, {"B": B})) == {0, 2}


def test_kernels_without_undefined_lanes_are_not_instrumented() -> None:
    module: Module = instrumented.parsed(copied, three(), {"B": B})
    before = [op.name for op in module.kernel.walk()]
    assert undefined.apply(module) == []
    assert [op.name for op in module.kernel.walk()] == before
