"""Assumptions on the contents of tables: what they prove, and what they do not prove."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from tests.prove import indexing_kernels, kernels

from ttools.core.errors import UsageError
from ttools.ir.expr import SIZE, Symbol
from ttools.prove import prove
from ttools.prove.contracts import contracts, read_assumed
from ttools.sanitizer import sanitize


@triton.jit
def scatter_kernel(x_ptr, index_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + offs, mask=offs < n, other=0)
    tl.store(x_ptr + index, offs, mask=offs < n)


@triton.jit
def scattered(
    x_ptr, index_ptr, n, BLOCK: tl.constexpr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr
):
    """Store to x[A * (index[i // C] // B)]."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + offs // C, mask=offs < n, other=0)
    tl.store(x_ptr + A * (index // B), offs, mask=offs < n)


@triton.jit
def rows_to_kernel(x_ptr, index_ptr, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Store rows of n numbers to the rows of x that the table lists."""
    row = tl.load(index_ptr + tl.program_id(0) * ROWS + tl.arange(0, ROWS))
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = row[:, None] * n + column[None, :]
    tl.store(x_ptr + at, at, mask=column[None, :] < n)


@triton.jit
def columns_to_kernel(x_ptr, index_ptr, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Store columns of n numbers at the start offsets that the table lists."""
    first = tl.load(index_ptr + tl.program_id(0) * ROWS + tl.arange(0, ROWS))
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = first[None, :] + column[:, None]
    tl.store(x_ptr + at, at, mask=column[:, None] < n)


@triton.jit
def mixed_kernel(
    x_ptr,
    index_ptr,
    n,
    A: tl.constexpr,
    B: tl.constexpr,
    C: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    M: tl.constexpr,
    L: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + offs // L, mask=offs < n, other=0)
    at = A * (index // B) + C * (offs // D) + E * (index % M)
    tl.store(x_ptr + at, offs, mask=offs < n)


@triton.jit
def rewrite_kernel(x_ptr, index_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < n
    tl.store(index_ptr + offs, tl.load(index_ptr + offs, mask=inside) * 5, mask=inside)
    index = tl.load(index_ptr + offs, mask=inside, other=0)
    tl.store(x_ptr + offs, tl.load(x_ptr + index, mask=inside), mask=inside)


@triton.jit
def unmasked_kernel(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + offs, mask=offs < n)  # undefined for lanes from n on
    tl.store(y_ptr + offs, tl.load(x_ptr + index))


@triton.jit
def rows_kernel(x_ptr, first_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Copy the rows of x that a table of row numbers lists."""
    row = tl.load(first_ptr + tl.program_id(0))
    for start in range(0, n, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + offs, mask=offs < n)
        tl.store(y_ptr + tl.program_id(0) * n + offs, x, mask=offs < n)


def _gather(index: torch.Tensor, n: Any, kernel: Any = kernels.gather_kernel) -> None:
    kernel[(triton.cdiv(n, 64),)](torch.randn(n), index, torch.empty(n), n, BLOCK=64)


def bytes_as_index(n: Any) -> None:
    _gather(torch.randint(0, 9, (n,), dtype=torch.uint8), n)


def undefined_as_index(n: Any) -> None:
    index = torch.randint(0, 9, (n,))
    unmasked_kernel[(triton.cdiv(n, 64),)](torch.randn(n), index, torch.empty(n + 64), n, BLOCK=64)


def scatter(n: Any) -> None:
    scatter_kernel[(triton.cdiv(n, 64),)](torch.empty(n), torch.randint(0, 9, (n,)), n, BLOCK=64)


def _scattered(n: Any, a: int, b: int, c: int) -> None:
    index = torch.randint(0, 9, (n,))
    scattered[(triton.cdiv(n, 64),)](torch.empty(2 * n), index, n, BLOCK=64, A=a, B=b, C=c)


def scatter_pairs(n: Any) -> None:
    _scattered(n, 2, 1, 1)


def scatter_halves(n: Any) -> None:
    _scattered(n, 1, 2, 1)


def scatter_twice(n: Any) -> None:
    _scattered(n, 1, 1, 2)


def _scatter_rows(n: Any, kernel: Any) -> None:
    index = torch.randint(0, 9, (64,), dtype=torch.int32)
    kernel[4, triton.cdiv(n, 32)](torch.empty(64 * n + 64), index, n, ROWS=16, BLOCK=32)


def scatter_rows(n: Any) -> None:
    _scatter_rows(n, rows_to_kernel)


def scatter_columns(n: Any) -> None:
    _scatter_rows(n, columns_to_kernel)


def rewrite(n: Any) -> None:
    rewrite_kernel[(triton.cdiv(n, 64),)](torch.randn(n), torch.randint(0, 9, (n,)), n, BLOCK=64)


def rows(n: Any, m: Any) -> None:
    table = torch.randint(0, 9, (16,), dtype=torch.int32)
    rows_kernel[(16,)](torch.randn(m, n), table, torch.empty(16, n), n, BLOCK=64)


@pytest.mark.parametrize(
    ("run", "assume", "verdict"),
    [
        (kernels.gather_random, {}, "not proved"),
        (kernels.gather_random, {"index_ptr": (0, "n - 1")}, "proved"),
        (kernels.gather_random, {"index_ptr": (0, 0)}, "proved"),
        (kernels.gather_random, {"index_ptr": (0, "n")}, "fails"),
        (kernels.gather_random, {"index_ptr": (-1, "n - 1")}, "fails"),
        (kernels.gather_random, {"index_ptr": ("n - 1", "2 * n - 2")}, "fails"),
        # Several lanes may store to one element, since bounds do not make indices distinct.
        (scatter, {"index_ptr": (0, "n - 1")}, "not proved"),
        (scatter, {"index_ptr": (0, "n - 1", "distinct")}, "proved"),
        (scatter, {"index_ptr": (0, "n", "distinct")}, "fails"),
        (scatter_pairs, {"index_ptr": (0, "n - 1", "distinct")}, "proved"),
        # Halves of different numbers may be equal, and so may numbers of the same table entry.
        (scatter_halves, {"index_ptr": (0, "n - 1", "distinct")}, "not proved"),
        (scatter_twice, {"index_ptr": (0, "n - 1", "distinct")}, "not proved"),
        (scatter_rows, {"index_ptr": (0, 63, "distinct")}, "proved"),
        (scatter_rows, {"index_ptr": (0, 63)}, "not proved"),
        (scatter_columns, {"index_ptr": (0, 63, "distinct")}, "not proved"),
        # Assumptions do not apply to values that the kernel itself has written.
        (rewrite, {"index_ptr": (0, "n - 1")}, "not proved"),
        (undefined_as_index, {"index_ptr": (0, "n - 1")}, "not proved"),
        # In kernels, a byte of 128 or more is a negative number.
        (bytes_as_index, {"index_ptr": (0, "n - 1")}, "not proved"),
    ],
)
def test_verdicts_under_assumptions(
    run: Callable[..., Any], assume: dict[str, Any], verdict: str
) -> None:
    result = prove(run, n=range(1, 1 << 20), assume=assume)
    assert (result.verdict, bool(result.findings)) == (verdict, verdict == "fails")
    assert all(f"the numbers in `{name}`" in str(result) for name in assume)


def test_bytes_below_128_are_not_negative() -> None:
    result = prove(bytes_as_index, n=range(1, 129), assume={"index_ptr": (0, "n - 1")})
    assert result.verdict == "proved"


def test_an_assumption_on_two_sizes_and_its_overflow() -> None:
    assume = {"first_ptr": (0, "m - 1")}
    right = prove(rows, n=range(1, 1 << 15), m=range(1, 1 << 15), assume=assume)
    assert right.verdict == "proved"
    # The row is an int32 number, and so is its product with n.
    large = prove(rows, n=range(1, 1 << 17), m=range(1, 1 << 17), assume=assume)
    assert {f.kind for f in large.findings} == {"int_overflow"}
    for finding in large.findings:
        assert finding.sizes is not None
        n, m = finding.sizes["n"], finding.sizes["m"]
        assert (m - 1) * n >= 1 << 31
        assert f"`first_ptr` contains {m - 1:,} everywhere" in "".join(finding.notes)


@triton.jit
def pick_kernel(y_ptr, x_ptr, index_ptr, n, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index_ptr + i, mask=i < n, other=0)
    tl.store(y_ptr + i, tl.load(x_ptr + at * SCALE, mask=i < n), mask=i < n)


def pick(n: Any, scale: int = 4096) -> None:
    x, y, index = torch.empty(n, scale), torch.empty(n), torch.empty(n, dtype=torch.int32)
    pick_kernel[(triton.cdiv(n, 64),)](y, x, index, n, SCALE=scale, BLOCK=64)


@pytest.mark.parametrize(
    ("promise", "expected"),
    [
        ((0, "n - 1"), [("int_overflow", (1 << 19) + 1)]),
        ((0, "n - 1", "distinct"), [("int_overflow", (1 << 19) + 1)]),
        ((0, "n - 1", "sorted"), [("int_overflow", (1 << 19) + 1)]),
        ((0, "n"), [("oob_load", 1), ("int_overflow", 1 << 19)]),
        ((-1, "n - 1"), [("oob_load", 1), ("int_overflow", (1 << 19) + 1)]),
        ((0, "n - 2", "distinct"), []),  # no table satisfies this assumption
        ((2, 1), []),
    ],
)
def test_ends_of_assumed_ranges_are_tried(promise: Any, expected: list[tuple[str, int]]) -> None:
    result = prove(pick, n=range(1, 1 << 20), assume={"index_ptr": promise})
    reported = {(f.kind, f.sizes["n"]) for f in result.findings if f.sizes is not None}
    assert reported == set(expected)
    for finding in result.findings:
        assert "`index_ptr` contains " in "".join(finding.notes)


def test_witnesses_do_not_set_all_elements_to_one_end() -> None:
    """Do not guess a table of equal elements, with which lanes would store to one element."""
    result = prove(scatter, n=range(1, 1 << 12), assume={"index_ptr": (0, "n - 1")})
    assert (result.verdict, result.findings) == ("not proved", ())


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 10))]
)
def test_claims_about_distinct_numbers_hold(seed: int) -> None:
    """Compare claims about random formulas of a loaded number with shuffled tables."""
    rng = random.Random(seed)
    a, c, e = rng.choice((1, 2, 3)), rng.choice((0, 0, 1, 7)), rng.choice((0, 0, 1, 4))
    b, d, m, again = (rng.choice((1, 1, 2, 4)) for _ in range(4))
    last = 24

    def run(n: Any) -> None:
        table, grid = torch.randint(0, 9, (n,)), (triton.cdiv(n, 8),)
        out = torch.empty(20 * n + 40)
        mixed_kernel[grid](out, table, n, a, b, c, d, e, m, again, BLOCK=8)

    result = prove(run, n=range(1, last), assume={"index_ptr": (0, "n - 1", "distinct")})
    collides = False
    for n in range(1, last):
        offs = np.arange(n)
        for _ in range(40):
            index = np.array(rng.sample(range(n), n))[offs // again]
            at = a * (index // b) + c * (offs // d) + e * (index % m)
            collides |= len(set(at.tolist())) < n
    assert not (collides and result.verdict == "proved")
    if (b, c, e, again) == (1, 0, 0, 1):
        assert result.verdict == "proved"


@triton.jit
def ranges_kernel(y_ptr, cu_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    """Store from the start to the end that a table lists, in blocks of two elements."""
    row = tl.program_id(1)
    begin, end = tl.load(cu_ptr + row), tl.load(cu_ptr + row + A)
    i = tl.program_id(0) * 2 + tl.arange(0, 2)
    tl.store(y_ptr + begin * C + i, row, mask=i < end - begin + B)


def _ranges(a: int, b: int, c: int) -> Callable[..., None]:
    def run(n: Any) -> None:
        cu = torch.randint(0, 9, (4,), dtype=torch.int32)
        ranges_kernel[(triton.cdiv(n + 1, 2), 3)](
            torch.empty(c * n + 2, dtype=torch.int32), cu, A=a, B=b, C=c
        )

    return run


_LAST = 6


@pytest.mark.parametrize("words", [("sorted",), ("sorted", "distinct"), ("distinct",), ()])
@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        *((1, 0, 1), (0, 1, 2)),
        *(
            pytest.param(*numbers, marks=pytest.mark.slow)
            for numbers in ((1, 1, 1), (1, -1, 1), (1, 0, 2), (0, 1, 1), (0, 2, 2))
        ),
    ],
)
def test_ranges_between_the_numbers_of_a_table(
    a: int, b: int, c: int, words: tuple[str, ...]
) -> None:
    """Compare the verdict with all tables of four numbers."""
    result = prove(_ranges(a, b, c), n=range(1, _LAST + 1), assume={"cu_ptr": (0, "n", *words)})
    wrong = False
    for n in range(1, _LAST + 1):
        for cu in itertools.product(range(n + 1), repeat=4):
            if "sorted" in words and list(cu) != sorted(cu):
                continue
            if "distinct" in words and len(set(cu)) < 4:
                continue
            at = []
            for row in range(3):
                length = min(cu[row + a] - cu[row] + b, 2 * -(-(n + 1) // 2))
                at += [cu[row] * c + i for i in range(max(0, length))]
            wrong |= len(set(at)) < len(at) or max(at, default=0) >= c * n + 2
    assert not (wrong and result.verdict == "proved")
    if "sorted" in words and (a, b, c) in ((1, 0, 1), (1, -1, 1), (1, 0, 2)):
        assert result.verdict == "proved"
    if words == ("sorted", "distinct") and (a, b, c) == (0, 1, 1):
        assert result.verdict == "proved"


def test_sequences_of_any_length() -> None:
    """Require `sorted`, without which lengths may be negative and sequences may overlap."""
    for run, assume in (
        (indexing_kernels.varlen, {"cu_ptr": (0, "n")}),
        (indexing_kernels.ragged, {"offsets_ptr": (0, "n")}),
    ):
        result = prove(run, n=range(1, 1 << 12), assume=assume, seconds=4)
        assert (result.verdict, result.findings) == ("not proved", ())


def test_only_a_table_of_one_axis_can_be_sorted() -> None:
    def run(n: Any) -> None:
        _gather(torch.randint(0, 9, (n, 1)), n)

    with pytest.raises(UsageError, match="the tensor passed has 2 axes"):
        prove(run, n=range(2, 9), assume={"index_ptr": ("sorted",)})


def test_tables_of_host_code_are_checked_against_assumptions() -> None:
    sizes = range(2, 100)
    with pytest.raises(
        UsageError, match="contains a number that is smaller than the one before it"
    ):
        prove(kernels.gather_reversed, n=sizes, assume={"index_ptr": ("sorted",)})
    with pytest.raises(UsageError, match="contains 1, which is above 0"):
        prove(kernels.gather_reversed, n=sizes, assume={"index_ptr": (0, 0)})
    result = prove(kernels.gather_reversed, n=sizes, assume={"index_ptr": (0, "n - 1", "distinct")})
    assert result.verdict == "proved"


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 1000])
def test_proved_functions_run_without_findings(n: int) -> None:
    ends = [torch.zeros(n, dtype=torch.int64), torch.full((n,), n - 1), torch.randint(0, n, (n,))]
    with sanitize() as right:
        for index in ends:
            _gather(index, n)
    assert right.findings == []
    with sanitize() as wrong:
        _gather(torch.full((n,), n), n)
    assert {finding.kind for finding in wrong.findings} == {"oob_load"}


@pytest.mark.ttools_sizes(
    n=range(1, 1 << 20), require_proof=True, assume={"index_ptr": (0, "n - 1")}
)
def test_a_marker_may_have_assumptions(n: int) -> None:
    kernels.gather_random(n)


@pytest.mark.parametrize(
    ("assume", "sentence"),
    [
        ({"index_ptr": (0, "m - 1")}, "m is not one of the sizes n"),
        ({"index_ptr": (0, "n / 2")}, "must consist of integers"),
        ({"index_ptr": (0, "n -")}, "not a valid formula"),
        ({"index_ptr": (0, 1, "unique")}, "may only be followed by `,distinct` and `,sorted`"),
        ({"index_ptr": (0, 1, "sorted", "sorted")}, "each at most once"),
        ({"index_ptr": (0,)}, "the bounds may be omitted"),
        ({"index": (0, 1)}, "no kernel that is launched has a tensor of integers as parameter"),
        ({"x_ptr": (0, 1)}, "no kernel that is launched has a tensor of integers as parameter"),
    ],
)
def test_meaningless_assumptions_are_refused(assume: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        prove(kernels.gather_random, n=range(1, 100), assume=assume)


_PIECES = (
    "n",
    "m",
    "0",
    "1",
    "99999999999999999999",
    "+",
    "-",
    "*",
    "**",
    "(",
    ")",
    ":",
    ",",
    "=",
    "distinct",
    "sorted",
    " ",
    "if",
    "\0",
    "é",
    "lambda",
)


@pytest.mark.parametrize("start", range(0, 2000, 500))
def test_other_words_are_refused_in_a_sentence(start: int) -> None:
    sentences = []
    for seed in range(start, start + 500):
        rng = random.Random(seed)
        text = "a=" + "".join(rng.choice(_PIECES) for _ in range(rng.randint(0, 8)))
        try:
            contracts(read_assumed([text]), {"n": Symbol("n", "size", SIZE)})
        except UsageError as error:
            sentences.append(str(error))
    assert len(sentences) > 400
    assert all("--assume" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    "long", ["-" * 50_000 + "1", "(" * 50_000, "1+" * 50_000 + "1", "9" * 5_000]
)
def test_unlimited_bounds_are_refused_in_a_sentence(long: str) -> None:
    with pytest.raises(UsageError, match="not a valid formula"):
        contracts({"a": (0, long)}, {})


@pytest.mark.parametrize("text", ["a", "a=1", "a=:2", "=1:2", "a b=1:2"])
def test_words_that_are_no_assumption_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="PARAMETER=LOW:HIGH"):
        read_assumed([text])


def test_assumptions_are_parsed() -> None:
    assumptions = read_assumed(
        ["a=0: n-1", "b=-1:2*n, distinct", "c=sorted", "d=0:n,sorted,distinct"]
    )
    assert assumptions == {
        "a": ("0", "n-1"),
        "b": ("-1", "2*n", "distinct"),
        "c": ("sorted",),
        "d": ("0", "n", "sorted", "distinct"),
    }
    with pytest.raises(UsageError, match="`a` already has an assumption"):
        read_assumed(["a=0:1", "a=0:2"])
