"""All passes together on one kernel keep its results and report their own defects."""

from __future__ import annotations

from typing import Any

import instrumented
import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ttools.ir import Module
from ttools.ir.rewriting import Builder
from ttools.ir.verification import verify
from ttools.sanitizer.passes import numeric, overflow, undefined
from ttools.sanitizer.passes.hints import bad_hint

B = 16


@triton.jit
def product(a_ptr, b_ptr, c_ptr, m, n, k, stride, B: tl.constexpr):
    rows = tl.program_id(0) * B + tl.arange(0, B)
    columns = tl.program_id(1) * B + tl.arange(0, B)
    clamped = tl.max_contiguous(tl.multiple_of(columns % n, B), B)
    steps = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for start in range(0, k, B):
        inside = start + steps < k
        a_mask = (rows[:, None] < m) & inside[None, :]
        a = tl.load(a_ptr + rows[:, None] * stride + (start + steps)[None, :], mask=a_mask)
        b = tl.load(
            b_ptr + (start + steps)[:, None] * n + clamped[None, :],
            mask=inside[:, None],
            other=0.0,
        )
        acc += tl.dot(a, b, input_precision="ieee")
    c_mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], acc, mask=c_mask)


def arguments_of(m: int, n: int, k: int) -> dict[str, Any]:
    return {
        "a_ptr": torch.randn(m, k),
        "b_ptr": torch.randn(k, n),
        "c_ptr": torch.zeros(m, n),
        "m": m,
        "n": n,
        "k": k,
        "stride": k,
    }


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
@pytest.mark.parametrize(("k", "kinds"), [(32, set()), (27, {"uninit_read"})])
def test_a_matrix_product(k: int, kinds: set[str], schedule: str) -> None:
    m, n = 21, 25
    arguments = arguments_of(m, n, k)
    grid = (2, 2)
    candidates: set[Any] = set()

    def rewrite(module: Module) -> None:
        scalars = {3: m, 4: n, 5: k, 6: k}
        assert overflow.find(module, scalars, grid) == frozenset()
        candidates.update(overflow.find(module, {}, grid))
        assert overflow.apply(module, candidates) == []
        assert verify(module) == []
        assert bad_hint.apply(module) == []
        assert verify(module) == []
        assert undefined.apply(module) == []
        assert verify(module) == []
        numeric.apply(module)

    results = instrumented.run(
        product,
        grid,
        arguments,
        {"B": B},
        rewrite,
        schedule=schedule,  # type: ignore[arg-type]
    )
    assert candidates  # the pass knows no value of the scalars, so that it instruments
    assert {h.kind for h in results} >= {"int_overflow", "uninit_read", "bad_hint", "nan", "inf"}
    assert {h.kind for h in results if h.any} == kinds
    expected = arguments["a_ptr"] @ arguments["b_ptr"]
    torch.testing.assert_close(arguments["c_ptr"], expected, rtol=1e-4, atol=1e-4)
    for h in results:
        if h.kind == "uninit_read" and h.any:
            assert h.argument == 0
            rows = np.arange(2)[:, None] * B + np.arange(B)
            # Every stored lane is a sum with undefined summands.
            stored = (rows[:, None, :, None] < m) & (rows[None, :, None, :] < n)
            flat = stored.transpose(1, 0, 2, 3).reshape(4, B, B)
            np.testing.assert_array_equal(h.where != 0, flat)


def test_the_verifier_finds_invalid_modules() -> None:
    def module() -> Module:
        return instrumented.parsed(product, arguments_of(4, 4, 4), {"B": B})

    broken = module()
    store = next(op for op in broken.kernel.walk() if op.name == "tt.store")
    store.operands[1].uses.clear()
    assert verify(broken) == ["an operand is missing from the uses of its value"]

    broken = module()
    block = broken.kernel.regions[0].entry
    block.operations.insert(0, block.operations.pop(-2))
    assert any("before its definition" in problem for problem in verify(broken))

    broken = module()
    loop = next(op for op in broken.kernel.walk() if op.name == "scf.for")
    b = Builder(broken.kernel.regions[0].entry.operations, None, None)
    assert b.operation("arith.addi", [loop.operands[0], loop.results[0]], [loop.results[0].type])
    assert any("types differ" in problem for problem in verify(broken))
