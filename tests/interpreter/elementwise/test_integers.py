"""Tests of integer operations, compared with Python, and of results that Python does not define."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_jit import TYPES, apply

WIDTHS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}


def unsigned(value: int, bits: int) -> int:
    return value % (1 << bits)


def signed(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def all_ones(a: int, bits: int) -> int:
    """Return x / 0 on a GPU, which divides an i64 in 32 bits if both operands fit."""
    return 0xFFFFFFFF if bits == 64 and unsigned(a, 64) < 1 << 32 else -1


def divsi(a: int, b: int, bits: int) -> int:
    return truncated(a, b) if b else all_ones(a, bits)


def divui(a: int, b: int, bits: int) -> int:
    return unsigned(a, bits) // unsigned(b, bits) if b else all_ones(a, bits)


def remsi(a: int, b: int, bits: int) -> int:
    return a - truncated(a, b) * b if b else all_ones(a, bits)


def remui(a: int, b: int, bits: int) -> int:
    return unsigned(a, bits) % unsigned(b, bits) if b else all_ones(a, bits)


def shift_amount(b: int, bits: int) -> int:
    return min(unsigned(b, min(bits, 32)), bits)  # only the lower half of an i64 amount counts


ORACLES: dict[str, Callable[[int, int, int], int]] = {
    "addi": lambda a, b, n: a + b,
    "subi": lambda a, b, n: a - b,
    "muli": lambda a, b, n: a * b,
    "andi": lambda a, b, n: a & b,
    "ori": lambda a, b, n: a | b,
    "xori": lambda a, b, n: a ^ b,
    "minsi": lambda a, b, n: min(a, b),
    "maxsi": lambda a, b, n: max(a, b),
    "minui": lambda a, b, n: min(unsigned(a, n), unsigned(b, n)),
    "maxui": lambda a, b, n: max(unsigned(a, n), unsigned(b, n)),
    "divsi": divsi,
    "divui": divui,
    "remsi": remsi,
    "remui": remui,
    "shli": lambda a, b, n: a << shift_amount(b, n),
    "shrui": lambda a, b, n: unsigned(a, n) >> shift_amount(b, n),
    "shrsi": lambda a, b, n: a >> shift_amount(b, n),
}
# Rounding divisions by 0 are undefined in MLIR.
ROUNDED: dict[str, Callable[[int, int, int], int]] = {
    "floordivsi": lambda a, b, n: a // b,
    "ceildivsi": lambda a, b, n: -(-a // b),
    "ceildivui": lambda a, b, n: -(-unsigned(a, n) // unsigned(b, n)),
}


def corners(bits: int) -> list[int]:
    """Return values around zero, the extremes, the widths of shifts and powers of two."""
    top = 1 << (bits - 1)
    near = [0, 1, 2, 3, 5, 7, 10, 100, bits - 1, bits, bits + 1, top - 1, top - 2, top // 2 + 1]
    return sorted({signed(sign * v, bits) for v in near for sign in (1, -1)} | {-top})


def pairs(bits: int, count: int = 3000) -> tuple[list[int], list[int]]:
    """Return all pairs of corner values, and random pairs of random magnitudes."""
    values = corners(bits)
    rng = np.random.default_rng(bits)
    random = [
        signed(int(x) >> int(s), bits)
        for x, s in zip(
            rng.integers(-(1 << 63), (1 << 63) - 1, 2 * count),
            rng.integers(64 - bits, 64, 2 * count),
            strict=True,
        )
    ]
    left = [a for a in values for _ in values] + random[:count]
    right = values * len(values) + random[count:]
    return left, right


def check(op: str, kind: str, oracle: Callable[[int, int, int], int], **options: Any) -> None:
    bits = WIDTHS[kind]
    left, right = pairs(bits)
    if op in ROUNDED:
        right = [b or 3 for b in right]
    dtype = TYPES[kind]
    a, b = np.array(left, dtype), np.array(right, dtype)
    expected = [signed(oracle(x, y, bits), bits) for x, y in zip(left, right, strict=True)]
    actual = apply(f"arith.{op}", [kind, kind], [kind], a, b, **options).tolist()
    wrong = [
        (x, y, got, want)
        for x, y, got, want in zip(left, right, actual, expected, strict=True)
        if got != want
    ]
    assert not wrong, f"{len(wrong)} wrong (a, b, actual, expected): {wrong[:5]}"


@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize("op", [*ORACLES, *ROUNDED])
def test_binary(op: str, kind: str) -> None:
    check(op, kind, ORACLES.get(op) or ROUNDED[op])


@pytest.mark.parametrize("width", [1, 4, 32])
@pytest.mark.parametrize("kind", ["i8", "i32", "i64"])
@pytest.mark.parametrize("op", ["divsi", "divui", "remsi", "remui", "shli", "shrsi", "shrui"])
def test_division_and_shifts_at_other_widths(op: str, kind: str, width: int) -> None:
    check(op, kind, ORACLES[op], width=width)


@settings(max_examples=25)
@given(
    op=st.sampled_from(["divsi", "divui", "remsi", "remui"]),
    a=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=64),
    b=st.integers(-(2**31), 2**31 - 1),
)
def test_division_by_floats_is_exact(op: str, a: list[int], b: int) -> None:
    left = np.array(a + [signed(b * k + d, 32) for k in (1, 3, -2) for d in (-1, 0, 1)], np.int32)
    right = np.full(left.shape, b, np.int32)
    actual = apply(f"arith.{op}", ["i32", "i32"], ["i32"], left, right).tolist()
    assert actual == [signed(ORACLES[op](int(x), b, 32), 32) for x in left]


def test_8_bit_division_is_exact_for_every_pair() -> None:
    values = np.arange(-128, 128)
    left, right = np.meshgrid(values, values)
    for op in ("divsi", "divui"):
        actual = apply(f"arith.{op}", ["i8", "i8"], ["i8"], left, right)
        expected = [
            signed(ORACLES[op](int(a), int(b), 8), 8)
            for a, b in zip(left.ravel(), right.ravel(), strict=True)
        ]
        assert actual.ravel().tolist() == expected


@pytest.mark.parametrize("divisor", [1, -1, 0, 2, 3, 7, -8, 10, 1000, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("op", ["divsi", "divui", "remsi", "remui"])
def test_literal_divisors(op: str, divisor: int) -> None:
    left, _ = pairs(32, 200)
    literal = {1: f"splat (i32 {divisor})"}
    actual = apply(
        f"arith.{op}",
        ["i32", "i32"],
        ["i32"],
        np.array(left, np.int32),
        np.int32(divisor),
        literals=literal,
    )
    assert actual.tolist() == [signed(ORACLES[op](a, divisor, 32), 32) for a in left]


@pytest.mark.parametrize("amount", [0, 1, 31, 32, 33, 100, -1])
@pytest.mark.parametrize("op", ["shli", "shrsi", "shrui"])
def test_literal_shifts(op: str, amount: int) -> None:
    left, _ = pairs(32, 200)
    actual = apply(
        f"arith.{op}",
        ["i32", "i32"],
        ["i32"],
        np.array(left, np.int32),
        np.int32(amount),
        literals={1: f"splat (i32 {amount})"},
    )
    assert actual.tolist() == [signed(ORACLES[op](a, amount, 32), 32) for a in left]


@pytest.mark.parametrize(
    ("op", "oracle"),
    [
        ("addi", lambda a, b: a ^ b),
        ("muli", lambda a, b: a & b),
        ("shli", lambda a, b: a & ~b),
        ("shrui", lambda a, b: a & ~b),
        ("shrsi", lambda a, b: a),
        ("divui", lambda a, b: a | ~b),
        ("remui", lambda a, b: ~b),
        ("maxui", lambda a, b: a | b),
        ("maxsi", lambda a, b: a & b),
    ],
)
def test_single_bits(op: str, oracle: Callable[[Any, Any], Any]) -> None:
    a, b = np.array([0, 0, 1, 1], np.uint8), np.array([0, 1, 0, 1], np.uint8)
    actual = apply(f"arith.{op}", ["i1", "i1"], ["i1"], a, b)
    assert actual.tolist() == (oracle(a, b) & 1).tolist()


@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize("sign", ["s", "u"])
def test_extended_products(sign: str, kind: str) -> None:
    bits = WIDTHS[kind]
    left, right = pairs(bits, 200)
    a, b = np.array(left, TYPES[kind]), np.array(right, TYPES[kind])
    low, high = apply(f"arith.mul{sign}i_extended", [kind] * 2, [kind] * 2, a, b)
    exact = [
        x * y if sign == "s" else unsigned(x, bits) * unsigned(y, bits)
        for x, y in zip(left, right, strict=True)
    ]
    assert low.tolist() == [signed(p, bits) for p in exact]
    assert high.tolist() == [signed(p >> bits, bits) for p in exact]
    if sign == "u":
        assert apply("tt.mulhiui", [kind] * 2, [kind], a, b).tolist() == high.tolist()


@pytest.mark.parametrize("kind", WIDTHS)
def test_add_with_carry(kind: str) -> None:
    bits = WIDTHS[kind]
    left, right = pairs(bits, 200)
    a, b = np.array(left, TYPES[kind]), np.array(right, TYPES[kind])
    total, carry = apply("arith.addui_extended", [kind] * 2, [kind, "i1"], a, b)
    exact = [unsigned(x, bits) + unsigned(y, bits) for x, y in zip(left, right, strict=True)]
    assert total.tolist() == [signed(s, bits) for s in exact]
    assert carry.tolist() == [s >> bits for s in exact]


@pytest.mark.parametrize("kind", WIDTHS)
def test_bit_counts(kind: str) -> None:
    bits = WIDTHS[kind]
    values = [signed(1 << i, bits) for i in range(bits)] + corners(bits)
    x = np.array(values, TYPES[kind])
    texts = [format(unsigned(v, bits), f"0{bits}b") for v in values]
    counts = {
        "ctpop": [t.count("1") for t in texts],
        "ctlz": [len(t) - len(t.lstrip("0")) for t in texts],
        "cttz": [len(t) - len(t.rstrip("0")) for t in texts],
        "absi": [signed(abs(v), bits) for v in values],
    }
    for op, expected in counts.items():
        assert apply(f"math.{op}", [kind], [kind], x).tolist() == expected, op


@pytest.mark.parametrize("kind", [*WIDTHS, "i1"])
def test_extension_and_truncation(kind: str) -> None:
    bits = WIDTHS.get(kind, 1)
    values = corners(bits) if bits > 1 else [0, 1]
    x = np.array(values, TYPES[kind])
    # A signed i1 is 0 or -1.
    extended = [signed(v, bits) for v in values]
    for target, wide in WIDTHS.items():
        if wide > bits:
            assert apply("arith.extsi", [kind], [target], x).tolist() == extended
            zero = [signed(unsigned(v, bits), wide) for v in values]
            assert apply("arith.extui", [kind], [target], x).tolist() == zero
        elif wide < bits:
            low = [signed(v, wide) for v in values]
            assert apply("arith.trunci", [kind], [target], x).tolist() == low
    if bits > 1:
        assert apply("arith.trunci", [kind], ["i1"], x).tolist() == [v & 1 for v in values]


def test_index_casts_follow_the_widths() -> None:
    x = np.array([-1, 5, -(2**31)], np.int32)
    assert apply("arith.index_cast", ["i32"], ["i64"], x).tolist() == [-1, 5, -(2**31)]
    assert apply("arith.index_castui", ["i32"], ["i64"], x).tolist() == [2**32 - 1, 5, 2**31]
    assert apply("arith.index_cast", ["i64"], ["i32"], x).tolist() == x.tolist()


@pytest.mark.parametrize("kind", [*WIDTHS, "i1"])
def test_comparisons(kind: str) -> None:
    bits = WIDTHS.get(kind, 1)
    left, right = pairs(bits, 200) if bits > 1 else ([0, 0, 1, 1], [0, 1, 0, 1])
    a, b = np.array(left, TYPES[kind]), np.array(right, TYPES[kind])
    as_signed = ([signed(v, bits) for v in left], [signed(v, bits) for v in right])
    as_unsigned = ([unsigned(v, bits) for v in left], [unsigned(v, bits) for v in right])
    names = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
    compare: dict[str, Callable[[int, int], bool]] = {
        "eq": lambda x, y: x == y,
        "ne": lambda x, y: x != y,
        "lt": lambda x, y: x < y,
        "le": lambda x, y: x <= y,
        "gt": lambda x, y: x > y,
        "ge": lambda x, y: x >= y,
    }
    for number, name in enumerate(names):
        x, y = as_unsigned if name[0] == "u" else as_signed
        expected = [compare[name[-2:]](p, q) for p, q in zip(x, y, strict=True)]
        for predicate in (name, number):
            got = apply("arith.cmpi", [kind, kind], ["i1"], a, b, predicate=predicate)
            assert got.astype(bool).tolist() == expected, name


@pytest.mark.parametrize("op", ["divsi", "divui", "remsi", "remui"])
@pytest.mark.parametrize("large", [False, True])
def test_division_of_64_bit_integers_by_size(op: str, large: bool) -> None:
    """Divide integers of up to 51 bits, which uses doubles, and vectors with a larger element."""
    rng = np.random.default_rng(7)
    size = np.exp2(rng.uniform(0, 50, (2, 4096)))
    a, b = np.minimum(size, 2.0**50 - 1).astype(np.int64)
    a[:64] = b[:64] * rng.integers(1, 3, 64)
    a[64:96] = b[64:96] * 2 - 1
    a = np.minimum(a, 2**50 - 1)
    if op.endswith("si"):
        a, b = (v * rng.choice([-1, 1], v.shape) for v in (a, b))
        a[100] = -(2**50)
    if large:
        a[::8], b[1::8] = 2**50, 2**62 + 1
        a[3::16] = 2**63 - 1
    quotient = np.array([abs(int(x)) // abs(int(y)) for x, y in zip(a, b, strict=True)])
    quotient *= np.sign(a) * np.sign(b)
    expected = quotient if op.startswith("div") else a - quotient * b
    actual = apply(f"arith.{op}", ["i64"] * 2, ["i64"], a, b, width=8)
    np.testing.assert_array_equal(actual, expected)
