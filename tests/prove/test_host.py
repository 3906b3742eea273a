"""Host code: tensors that share memory, shapes of views, and contents that stay known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
from tests.prove import kernels

from ttools.ir.expr import SIZE, Symbol, as_expr, evaluate
from ttools.prove.analysis import Analysis
from ttools.prove.host import factories  # noqa: F401 - registers them
from ttools.prove.host.symbolic_numbers import Path, SymbolicInt, expr_of, on_path
from ttools.prove.host.tensors import FACTORIES, INDEX


def _copied(x: Any, y: Any, n: Any) -> None:
    kernels.copy_kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)


def _in_place(n: Any) -> None:
    x = torch.randn(n + 1)
    y = x[1:]
    y += 1
    _copied(x, y, n)


def _by_method(n: Any) -> None:
    x = torch.randn(n + 1)
    _copied(x, x[1:].mul_(2.0), n)


@pytest.mark.parametrize("run", [_in_place, _by_method])
def test_operations_in_place_keep_the_memory(run: Callable[..., Any]) -> None:
    (defect,) = Analysis(run, {"n": (1, 1000)}).analyse().defects
    assert (defect.event.kind, defect.sizes) == ("race", {"n": 257})


def _changed_item(n: Any) -> None:
    index = torch.arange(n)
    index[0] = 7
    kernels.gather_kernel[(triton.cdiv(n, 64),)](torch.randn(n), index, torch.empty(n), n, BLOCK=64)


def _changed_view(n: Any) -> None:
    index = torch.arange(n + 1)
    index[1:].add_(5)
    kernels.gather_kernel[(triton.cdiv(n, 64),)](torch.randn(n), index, torch.empty(n), n, BLOCK=64)


@pytest.mark.parametrize("run", [_changed_item, _changed_view])
def test_contents_changed_in_place_are_unknown(run: Callable[..., Any]) -> None:
    assert Analysis(run, {"n": (1, 1000)}).analyse().verdict == "not proved"


def _views(choose: random.Random, x: Any, n: Any) -> Any:
    """Return a random view of a tensor of 4 * n rows of 8 elements."""
    for _ in range(choose.randrange(1, 5)):
        axis = choose.randrange(x.dim())
        x = choose.choice(
            [
                lambda x, _: x.transpose(0, -1),
                lambda x, a: x.unsqueeze(a),
                lambda x, _: x[::2],
                lambda x, _: x[..., :2],
                lambda x, _: x.reshape(-1),
                lambda x, _: x.reshape(2, -1),
                lambda x, _: x.reshape(*x.shape[:-1], 2, -1) if x.shape[-1] % 2 == 0 else x,
                lambda x, _: x.flatten(),
                lambda x, a: x.sum(a, keepdim=True),
                lambda x, a: x.amax(a) if x.dim() > 1 else x,
                lambda x, _: x * 2,
                lambda x, _: x[..., None],
                lambda x, _: x.clone(),
                lambda x, _: torch.empty_like(x),
                lambda x, _: x.to(torch.float64),
                lambda x, _: x.contiguous(),
                lambda x, a: x.movedim(a, 0),
                lambda x, a: x.unfold(a, 1, 1),
                lambda x, _: x.diagonal() if x.dim() == 2 else x,
                lambda x, _: x / 2,
                lambda x, _: ~(x > 0),
                lambda x, a: x.flip(a),
                lambda x, a: x.sort(a)[1],
                lambda x, _: x.clone(memory_format=torch.contiguous_format),
                lambda x, _: torch.empty_like(x, memory_format=torch.contiguous_format),
                lambda x, _: x.to(torch.float16, memory_format=torch.contiguous_format),
                lambda x, _: x.to(x.dtype, copy=True),
                lambda x, a: x.unflatten(a, (1, -1)),
                lambda x, a: x.repeat_interleave(2, a),
                lambda x, _: torch.nn.functional.pad(x, (1, 2)),
            ]
        )(x, axis)
    return x


@pytest.mark.parametrize("seed", range(120))
def test_views_are_those_of_torch(seed: int) -> None:
    size = Symbol("n", "size", SIZE)
    value = random.Random(seed).randrange(1, 5)
    real_base = torch.zeros(4 * value, 8)
    real = _views(random.Random(seed), real_base, value)
    with on_path(Path({size: value})):
        base = FACTORIES["zeros"](4 * SymbolicInt(as_expr(size)), 8)
        view = _views(random.Random(seed), base, SymbolicInt(as_expr(size)))
        shape, strides, offset = (
            [evaluate(expr_of(e), {size: value}) for e in numbers]
            for numbers in (view.shape, view.stride(), [view.offset])
        )
    assert tuple(shape) == tuple(real.shape)
    same = real.untyped_storage().data_ptr() == real_base.untyped_storage().data_ptr()
    assert (view.storage is base.storage) == same
    long = [n for n, extent in enumerate(shape) if extent > 1 and real.numel()]
    assert [strides[n] for n in long] == [real.stride(n) for n in long]
    assert offset == [real.storage_offset()]


_TABLES: list[Callable[[Any, Any], Any]] = [
    lambda t, n: t["arange"](n - 1, -1, -1),
    lambda t, n: t["arange"](0, 3 * n, n),
    lambda t, n: t["arange"](n) * 3 % 4 + 1,
    lambda t, n: t["arange"](n).clamp(1, 3),
    lambda t, n: t["arange"](n).clamp(max=n - 2),
    lambda t, n: t["arange"](n) >> 1,
    lambda t, n: (t["arange"](n) << 2).flip(0),
    lambda t, n: t["tensor"]([0, n, 2 * n], dtype=torch.int32),
    lambda t, n: t["cat"]([t["zeros"](1, dtype=torch.int64), t["full"]((5,), n).cumsum(0)]),
    lambda t, n: t["cat"]([t["arange"](n), t["arange"](n, n + 3)]),
    lambda t, n: t["arange"](n).to(torch.bool),
    lambda t, n: torch.nn.functional.pad(t["full"]((3,), n).cumsum(0), (1, 0)),
    lambda t, n: torch.nn.functional.pad(t["arange"](n), (1, 0), value=-1),
    lambda t, n: torch.nn.functional.pad(t["arange"](n), (2, 0)),
    lambda t, n: t["arange"](n, 3 * n).repeat_interleave(n + 1),
    lambda t, n: torch.repeat_interleave(t["full"]((3,), n), 4),
    lambda t, n: t["full"]((3,), n).to(torch.int32) * 2,
    lambda t, n: t["arange"](n, dtype=torch.int32) * (1 << 30) // 7,
    lambda t, n: (t["arange"](n) * 100).to(torch.int8) % 7,
    lambda t, n: (t["arange"](n).to(torch.uint8) * 100).clamp(max=200),
    lambda t, n: (t["full"]((3,), 100, dtype=torch.int8) * 2).cumsum(0),
    lambda t, n: (t["arange"](n) * 100 // 3).to(torch.int8).to(torch.int64),
    lambda t, n: _after(t["zeros"](n + 1, dtype=torch.int32), t["arange"](1, n + 1)),
    lambda t, n: _after(t["zeros"](n + 1, dtype=torch.int32), t["arange"](5, 6)),
]


def _after(table: Any, others: Any) -> Any:
    table[1:] = others
    return table


@pytest.mark.parametrize("make", _TABLES)
@pytest.mark.parametrize("value", [1, 2, 5])
def test_formulas_of_tables_agree_with_torch(make: Callable[[Any, Any], Any], value: int) -> None:
    size = Symbol("n", "size", SIZE)
    real = make({name: getattr(torch, name) for name in (*FACTORIES, "cat")}, value)
    with on_path(Path({size: value})):
        table = make({**FACTORIES, "cat": torch.cat}, SymbolicInt(as_expr(size)))
        assert table.dtype == real.dtype
        assert [evaluate(expr_of(e), {size: value}) for e in table.shape] == list(real.shape)
        content = table.storage.content
    if content is not None:
        elements = [evaluate(content, {size: value, INDEX: i}) for i in range(real.numel())]
        assert elements == real.to(torch.int64).tolist()


def _rounded_up(n: Any) -> None:
    x, y = torch.randn(n), torch.empty(n)
    kernels.copy_kernel[(math.ceil(n / 256),)](x, y, n, BLOCK=256)


def _in_parts(n: Any) -> None:
    size = math.floor(n * 0.75)
    _copied(torch.randn(n), torch.empty(size), 3 * n // 4)


def _by_root(n: Any) -> None:
    side = int(n**0.5)
    _copied(torch.randn(side, side), torch.empty(n), side * side)


def _by_percent(n: Any) -> None:
    _copied(torch.randn(n), torch.empty(int(n * 0.29)), n * 29 // 100)


@pytest.mark.parametrize(
    ("run", "sizes", "first_wrong"),
    [
        (_rounded_up, (1, 1 << 24), None),
        (_in_parts, (1, 1 << 24), None),
        (_by_root, (1, 9), None),
        (_by_percent, (97, 103), 100),
    ],
)
def test_floats_of_sizes(
    run: Callable[..., Any], sizes: tuple[int, int], first_wrong: int | None
) -> None:
    result = Analysis(run, {"n": sizes}).analyse()
    assert not result.abstained
    assert [d.sizes for d in result.defects] == (
        [] if first_wrong is None else [{"n": first_wrong}]
    )


def _gathered(index: Any, n: Any) -> None:
    kernels.gather_kernel[(triton.cdiv(n, 64),)](torch.randn(n), index, torch.empty(n), n, BLOCK=64)


def _arange_into(n: Any) -> None:
    index = torch.zeros(n, dtype=torch.int64)
    torch.arange(1, n + 1, out=index)
    _gathered(index, n)


def test_out_is_the_result_of_a_function() -> None:
    (defect,) = Analysis(_arange_into, {"n": (1, 1000)}).analyse().defects
    assert (defect.event.kind, defect.sizes) == ("oob_load", {"n": 1})


def _cat_into(n: Any) -> None:
    index = torch.zeros(n, dtype=torch.int64)
    torch.cat([torch.arange(n // 2), torch.arange(n - n // 2) + n], out=index)
    _gathered(index, n)


def _chosen(n: Any) -> None:
    index = torch.arange(n)
    _gathered(torch.where(index > 5, index, 0), n)


def _bits(n: Any) -> None:
    _gathered(torch.bitwise_and(torch.arange(n), 7), n)


def _wrong_overload(n: Any) -> None:
    clamp: Any = torch.clamp
    _gathered(clamp(torch.arange(n), torch.arange(n), 0), n)


@pytest.mark.parametrize("run", [_cat_into, _chosen, _bits, _wrong_overload])
def test_functions_in_c_are_not_given_fake_tensors(run: Callable[..., Any]) -> None:
    where, bits = torch.where, torch.bitwise_and
    assert Analysis(run, {"n": (2, 1000)}).analyse().verdict == "not proved"
    assert (torch.where, torch.bitwise_and) == (where, bits)


def _cut_table(n: Any) -> None:
    _gathered(torch.arange(n).to(torch.int16), n)


def test_tables_hold_numbers_converted_to_their_type() -> None:
    (defect,) = Analysis(_cut_table, {"n": (1, 40_000)}).analyse().defects
    assert (defect.event.kind, defect.sizes) == ("oob_load", {"n": 32_769})
