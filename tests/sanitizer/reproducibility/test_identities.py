"""Equal hashes mean equal bits: random expressions with zeros, infinities and NaN."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ttools.interpreter.eager.elements import Handle, element
from ttools.sanitizer.reproducibility.hashes import (
    KEEPS,
    Hashed,
    Hashes,
    added,
    combined,
    constant,
    extremum,
    of_bits,
    tag,
    unordered_pair,
)
from ttools.sanitizer.reproducibility.identities import simplified

ZERO, F32 = constant("f32"), element("f32")
TINY = 2.0**-149
PAYLOAD = np.uint32(0x7FC12345).view(np.float32)
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.1, -3.7, 1e-30, -1e-30, TINY, -TINY, 3e38, -3e38]
POOL = np.array([*NUMBERS, np.inf, -np.inf, PAYLOAD], np.float32)
#: A number, a product of two numbers, or a sum of two expressions.
Expression = Any
INDICES = st.integers(0, len(POOL) - 1)
LEAVES = INDICES | st.tuples(st.just("*"), INDICES, INDICES)
SUMS = st.recursive(LEAVES, lambda inner: st.tuples(st.just("+"), inner, inner), max_leaves=5)


def canonical(value: Any) -> np.float32:
    """Return the result of an operation on a GPU, which has one NaN."""
    nan = np.uint32(0x7FFFFFFF).view(np.float32)
    return nan if np.isnan(value) else np.float32(value)


def handle(values: Any) -> Handle:
    return Handle(np.asarray(values, np.float32), F32)


def product_hash(x: np.float32, y: np.float32) -> Hashed:
    with np.errstate(all="ignore"):
        factors, result = (handle(x), handle(y)), handle(x * y)
    values = [of_bits(factor) for factor in factors]
    hashes = unordered_pair(tag("fmul"), *values)
    return simplified("fmul", factors, values, result, hashes)


def hash_of(tree: Expression) -> Hashed:
    if isinstance(tree, int):
        return of_bits(handle(POOL[tree]))
    if tree[0] == "*":
        return product_hash(POOL[tree[1]], POOL[tree[2]])
    operands = tree[1:]
    are_products = [isinstance(one, tuple) and one[0] == "*" for one in operands]
    return added(hash_of(operands[0]), hash_of(operands[1]), ZERO, are_products)


def fused(x: Any, y: Any, c: np.float32) -> np.float32:
    """Return `x * y + c` with one rounding."""
    with np.errstate(all="ignore"):
        if not np.isfinite([x, y, c]).all():
            return canonical(x * y + c)
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(c))
        if exact == 0:
            return canonical(np.float64(x) * np.float64(y) + np.float64(c))
        scale, size = 149, abs(exact) * Fraction(2) ** 149
        while size >= 1 << 24:
            size, scale = size / 2, scale - 1
        rounded = round(size)  # to the nearest, and to an even number
        number = np.ldexp(np.float64(rounded), -scale)
        return canonical(np.float32(-number if exact < 0 else number))


def value_of(tree: Expression, fuse: bool) -> np.float32 | None:
    """Return the bits on a GPU; None if two products could be fused with one sum."""
    with np.errstate(all="ignore"):
        if isinstance(tree, int):
            return np.float32(POOL[tree])
        if tree[0] == "*":
            return canonical(POOL[tree[1]] * POOL[tree[2]])
        a, b = tree[1:]
        products = [one for one in (a, b) if isinstance(one, tuple) and one[0] == "*"]
        if fuse and len(products) == 2:
            return None  # one product is rounded, so the machine code has fused and other sums
        values = [value_of(one, fuse) for one in (a, b)]
        if values[0] is None or values[1] is None:
            return None
        if fuse and products:
            other = values[1] if products[0] is a else values[0]
            return fused(POOL[products[0][1]], POOL[products[0][2]], other)
        return canonical(values[0] + values[1])


def with_zeros(tree: Expression, numbers: list[int]) -> Expression:
    """Return a tree in which +0.0 is added to some of the sums and numbers."""
    if isinstance(tree, tuple) and tree[0] == "+":
        tree = ("+", with_zeros(tree[1], numbers), with_zeros(tree[2], numbers))
    kind = numbers.pop() if numbers else 0
    return {1: ("+", tree, 0), 2: ("+", 0, tree), 3: ("+", tree, ("*", 0, 0))}.get(kind, tree)


P, Q = ("*", 2, 4), ("*", 5, 5)
KINDS = st.lists(st.integers(0, 3), max_size=6)


@given(SUMS, SUMS, KINDS, KINDS, st.booleans())
@example(("+", ("*", 8, 9), 0), 0, [1], [], True)  # the fused sum is -0.0
@example(("+", ("+", 0, P), Q), ("+", ("+", 0, Q), P), [], [], True)  # one product is rounded
def test_sums_with_equal_hashes_have_equal_bits(
    first: Expression, second: Expression, zeros: list[int], more: list[int], fuse: bool
) -> None:
    by_hash = defaultdict(set)
    for tree in (first, second, with_zeros(first, list(zeros)), with_zeros(first, list(more))):
        value = value_of(tree, fuse)
        if value is not None:
            by_hash[int(hash_of(tree))].add(int(value.view(np.uint32)))
    assert all(len(bits) == 1 for bits in by_hash.values()), by_hash


@given(st.lists(st.integers(2, 11), min_size=2, max_size=6), st.lists(st.integers(1, 2)))
def test_padding_does_not_change_hashes(numbers: list[int], kinds: list[int]) -> None:
    tree: Expression = numbers[0]
    for number in numbers[1:]:
        tree = ("+", tree, number)
    assert hash_of(tree) == hash_of(with_zeros(tree, kinds))
    minus_zeros = ("+", 1, 1)
    assert hash_of(minus_zeros) != hash_of(("+", minus_zeros, 0))


VALUES = np.array([0.0, -0.0, 1.0, 0.3, -2.5, 1e30, -1e-40, np.inf, -np.inf, np.nan], np.float32)


@pytest.mark.parametrize("operation", ["fmul", "fsub", "exp", "exp2", "fp_trunc", "fp_ext"])
@pytest.mark.parametrize("is_computed", [False, True])
def test_simplified_results_have_the_bits_of_their_constants(
    operation: str, is_computed: bool
) -> None:
    pairs = np.stack(np.meshgrid(VALUES, VALUES), -1).reshape(-1, 2)
    kind = element("f16" if operation == "fp_trunc" else "f32")
    source = element("f16" if operation == "fp_ext" else "f32")
    with np.errstate(all="ignore"):
        a, b = (Handle(pairs[:, n].astype(source.dtype), source) for n in (0, 1))
        functions = {"fmul": lambda: a.data * b.data, "fsub": lambda: a.data - b.data,
                     "exp": lambda: np.exp(a.data), "exp2": lambda: np.exp2(a.data)}  # fmt: skip
        data = functions.get(operation, lambda: a.data.astype(kind.dtype))()
    operands = [a, b] if operation in ("fmul", "fsub") else [a]
    values = [of_bits(one) for one in operands]
    if is_computed:
        for one, own in zip(operands, values, strict=True):
            one.shadow = Hashes(own)
    before = combined(tag(operation), *values)
    result = Handle(data, kind)
    after = simplified(operation, operands, values, result, before)
    bits = of_bits(result)
    is_same = (after & ~KEEPS) == (before & ~KEEPS)
    wrong = ~(is_same | (after == bits))
    assert not wrong.any(), pairs[wrong]
    assert (~is_same).any()
    keeps = (after & KEEPS) != 0
    assert ((bits & KEEPS)[keeps] != 0).all(), "adding +0.0 would change a result"


GROUPS = st.lists(st.lists(INDICES, min_size=1, max_size=4), min_size=1, max_size=4)


def greatest(values: list[np.float32]) -> np.float32:
    """Return the maximum on a GPU, which ignores NaN and prefers +0.0 to -0.0."""
    result = values[0]
    for value in values[1:]:
        if np.isnan(result) or np.isnan(value):
            result = canonical(value if np.isnan(result) else result)
        else:
            result = max(result, value, key=lambda x: (x, not np.signbit(x)))
    return result


@given(GROUPS, GROUPS)
@example([[14, 13]], [[14]])  # the maximum of NaN and -inf
def test_maxima_with_equal_hashes_have_equal_bits(
    first: list[list[int]], second: list[list[int]]
) -> None:
    def evaluate(groups: list[list[int]]) -> tuple[int, int]:
        hashes, values = [], []
        for group in groups:
            own = [np.float32(POOL[n]) for n in group]
            values.append(greatest(own))
            leaves = np.array([of_bits(handle(x)) for x in own])
            is_finite = np.isfinite(values[-1])
            hashes.append(extremum("maxnumf", leaves, 0, "f32", is_finite))
        result = greatest(values)
        total = extremum("maxnumf", np.array(hashes), 0, "f32", np.isfinite(result))
        return int(total), int(result.view(np.uint32))

    flat = [[n for group in first for n in group]]
    answers = [evaluate(groups) for groups in (first, second, flat, first[::-1])]
    bits_of = defaultdict(set)
    for number, bits in answers:
        bits_of[number].add(bits)
    assert all(len(bits) == 1 for bits in bits_of.values())


def test_maxima_do_not_depend_on_blocks() -> None:
    leaves = np.array([combined(tag("computed"), np.uint64(n << 8)) for n in range(6)])
    lowest = constant("f32", -np.inf)

    def of(*values: Any) -> Hashed:
        return extremum("maxnumf", np.array(values), 0, "f32", True)

    whole = of(*leaves)
    assert whole == of(of(*leaves[:2]), of(*leaves[2:])) == of(of(*leaves[::-1], lowest), lowest)
    assert whole != of(*leaves[:5])
    assert of(leaves[0], lowest) == leaves[0]
    assert of(of(*leaves[:2]), leaves[2]) != extremum(
        "minnumf", np.array([of(*leaves[:2]), leaves[2]]), 0, "f32", True
    )
