"""Aliases, tuple targets and unrolled loops, for which TTIR has no names, agree with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from watched_kernels import line_of

from ttools.watch import watch

BLOCK = 8


@triton.jit
def pair(v):
    low = v - 1
    high = v * 2
    return low, high


@triton.jit
def partly_named(v):
    low = v - 1
    return low, v * 3


@triton.jit
def early(v, flag):
    if flag:
        return v, v * 5
    return v * 7, v


@triton.jit
def thrice(t):
    for _ in tl.static_range(3):
        t = t * 1.5
    return t


@triton.jit
def kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    a, b = pair(x)
    alias = a
    d, e = partly_named(b)
    best, where = tl.max(x, 0, return_indices=True)
    p, q = x + 1, x * 4 + 2
    p, q = q, p
    count = n
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in tl.static_range(3):
        acc += tl.load(x_ptr + offs + i)
    for _ in tl.static_range(2):
        acc = acc * 2 + x
    s = acc + d
    for _ in range(n):
        before = s
        s = s * 0.5 + e
        tl.store(out_ptr + offs, before)
    even, odd = tl.split(tl.reshape(s, (BLOCK // 2, 2)))
    tl.store(out_ptr + offs, s + alias + p + q + best + where + count)
    tl.store(out_ptr + tl.arange(0, BLOCK // 2), even * odd)


@triton.jit
def doubtful(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    other = x
    if n > 2:
        other = x * 2
    chosen = other
    if n > 3:
        inside = x
        tl.store(out_ptr + offs, inside)
    u, v = early(x, n > 1)
    folded = 3
    for _i in tl.static_range(3):
        x = thrice(x)
    tl.store(out_ptr + offs, chosen + u + v + folded + x)


def run_kernel() -> None:
    kernel[(1,)](torch.zeros(16), torch.arange(16.0), 3, BLOCK=BLOCK)


def test_values_are_those_of_numpy() -> None:
    names = ["a", "b", "alias", "d", "e", "best", "where", "p", "q", "count", "before", "even"]
    with watch([*names, "odd"]) as run:
        run_kernel()
    assert not run.warnings
    values = {name: [r.values for r in run.recording[name]] for name in [*names, "odd"]}
    x = np.arange(8, dtype=np.float32)
    a, b = x - 1, x * 2
    d, e = b - 1, b * 3
    acc = x + (x + 1) + (x + 2)
    s = (acc * 2 + x) * 2 + x + d
    iterations = [s]
    for _ in range(3):
        iterations.append(iterations[-1] * np.float32(0.5) + e)
    expected: dict[str, list[Any]] = {
        "a": [a],
        "b": [b],
        "alias": [a],
        "d": [d],
        "e": [e],
        "best": [7.0],
        "where": [7],
        "p": [x + 1, x * 4 + 2],
        "q": [x + 1, x * 4 + 2],
        "count": [3],
        "before": iterations[:3],
        "even": [iterations[3][0::2]],
        "odd": [iterations[3][1::2]],
    }
    for name, wanted in expected.items():
        # The compiler decides the order of two values of a name.
        got = sorted(values[name], key=lambda value: value.reshape(-1)[0])
        in_order = sorted(wanted, key=lambda value: float(np.reshape(value, -1)[0]))
        assert len(got) == len(wanted), name
        for actual, wanted_value in zip(got, in_order, strict=True):
            np.testing.assert_array_equal(actual, wanted_value, err_msg=name)
    lines = {r.assignment.line: r.values for r in run.recording["p"]}
    np.testing.assert_array_equal(lines[line_of(kernel, "p, q = x + 1")], x + 1)
    np.testing.assert_array_equal(lines[line_of(kernel, "p, q = q, p")], x * 4 + 2)


def test_every_iteration_of_an_unrolled_loop_of_one_statement() -> None:
    with watch(["acc"]) as run:
        run_kernel()
    assert not run.warnings
    x = np.arange(8, dtype=np.float32)
    sums = [r.values for r in run.recording.select("acc", line=line_of(kernel, "acc += tl.load"))]
    np.testing.assert_array_equal(sums, [x, x + x + 1, x + x + 1 + x + 2])
    products = [
        r.values for r in run.recording.select("acc", line=line_of(kernel, "acc = acc * 2"))
    ]
    np.testing.assert_array_equal(products, [sums[2] * 2 + x, (sums[2] * 2 + x) * 2 + x])


def test_unavailable_values_are_reported() -> None:
    wishes = ["chosen", "inside", "u", "v", "folded", "x", "_i"]
    with watch(wishes) as run:
        doubtful[(1,)](torch.zeros(16), torch.arange(16.0), 3, BLOCK=BLOCK)
    for name, statement in [
        ("chosen", "chosen = other"),
        ("inside", "inside = x"),
        ("u", "u, v = early"),
        ("v", "u, v = early"),
        ("folded", "folded = 3"),
        ("_i", "for _i in"),
    ]:
        where = f"`{name}` of {__name__.rpartition('.')[2]}.py:{line_of(doubtful, statement)}"
        (sentence,) = [text for text in run.unmatched if where in text]
        assert "the compiled kernel has no separate value for it" in sentence
        assert "--engine eager --pdb" in sentence
    # The last product of an iteration cannot be distinguished from the others.
    (partly,) = [text for text in run.warnings if text not in run.unmatched]
    assert f":{line_of(doubtful, 'x = thrice')} in `doubtful`: unrolled loop: only the" in partly
    assert len(run.recording.select("x", line=line_of(doubtful, "x = thrice"))) == 1


def test_native_code_and_python_agree() -> None:
    with watch(compare="eager") as run:
        run_kernel()
    assert run.comparison.first is None, run.comparison.first
    assert run.comparison.compared >= 20
    with watch(compare="eager") as run:
        doubtful[(1,)](torch.zeros(16), torch.arange(16.0), 3, BLOCK=BLOCK)
    assert run.comparison.first is None, run.comparison.first


@triton.jit
def descriptor_product(x_ptr, y_ptr, out_ptr, K, N: tl.constexpr, B: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [N, K], [K, 1], [N, B])
    y = tl.make_tensor_descriptor(y_ptr, [N, K], [K, 1], [N, B])
    acc = tl.zeros((N, N), tl.float32)
    for k in range(0, K, B):
        acc = tl.dot(x.load([0, k]), y.load([0, k]).T, acc)
    i = tl.arange(0, N)
    tl.store(out_ptr + i[:, None] * N + i[None, :], acc)


def test_operands_of_descriptors_are_not_values_of_the_variable() -> None:
    x, y = torch.rand(16, 48, dtype=torch.float16), torch.rand(16, 48, dtype=torch.float16)
    with watch(["acc"]) as run:
        descriptor_product[(1,)](x, y, torch.empty(16, 16), 48, N=16, B=16)
    line = line_of(descriptor_product, "acc = tl.dot(")
    records = [
        selected for selected in run.recording.select("acc") if selected.assignment.line == line
    ]
    assert [record.iteration for record in records] == [(0,), (1,), (2,)]
    for (k,), values in ((record.iteration, record.values) for record in records):
        until = slice(0, 16 * (k + 1))
        expected = x[:, until].float() @ y[:, until].float().T
        np.testing.assert_allclose(values, expected.numpy(), rtol=1e-3)
