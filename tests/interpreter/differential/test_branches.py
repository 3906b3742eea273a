"""Tests of tiles that branches yield: their values, their slots and moved loads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import kernel_text
import numpy as np
import pytest
import torch
from number_formats import Array

from ttools.fuzz.passes import fewest_passes
from ttools.interpreter.abi.module import EmitOptions, Facts
from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.schedule.plan import Plan
from ttools.interpreter.schedule.schedule import make_plan
from ttools.ir import Operation
from ttools.ir.parser import parse_module

N = 32
ROUNDS = 3

#: Statements of the two branches, which change the tiles a and b and the memory at m_ptr. Yielded
#: values are new, from outside, swapped, yielded twice, or from nested branches.
BRANCHES = {
    "made in both": ("a = tl.cumsum(a, 0)\nb = tl.cumsum(b, 0)", "a = tl.flip(a, 0)\nb = a + b"),
    "made in one": ("a = tl.cumsum(a, 0)", "b = tl.cumsum(b, 0)"),
    "from outside": ("a = before", "a = tl.cumsum(before, 0)\nbefore = b"),
    "swapped": ("a, b = b, a", "a, b = tl.cumsum(b, 0), a"),
    "twice": ("a = tl.cumsum(a + b, 0)\nb = a", "b = a"),
    "twice, and used between": (
        "a = tl.cumsum(a, 0)\nbefore = a * 2\nb = a",
        "b = tl.cumsum(b, 0)\na = b\nbefore = b + a",
    ),
    "the same in both": ("a = before\nb = before", "a = before\nb = before"),
    "one from the other": (
        "a = tl.cumsum(a, 0)\nb = tl.cumsum(a - b, 0)",
        "b = tl.cumsum(b, 0)\na = b * 3 + a",
    ),
    "a costly expression twice": ("a = costly(a)\nb = a + 1", "a = costly(b)\nb = a"),
    "loads, then a store": (
        "a = a + tl.load(m_ptr + lanes)\ntl.store(m_ptr + lanes, b)",
        "a = b - tl.load(m_ptr + (N - 1 - lanes)) * 2",
    ),
    "a load after a store": (
        "tl.store(m_ptr + lanes, a)\ntl.debug_barrier()\nb = b + tl.load(m_ptr + (N - 1 - lanes))",
        "b = tl.load(m_ptr + lanes)\na = a + b",
    ),
    "a load used twice": (
        "a = tl.load(m_ptr + lanes)\nb = a * a",
        "b = tl.load(m_ptr + lanes)\nb = b * b",
    ),
    "a load before an atomic": (
        "a = a + tl.load(m_ptr + lanes)\ntl.atomic_add(m_ptr + (N - 1 - lanes), a & 5)",
        "b = tl.atomic_add(m_ptr + lanes, a & 3) + tl.load(m_ptr + (lanes ^ 1)) * 0",
    ),
    "a loop": (
        "for i in range(turn + 1):\n    a = tl.cumsum(a, 0) & 127\n    b, before = before, b",
        "for i in range(turn):\n    b = tl.cumsum(b, 0) & 127 + a",
    ),
    "what a loop leaves, twice": (
        "for i in range(turn + 1):\n    a = tl.cumsum(a, 0) & 127\nb = a",
        "for i in range(turn):\n    b = b * 3 + i\na, before = b, b",
    ),
    "what a loop adds, twice": (
        "for i in range(turn + 1):\n    a = a + i\nb = a",
        "for i in range(turn):\n    b = b + 3\na, before = b, b",
    ),
    "what a branch leaves, twice": (
        "if turn == 1:\n    a = tl.cumsum(a, 0)\nelse:\n    a = a + b\nb = a",
        "if turn == 1:\n    b = before\nelse:\n    for i in range(2):\n        b = b + a\na = b",
    ),
    "nested": (
        "if turn == 1:\n    a, b = tl.flip(a, 0), before\nelse:\n    b = tl.flip(a, 0)\na = a + b",
        "if turn == 0:\n    a, b = tl.cumsum(b, 0), tl.cumsum(a, 0)\nelse:\n    a = b",
    ),
    "nested, yielded twice": (
        "if turn<1:\n    a = tl.cumsum(a, 0)\n    b = a\nelse:\n    b = tl.flip(b, 0)\nbefore = b",
        "if turn == 1:\n    before = tl.cumsum(b, 0)\nb = before\na = before",
    ),
}  # fmt: skip
#: Branches that the default test run also compiles with the fewest passes of the compiler.
NOT_SIMPLIFIED = ("made in both", "twice, and used between", "a loop", "nested, yielded twice")

_HEAD = f"""
@triton.jit
def costly(x):
    return (x * 7 & 1023) // 3 * 5 // 7

@triton.jit
def kernel(out_ptr, m_ptr, bits, N: tl.constexpr):
    lanes = tl.arange(0, N)
    m_ptr += tl.program_id(0) * N
    out_ptr += tl.program_id(0) * 4 * N
    a, b = lanes.to(tl.int64) + 1, lanes.to(tl.int64) * 5 % 9
    before = tl.cumsum(a * b, 0)
    for turn in range({ROUNDS}):
        if (bits >> turn) & 1:
"""


def kernel_of(then: str, otherwise: str) -> str:
    """Return the text of a kernel that takes one of two branches in each iteration of a loop."""
    lines = [f"            {line}" for line in then.splitlines()] + ["        else:"]
    lines += [f"            {line}" for line in otherwise.splitlines()]
    for n, name in enumerate(["a", "b", "before", "tl.load(m_ptr + lanes)"]):
        lines.append(f"    tl.store(out_ptr + {n} * N + lanes, {name})")
    return _HEAD + "\n".join(lines) + "\n"


def costly(x: Array) -> Array:
    return (x * 7 & 1023) // 3 * 5 // 7


class _Language:
    """A replacement of `tl` with which NumPy executes branches; `m_ptr + lanes` are indices."""

    def __init__(self) -> None:
        self.memory = np.arange(N) * 3 - 7

    def load(self, index: Array) -> Array:
        return self.memory[index]

    def store(self, index: Array, value: Array) -> None:
        self.memory[index] = value

    def atomic_add(self, index: Array, value: Array) -> Array:
        old = self.memory[index]
        self.memory[index] += value
        return old

    def cumsum(self, x: Array, axis: int) -> Array:
        return x.cumsum(axis)

    def flip(self, x: Array, dim: int) -> Array:
        return np.flip(x, dim)

    def debug_barrier(self) -> None:
        """Do nothing, because programs of this oracle have one thread."""


def expected(then: str, otherwise: str, bits: int) -> Array:
    """Return what a program stores, as NumPy computes it."""
    language, lanes = _Language(), np.arange(N)
    a, b = lanes + 1, lanes * 5 % 9
    names: dict[str, Any] = {"a": a, "b": b, "before": np.cumsum(a * b)}
    names |= {"tl": language, "lanes": lanes, "m_ptr": 0, "N": N, "costly": costly}
    for turn in range(ROUNDS):
        names["turn"] = turn
        exec(then if bits >> turn & 1 else otherwise, names)  # the text is in this file
    return np.stack([names["a"], names["b"], names["before"], language.memory])


@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize(
    ("name", "simplified"),
    [
        *((name, True) for name in BRANCHES),
        *(
            pytest.param(name, False, marks=() if name in NOT_SIMPLIFIED else pytest.mark.slow)
            for name in BRANCHES
        ),
    ],
)
def test_against_numpy(name: str, simplified: bool) -> None:
    then, otherwise = BRANCHES[name]
    kernel = kernel_text.kernel(kernel_of(then, otherwise))
    with nullcontext() if simplified else fewest_passes():
        _compare(kernel, then, otherwise, num_stages=2 if simplified else 1)


def _compare(kernel: Any, then: str, otherwise: str, **options: int) -> None:
    for bits in range(2**ROUNDS):
        out = torch.zeros(2, 4, N, dtype=torch.int64)
        memory = torch.arange(N).mul(3).sub(7).repeat(2, 1).contiguous()
        kernel[(2,)](out, memory, bits, N=N, **options)
        reference = expected(then, otherwise, bits)
        np.testing.assert_array_equal(out[0], reference, str(bits))
        np.testing.assert_array_equal(out[1], reference, str(bits))


# ---- decisions of the plan


def planned(then: str, otherwise: str) -> tuple[Operation, Plan]:
    """Return the first `scf.if` of a kernel, and the plan of the kernel."""
    kernel = kernel_text.kernel(kernel_of(then, otherwise))
    memory = torch.arange(N).mul(3).sub(7)
    compiled = kernel[(1,)](torch.zeros(4, N, dtype=torch.int64), memory, 1, N=N)
    function = parse_module(str(compiled.asm["ttir"])).kernel
    conditional = next(op for op in function.walk() if op.name == "scf.if")
    return conditional, make_plan(function, Facts(), EmitOptions(), Provenance(function))


@pytest.mark.usefixtures("native")
def test_new_values_of_a_branch_use_the_slot_of_the_result() -> None:
    conditional, plan = planned("a = tl.cumsum(a, 0)", "b = tl.cumsum(b, 0)")
    sharing = {plan.shares.get(v) for r in conditional.regions for v in r.entry.terminator.operands}
    assert set(conditional.results) <= sharing


@pytest.mark.usefixtures("native")
def test_values_from_outside_keep_their_slot() -> None:
    conditional, plan = planned("a = before\ntl.store(m_ptr, 1)", "b = before")
    for region in conditional.regions:
        for value in region.entry.terminator.operands:
            assert plan.shares.get(value) not in conditional.results


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(
    ("then", "waits"),
    [
        ("a = a + tl.load(m_ptr + lanes)", True),
        ("a = a + tl.load(m_ptr + lanes)\ntl.store(m_ptr + lanes, b)", False),
        ("a = a + tl.load(m_ptr + lanes)\ntl.atomic_add(m_ptr, 1)", False),
        ("a = a + tl.load(m_ptr + lanes)\ntl.debug_barrier()", False),
        ("a = a + tl.load(m_ptr + lanes, volatile=True)", False),
        ("a = tl.load(m_ptr + lanes)\nb = a * a", False),
        ("a = tl.cumsum(tl.load(m_ptr + lanes), 0)", False),
        ("if turn == 1:\n    tl.store(m_ptr, 1)\na = tl.load(m_ptr + lanes)", True),
        ("a = tl.load(m_ptr + lanes)\nif turn == 1:\n    tl.store(m_ptr, 1)", False),
    ],
)
def test_which_loads_move_to_their_use(then: str, waits: bool) -> None:
    conditional, plan = planned(then, "b = a")
    loads = [op for op in conditional.walk() if op.name == "tt.load"]
    assert len(loads) == 1
    assert plan.is_stored(loads[0].results[0]) != waits


#: Operations that read a whole tile from memory, and the same functions in NumPy.
READERS: dict[str, tuple[str, Callable[[Array, int], Array]]] = {
    "call": ("early(b, n)", lambda b, n: b + 1 if n > 2 else b - n),
    "dot": ("tl.dot(b.to(tl.int8), b.to(tl.int8))", lambda b, n: b @ b),
    "gather": ("tl.gather(b, b & 15, 0)", lambda b, n: np.take_along_axis(b, b & 15, 0)),
    "map": ("tl.map_elementwise(larger, b, b * 2)", lambda b, n: np.maximum(b, 2 * b)),
    "sum": ("b + tl.sum(b, 0)[None, :]", lambda b, n: b + b.sum(0)),
}


@pytest.mark.parametrize("reader", READERS)
def test_results_of_a_loop_are_both_read_and_yielded(reader: str) -> None:
    expression, expected = READERS[reader]
    text = f"""
    @triton.jit
    def early(t, n):
        if n > 2:
            return t + 1
        return t - n

    @triton.jit
    def larger(a, b):
        if a > b:
            return a
        return b

    @triton.jit
    def kernel(x_ptr, out_ptr, n):
        at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
        a = tl.load(x_ptr + at)
        b = tl.trans(a)
        read = a
        if n > 0:
            for _ in range(n):
                b = a - tl.trans(b)
            read = {expression}
        tl.store(out_ptr + at, read)
        tl.store(out_ptr + 256 + at, b)
    """
    x = np.random.default_rng(8).integers(-9, 9, (16, 16)).astype(np.int32)
    for n in (0, 1, 3):
        out = torch.zeros(2, 16, 16, dtype=torch.int32)
        kernel_text.kernel(text)[(1,)](torch.from_numpy(x), out, n)
        b = x.T
        for _ in range(n):
            b = x - b.T
        assert np.array_equal(out[0], expected(b, n) if n else x)
        assert np.array_equal(out[1], b)
