"""Tests that the verification of schedules accepts all plans and finds intentional errors."""

from __future__ import annotations

import copy

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.errors import UnsupportedError
from ttools.interpreter import interpret
from ttools.interpreter.abi.module import EmitOptions, Facts
from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.emit import kernel as emission
from ttools.interpreter.schedule.plan import Plan
from ttools.interpreter.schedule.schedule import make_plan
from ttools.interpreter.schedule.verification import verify_plan
from ttools.ir import Operation, Value
from ttools.ir.parser import parse_module


@triton.jit
def all_kinds_of_values(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Use tiles that loops carry, that branches yield once or twice, and that are read whole."""
    lanes = tl.arange(0, BLOCK)
    a = tl.load(x_ptr + lanes)
    b = tl.cumsum(a, 0)
    kept = b
    for i in range(n):
        a, b = tl.cumsum(b, 0), a + i
    if n > 2:
        for _ in range(n):
            a = tl.cumsum(a, 0) & 127
        b = a
    else:
        b = tl.cumsum(b, 0)
        if n == 1:
            a = tl.flip(b, 0)
    steps = n
    while steps > 0:
        a, b = tl.cumsum(b, 0) & 63, a + kept
        steps -= 1
    tl.store(out_ptr + lanes, tl.gather(a, b & (BLOCK - 1), 0))
    tl.store(out_ptr + BLOCK + lanes, b + kept)


@triton.jit
def leaves_early(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    a = tl.cumsum(tl.load(x_ptr + lanes), 0)
    if n > 2:
        tl.store(out_ptr + lanes, a)
        return
    tl.store(out_ptr + lanes, tl.cumsum(a + n, 0) + a)


@triton.jit
def stores_between(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    a = tl.load(x_ptr + lanes)
    b = a
    if n > 2:
        b = tl.load(x_ptr + BLOCK - 1 - lanes) + 1
    tl.store(out_ptr + lanes, b)
    tl.store(out_ptr + BLOCK + lanes, a)


def scheduled(kernel: object, schedule: str = "fused") -> tuple[Operation, Plan, Facts, Provenance]:
    """Return the function of a kernel, its plan, and the facts and provenance for the plan."""
    with interpret():
        compiled = kernel[(1,)](torch.arange(16), torch.zeros(32, dtype=torch.int64), 3, BLOCK=16)  # type: ignore[index]
    function = parse_module(str(compiled.asm["ttir"])).kernel
    options = EmitOptions(schedule=schedule)  # type: ignore[arg-type]
    facts, provenance = Facts(), Provenance(function)
    return function, make_plan(function, facts, options, provenance), facts, provenance


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
@pytest.mark.parametrize("kernel", [all_kinds_of_values, leaves_early, stores_between])
def test_plans_are_accepted(kernel: object, schedule: str) -> None:
    assert verify_plan(*scheduled(kernel, schedule)) == []


def test_a_value_with_two_slots_is_found() -> None:
    function, plan, facts, provenance = scheduled(all_kinds_of_values)
    for value, other in plan.shares.items():
        broken = copy.copy(plan)
        broken.stored = {**plan.stored, value: False}
        assert any("its own slot" in p for p in verify_plan(function, broken, facts, provenance)), (
            value,
            other,
        )


def test_a_loop_whose_result_nothing_fills_is_found() -> None:
    function, plan, facts, provenance = scheduled(all_kinds_of_values)
    loops = [op for op in function.walk() if op.name == "scf.for"]
    results = [v for op in loops for v in op.results if v in plan.shares]
    assert results
    for value in results:
        broken = copy.copy(plan)
        broken.shares = {v: o for v, o in plan.shares.items() if v is not value}
        broken.stored = {**plan.stored, value: False}
        assert any(
            "contains another value" in p for p in verify_plan(function, broken, facts, provenance)
        ), value


def test_two_live_values_in_one_slot_are_found() -> None:
    """Put live tiles into one slot: all of them are read at the end, so none can share a slot."""
    function, plan, facts, provenance = scheduled(all_kinds_of_values)
    first = next(op for op in function.walk() if op.name == "tt.scan").results[0]  # `kept`
    others = [v for v in plan.stored if v is not first and v.type == first.type]
    assert len(others) > 3
    for other in others:
        broken = copy.copy(plan)
        broken.stored = {v: w for v, w in plan.stored.items() if v is not other}
        broken.shares = {**plan.shares, other: first}
        assert verify_plan(function, broken, facts, provenance), other


def test_a_load_that_moves_past_a_store_is_found() -> None:
    function, plan, facts, provenance = scheduled(stores_between)
    outside, inside = (op.results[0] for op in function.walk() if op.name == "tt.load")

    def is_found(value: Value, facts: Facts) -> bool:
        broken = copy.copy(plan)
        broken.stored = {v: w for v, w in plan.stored.items() if v is not value}
        return any("after a write" in p for p in verify_plan(function, broken, facts, provenance))

    assert is_found(outside, facts)
    assert not is_found(inside, facts)  # the load can be evaluated at the end of its branch
    assert not is_found(outside, Facts(readonly=frozenset({0})))


def test_a_kernel_with_a_broken_schedule_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(*arguments: object) -> Plan:
        plan = make_plan(*arguments)  # type: ignore[arg-type]
        for value in list(plan.shares):
            plan.shares.pop(value)
            plan.store(value)
        return plan

    monkeypatch.setattr(emission, "make_plan", careless)
    x, out = torch.arange(8), torch.zeros(16, dtype=torch.int64)
    with interpret(), pytest.raises(UnsupportedError, match="but its slot contains another value"):
        all_kinds_of_values[(1,)](x, out, 3, BLOCK=8)
