"""Findings show the variables from which an address is computed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize

# mypy: disable-error-code="no-untyped-def"


class Matrix(NamedTuple):
    ptr: torch.Tensor
    rows: int
    stride: int


@triton.jit
def counted(x_ptr, o_ptr, n, B: tl.constexpr):
    for tile in range(0, n, B):
        i = tile + tl.arange(0, B)
        tl.store(o_ptr + i, tl.load(x_ptr + i), mask=i < n)


@triton.jit
def carried(x_ptr, o_ptr, n):
    place = 0
    steps = 0
    while steps <= n:
        place += tl.load(x_ptr + steps)
        steps += 1
    tl.store(o_ptr, place)


@triton.jit
def walked(x_ptr, o_ptr, n):
    at = 1
    for _ in range(n):
        tl.store(o_ptr, tl.load(x_ptr + at))
        at = at * 3


@triton.jit
def wrapped(x_ptr, o_ptr, first, stride):
    far = first * stride
    tl.store(o_ptr, tl.load(x_ptr + far))


@triton.jit
def named(matrix, o_ptr, B: tl.constexpr):
    row = tl.program_id(0) + 1
    x = tl.load(matrix.ptr + row * matrix.stride + tl.arange(0, B))
    tl.store(o_ptr + tl.arange(0, B), x)


def _launches() -> dict[str, Any]:
    x, o = torch.zeros(40, dtype=torch.int32), torch.zeros(40, dtype=torch.int32)
    return {
        "counted": lambda: counted[(1,)](x, o, 40, B=16),
        "carried": lambda: carried[(1,)](x, o, 40),
        "walked": lambda: walked[(1,)](x, o, 5),
        "wrapped": lambda: wrapped[(1,)](x, o, 3, 1_000_000_007),
        "named": lambda: named[(1,)](Matrix(x, 1, 40), o, B=8),
    }


@pytest.mark.parametrize(
    ("kernel", "name", "variables"),
    [
        ("counted", "x_ptr", {"i": "40", "tile": "32"}),
        ("carried", "x_ptr", {"steps": "40"}),
        ("walked", "x_ptr", {"at": "81"}),
        ("wrapped", "x_ptr", {"far": "-1294967275", "first": "3", "stride": "1000000007"}),
        ("named", "matrix.ptr", {"row": "1", "matrix.stride": "40"}),
    ],
)
def test_variables_of_an_address(kernel: str, name: str, variables: dict[str, str]) -> None:
    with sanitize(checks="memcheck") as report:  # otherwise the overflow would be reported
        _launches()[kernel]()
    finding = next(f for f in report.findings if f.kind == "oob_load")
    assert finding.argument is not None
    assert finding.argument.name == name
    assert dict(finding.variables) == {**variables, "mask": "none"}


@triton.jit
def looked_up(index_ptr, w_ptr, o_ptr, N: tl.constexpr, D: tl.constexpr):
    row, d = tl.load(index_ptr + tl.arange(0, N)), tl.arange(0, D)
    w = tl.load(w_ptr + row[:, None] * D + d[None, :])
    tl.store(o_ptr + tl.arange(0, N)[:, None] * D + d[None, :], w)


@triton.jit
def boxed(x_ptr, o_ptr, rows, N: tl.constexpr):
    box = tl.make_tensor_descriptor(x_ptr, [rows, N], [N, 1], [4, N])
    first = tl.program_id(0) * 4
    o = tl.arange(0, 4)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o_ptr + first * N + o, box.load([first, 0]))


@triton.jit
def strided(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def shifted(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    before = i - 2
    tl.store(o_ptr + i, tl.load(x_ptr + before, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def one_by_one(x_ptr, o_ptr, per: tl.constexpr):
    first = tl.program_id(0) * per
    for i in range(per):
        tl.store(o_ptr + first + i, tl.load(x_ptr + first + i))


@triton.jit
def scaled(x_ptr, o_ptr, stride, tiles, B: tl.constexpr):
    i = tl.arange(0, B)
    for k in range(tiles):
        tl.store(o_ptr + i, tl.load(x_ptr + i * stride + k))


_LOOP = "let `for {}` end before `{}` leaves the tensor, or "


@pytest.mark.parametrize(
    ("launch", "advice"),
    [
        (
            lambda: scaled[(1,)](torch.ones(8, 2), torch.ones(8), 2, 3, B=8),
            f"{_LOOP.format('k in range(tiles)', 'k')}mask the load, for example with `mask=k < n`",
        ),
        (
            lambda: one_by_one[(2,)](torch.ones(7), torch.ones(8), per=4),
            (
                f"{_LOOP.format('i in range(per)', 'i')}perform the load only if its index is in "
                "range, for example with `mask=first + i < n`"
            ),
        ),
        (
            lambda: looked_up[(1,)](
                torch.tensor([0, 5, 9, 2]), torch.ones(5, 8), torch.ones(4, 8), N=4, D=8
            ),
            (
                "mask the load where the index from `index_ptr` is out of range, "
                "or correct `index_ptr`"
            ),
        ),
        (
            lambda: boxed[(2,)](torch.ones(6, 8), torch.ones(8, 8), 8, N=8),
            "a descriptor ignores accesses outside its own shape: give it the tensor's shape",
        ),
        (
            lambda: strided[(1,)](torch.ones(1).expand(8), torch.ones(8), 8, B=8),
            "`x_ptr` has strides (0): use them, or pass `x_ptr.contiguous()`",
        ),
        (
            lambda: shifted[(1,)](torch.ones(8), torch.ones(8), 8, B=8),
            "also mask accesses before the first element, for example with `before >= 0`",
        ),
    ],
    ids=["loop", "sum", "index", "descriptor", "strides", "negative"],
)
def test_advice(launch: Callable[[], object], advice: str) -> None:
    with sanitize() as report:
        launch()
    (finding,) = report.findings
    text = re.sub(r" \(line \d+\)", "", finding.help or "")
    assert (finding.kind, text) == ("oob_load", advice)


def test_the_origin_of_an_index() -> None:
    with sanitize() as report:
        looked_up[(1,)](torch.tensor([0, 5, 9, 2]), torch.ones(5, 8), torch.ones(4, 8), N=4, D=8)
    (finding,) = report.findings
    (source,) = finding.related
    assert (
        source.message
        == "a number that the address is computed from is loaded here from `index_ptr`"
    )
    assert source.location is not None
    assert finding.location is not None
    assert source.location.line == finding.location.line - 1


@triton.jit
def last_one(part_ptr, count_ptr, o_ptr, P: tl.constexpr, SEM: tl.constexpr):
    tl.store(part_ptr + tl.program_id(0), 1.0)
    tl.debug_barrier()
    if tl.atomic_add(count_ptr, 1, sem=SEM) == P - 1:
        tl.store(o_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, P)), 0))


@pytest.mark.parametrize(
    ("order", "lacks", "wanted"),
    [("relaxed", "acquire and release", "acq_rel"), ("release", "acquire", "acquire")],
)
def test_an_atomic_that_orders_less_than_it_seems(order: str, lacks: str, wanted: str) -> None:
    count = torch.zeros(1, dtype=torch.int32)
    with sanitize() as report:
        last_one[(4,)](torch.zeros(4), count, torch.zeros(1), P=4, SEM=order)
    (finding,) = report.findings
    message = f'with sem="{order}" this orders nothing: it would have to {lacks}'
    assert [related.message for related in finding.related][1:] == [message]
    line = last_one.starting_line_number + 4
    assert finding.help == (
        f'pass sem="{wanted}" instead of "{order}" to the atomic in line {line}'
    )


@triton.jit
def states(state_ptr, slot_ptr, y_ptr, N, B: tl.constexpr, MASKED: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, B)
    slot = tl.load(slot_ptr + 2 * row)
    if MASKED:
        s = tl.load(state_ptr + slot * N + c, mask=(slot < 4) & (c < N))
    else:
        s = tl.load(state_ptr + slot * N + c)
    tl.store(y_ptr + row * N + c, s)


@triton.jit
def gathered(state_ptr, slot_ptr, y_ptr, N: tl.constexpr, B: tl.constexpr):
    c = tl.arange(0, B)
    for first in range(0, 8, 4):
        rows = first + tl.arange(0, 4)
        slot = tl.load(slot_ptr + rows)
        s = tl.load(state_ptr + slot[:, None] * N + c[None, :])
        tl.store(y_ptr + rows[:, None] * N + c[None, :], s)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("kind", "rows_before"), [("oob_load", 0), ("view_oob", 1)])
def test_a_negative_index_is_named_with_its_source(
    masked: bool, kind: str, rows_before: int
) -> None:
    slots = torch.tensor([2, 9, 0, 9, -1, 9, -1, 9])
    state = torch.ones(4 + rows_before, 16)[rows_before:]
    with sanitize() as report:
        states[(4,)](state, slots, torch.ones(4, 16), 16, B=16, MASKED=masked)
    (finding,) = report.findings
    assert finding.kind == kind
    more = "; the mask does not reject negative indices" if masked else ""
    assert finding.help == (
        "`slot` is -1, loaded from `slot_ptr[4]`: a padding entry? Make the load only where "
        f"`slot >= 0`{more}"
    )


def test_the_element_of_a_tile_in_a_loop() -> None:
    slots = torch.tensor([2, 3, 0, 1, 1, 0, -2, 3])
    with sanitize() as report:
        gathered[(1,)](torch.ones(4, 16), slots, torch.ones(8, 16), N=16, B=16)
    (finding,) = report.findings
    assert (finding.help or "").startswith("`slot` is -2, loaded from `slot_ptr[6]`: a padding")


@triton.jit
def embedded(ids_ptr, w_ptr, y_ptr, D: tl.constexpr):
    t, d = tl.program_id(0), tl.arange(0, D)
    row = w_ptr + tl.load(ids_ptr + t) * D
    tl.store(y_ptr + t * D + d, tl.load(row + d))


@triton.jit
def converted(ids_ptr, w_ptr, y_ptr, D: tl.constexpr):
    t = tl.program_id(0)
    word, d = tl.load(ids_ptr + t).to(tl.int64), tl.arange(0, D)
    tl.store(y_ptr + t * D + d, tl.load(w_ptr + word * D + d))


@pytest.mark.parametrize(("kernel", "name"), [(embedded, "index"), (converted, "word")])
def test_only_a_variable_that_holds_the_index_is_named(kernel: Any, name: str) -> None:
    ids = torch.tensor([1, -9, 0], dtype=torch.int32)
    with sanitize() as report:
        kernel[(3,)](ids, torch.ones(4, 16), torch.ones(3, 16), D=16)
    assert (report.findings[0].help or "").startswith(
        f"`{name}` is -9, loaded from `ids_ptr[1]`: a padding entry? Make the load only where "
        f"`{name} >= 0`"
    )


@triton.jit
def in_ring(ring_ptr, at_ptr, y_ptr, W, D: tl.constexpr):
    b, d = tl.program_id(0), tl.arange(0, D)
    slot = (tl.load(at_ptr + b) - 1) % W
    tl.store(y_ptr + b * D + d, tl.load(ring_ptr + slot * D + d))


@pytest.mark.parametrize("rows_before", [0, 1])
def test_a_negative_remainder_is_named(rows_before: int) -> None:
    ring = torch.ones(4 + rows_before, 16)[rows_before:]
    with sanitize() as report:
        in_ring[(3,)](ring, torch.tensor([2, 0, 1]), torch.ones(3, 16), 4, D=16)
    (finding,) = report.findings
    assert finding.help == (
        "`slot` is negative because `%` has the sign of its left operand at run time, unlike in "
        "Python: use `(a % n + n) % n`, or keep the left operand from being negative"
    )
