"""Tests of pointer provenance, memory effects and waiting loops, which decide what can be fused."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret
from ttools.interpreter.analysis.effects import Provenance, memory_effects, waits
from ttools.ir.parser import parse_module


@triton.jit
def moved_before_use_kernel(x_ptr, steps, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    pointers = x_ptr + lanes
    for _ in range(steps):
        pointers += 1
        value = tl.load(pointers)
        tl.store(x_ptr + lanes, value)


def compiled_ttir(kernel, *arguments, **constants) -> str:  # type: ignore[no-untyped-def]
    return str(kernel[(1,)](*arguments, **constants).asm["ttir"])


def test_a_pointer_moved_in_a_loop_keeps_its_origin() -> None:
    text = compiled_ttir(moved_before_use_kernel, torch.zeros(64), 3, BLOCK=16)
    module = parse_module(text)
    provenance = Provenance(module.kernel)
    loads = [op for op in module.kernel.walk() if op.name == "tt.load"]
    assert {p for op in loads for p in provenance.of(op.operands[0])} == {0}
    # The result does not depend on the order of queries: partial results of a cycle are not cached.
    other = Provenance(module.kernel)
    for op in module.kernel.walk():
        for result in op.results:
            other.of(result)
    assert {p for op in loads for p in other.of(op.operands[0])} == {0}
    assert memory_effects(module).written == {0}


def test_loads_through_moved_pointers_see_stores_of_the_loop() -> None:
    x = torch.arange(64.0)
    expected = x.clone()
    for step in range(1, 4):
        expected[:16] = expected[step : step + 16].clone()
    moved_before_use_kernel[(1,)](x, 3, BLOCK=16)
    torch.testing.assert_close(x, expected, rtol=0, atol=0)


@triton.jit
def through_memory_kernel(table_ptr, out_ptr):
    x_ptr = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
    tl.store(x_ptr, tl.load(out_ptr))


def test_stores_through_loaded_pointers_have_unknown_targets() -> None:
    x = torch.zeros(4)
    table = torch.tensor([x.data_ptr()])
    effects = memory_effects(
        parse_module(compiled_ttir(through_memory_kernel, table, torch.ones(4)))
    )
    assert effects.unknown_writes
    assert effects.indirect
    assert x[0] == 1


@triton.jit
def lock_kernel(lock_ptr, work_ptr, out_ptr, n):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.atomic_xchg(lock_ptr, 0)
    item = tl.atomic_add(work_ptr, 1)
    while item < n:
        tl.store(out_ptr + item, 1.0)
        item = tl.atomic_add(work_ptr, 1)


def test_a_loop_over_a_work_counter_does_not_wait() -> None:
    counters = torch.zeros(2, dtype=torch.int32)
    with interpret() as run:
        text = compiled_ttir(lock_kernel, counters, counters[1:], torch.zeros(10), 10)
    module = parse_module(text)
    loops = [op for op in module.kernel.walk() if op.name == "scf.while"]
    assert [waits(loop, module.functions) for loop in loops] == [True, False]
    assert not run.warnings
