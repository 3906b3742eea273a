"""Tests of hashes of trees and sets, and of their marks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ttools.core.compilation.reductions.order import ReductionOrder
from ttools.interpreter.eager.elements import Handle, element
from ttools.sanitizer.reproducibility.follower import AtomicSum
from ttools.sanitizer.reproducibility.hashes import (
    ORDERED,
    UNKNOWN,
    UNSURE,
    Hashed,
    PendingProduct,
    added,
    as_multiset,
    as_set,
    combined,
    constant,
    of_bits,
    summed,
    tag,
    unordered_pair,
)

ZERO = constant("f32")


def inputs(*shape: int, seed: int = 0) -> Hashed:
    random = np.random.default_rng(seed)
    return of_bits(floats(random.standard_normal(shape)))


def floats(values: Any, kind: str = "f32") -> Handle:
    return Handle(np.asarray(values).astype(element(kind).dtype), element(kind))


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_follow_the_tree(axis: int) -> None:
    values = inputs(4, 4)
    order = ReductionOrder(4, ((0, 2), (1, 3), (4, 5)), 1, 4)
    a, b, c, d = np.moveaxis(values, axis, 0)
    expected = added(added(a, c, ZERO), added(b, d, ZERO), ZERO)
    assert (summed(values, axis, order, ZERO) == expected).all()
    other = ReductionOrder(4, ((0, 1), (2, 3), (4, 5)), 2, 4)
    assert (summed(values, axis, other, ZERO) != expected).all()


def test_operands_are_ordered_unless_the_operation_is_commutative() -> None:
    a, b = inputs(2, 100)
    assert (unordered_pair(tag("fadd"), a, b) == unordered_pair(tag("fadd"), b, a)).all()
    assert (combined(tag("fdiv"), a, b) != combined(tag("fdiv"), b, a)).all()
    assert (combined(tag("fdiv"), a, b) != combined(tag("fsub"), a, b)).all()


def test_sets_ignore_order_and_repetition_and_multisets_only_order() -> None:
    values = inputs(8)
    shuffled, doubled = values[::-1], np.concatenate([values, values[:3]])
    name = tag("max")
    assert as_set(name, values, 0) == as_set(name, shuffled, 0) == as_set(name, doubled, 0)
    assert as_multiset(name, values, 0) == as_multiset(name, shuffled, 0)
    assert as_multiset(name, values, 0) != as_multiset(name, doubled, 0)


@pytest.mark.parametrize("mark", [UNKNOWN, ORDERED, UNSURE])
def test_results_take_over_the_marks_of_operands(mark: np.uint64) -> None:
    values = inputs(4, 3)
    order = ReductionOrder(4, ((0, 1), (2, 3), (4, 5)), 2, 4)
    marked = values.copy()
    marked[1, 2] |= mark
    for reduce in (as_set, as_multiset, lambda _, v, axis: summed(v, axis, order, ZERO)):
        before, after = reduce(tag("x"), values, 0), reduce(tag("x"), marked, 0)
        assert (before & np.uint64(7)).tolist() == [0, 0, 0]
        assert (after & np.uint64(7)).tolist() == [0, 0, int(mark)]


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64", "i8", "i1", "i64"])
def test_known_bits_have_no_marks(kind: str) -> None:
    values = floats(np.arange(-20, 20) * 1.7, kind)
    hashes = of_bits(values)
    assert not (hashes & np.uint64(7)).any()
    assert len(set(hashes.tolist())) == len({value.tobytes() for value in values.data})


def test_zeros_of_different_sign_differ() -> None:
    first, second = of_bits(floats([0.0, -0.0]))
    assert first != second


def product(rows: Any, columns: Any, skips_zero: bool = False) -> PendingProduct:
    return PendingProduct(tag("mma"), rows, columns, "", PART, skips_zero)


PART = (np.uint64(combined(tag("row"), ZERO)), np.uint64(combined(tag("column"), ZERO)))


def test_products_are_chains_of_instructions() -> None:
    rows, columns = list(inputs(4, 3)), list(inputs(4, 5, seed=1))
    start, totals = np.zeros((3, 5), np.uint64), floats(np.ones((3, 5)))
    whole = product(rows, columns).added_to(start, totals)
    half = product(rows[:2], columns[:2]).added_to(start, totals)
    assert (product(rows[2:], columns[2:]).added_to(half, totals) == whole).all()
    assert (product(rows[::-1], columns[::-1]).added_to(start, totals) != whole).all()
    zeros = [np.full(3, PART[0])], [np.full(5, PART[1])]
    padded = product([*rows, *zeros[0]], [*columns, *zeros[1]]).added_to(start, totals)
    assert (padded == whole).all()
    one_factor = product([*rows, *zeros[0]], [*columns, columns[0]]).added_to(start, totals)
    assert (one_factor != whole).all()


def test_small_products_depend_on_the_sign_of_zero() -> None:
    rows, columns = list(inputs(2, 3)), list(inputs(2, 5, seed=1))
    zeros = np.full((3, 5), ZERO)
    for number, is_equal in ((1.0, True), (0.0, False), (1e-40, False), (np.nan, False)):
        totals = floats(np.full((3, 5), number))
        hashes = [product(rows, columns, skips).added_to(zeros, totals) for skips in (False, True)]
        assert ((hashes[0] == hashes[1]) == is_equal).all()


@pytest.mark.parametrize(
    ("operands", "from_zero", "is_ordered"),
    [
        ([3], False, False),
        ([3, 5], True, False),  # 0 + a + b equals 0 + b + a
        ([3, 5], False, True),
        ([3, 5, 3], True, True),
        ([3, 3, 3], False, False),  # equal summands can be exchanged
        ([3, 0, 5], True, False),  # +0.0 is no summand
        ([0, 3, 0], False, False),
    ],
)
def test_atomics_whose_order_decides(
    operands: list[int], from_zero: bool, is_ordered: bool
) -> None:
    def hash_of(order: list[int]) -> int:
        zero = int(ZERO)
        one = AtomicSum(kind="fadd", before=zero if from_zero else 1 << 8, zero=zero)
        for operand in order:
            number = operand << 8 if operand else zero
            one.add("fadd", number, int(combined(tag("x"), np.uint64(number))), None)
        assert one.is_ordered == is_ordered
        return one.hash()

    assert hash_of(operands) == hash_of(operands[::-1])
    assert bool(hash_of(operands) & int(ORDERED)) == is_ordered


@pytest.mark.parametrize(
    ("kinds", "is_ordered"),
    [
        (["add", "add", "add"], False),  # integers
        (["max", "max", "max"], False),
        (["add", "max", "add"], True),  # max(x, a) + b differs from max(x + b, a)
        (["max", "fadd", "max"], True),
    ],
)
def test_kinds_of_atomics(kinds: list[str], is_ordered: bool) -> None:
    one = AtomicSum(kind=kinds[0], before=1 << 8, zero=int(ZERO))
    for number, kind in enumerate(kinds, 1):
        one.add(kind, number << 9, number << 10, None)
    assert one.is_ordered == is_ordered
    assert bool(one.hash() & int(ORDERED)) == is_ordered
