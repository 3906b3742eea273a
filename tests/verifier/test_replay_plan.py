"""Untrusted plans: they are validated when they are read, and limited when they are executed."""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ttools.core.process.channel import WorkerEndedError
from ttools.core.process.worker import Limits, fork_worker
from ttools.core.spec import ArgumentSpec, LaunchSpec, TensorSpec
from ttools.verifier.cases.tensors import CODEC, elements, image_of
from ttools.verifier.replay.execution import Executor
from ttools.verifier.replay.numbers import count_numbers
from ttools.verifier.replay.operators import OPERATORS, find_operator
from ttools.verifier.replay.plan import (
    LONGEST_PLAN,
    ConstantStorage,
    InputStorage,
    Items,
    LaunchStep,
    MadeStorage,
    OperatorStep,
    Plan,
    PlanError,
    Symbol,
    read_plan,
    write_plan,
)
from ttools.verifier.replay.tables import ConstantValues, numbers_of
from ttools.verifier.workers.replayer import Replayer
from ttools.verifier.workers.warm_up import warm_up


def view(storage: int, count: int = 4, **others: Any) -> TensorSpec:
    fields = {"offset": 0, "shape": (count,), "strides": (1,), "dtype": "float32", "itemsize": 4}
    return TensorSpec(storage=storage, **{**fields, **others})


#: A small plan with each kind of storage: the maximum of two vectors, one of them doubled in place.
PLAN = Plan(
    storages=(InputStorage("x", 16), ConstantStorage(bytes(16)), MadeStorage(16), MadeStorage(16)),
    kernels=(),
    steps=(
        OperatorStep(
            "aten::_to_copy", (view(0),), {"dtype": Symbol("dtype", "float32")}, (view(2),)
        ),
        OperatorStep("aten::add_.Tensor", (view(2), view(0)), {"alpha": 1}, (view(2),)),
        OperatorStep("aten::maximum", (view(1), view(2)), {}, (view(3),)),
    ),
    results={"result": view(3)},
)
LAUNCH = LaunchStep(
    0, LaunchSpec(kernel="k", grid=(1, 1, 1), arguments=(ArgumentSpec(name="x", type="*fp32"),))
)


def changed(step: int, **fields: Any) -> Plan:
    steps = list(PLAN.steps)
    steps[step] = replace(steps[step], **fields)
    return replace(PLAN, steps=tuple(steps))


def launching(**fields: Any) -> Plan:
    spec = replace(LAUNCH.spec, **fields)
    return replace(PLAN, kernels=("",), steps=(*PLAN.steps, LaunchStep(0, spec)))


def answer(plan: Plan | bytes, x: torch.Tensor) -> dict[str, Any]:
    replayer = Replayer(timeout=2.0)
    data = plan if isinstance(plan, bytes) else write_plan(plan)
    assert "forged" not in replayer.answer({"do": "plan", "data": data})
    return replayer.answer({"do": "call", "arguments": {"x": image_of(x)}})


def test_a_plan_computes_on_other_inputs() -> None:
    x = torch.tensor([-1.0, 2.0, -3.0, 4.0])
    response = answer(PLAN, x)
    [result] = response["results"]
    assert torch.equal(elements(result["image"]), (2 * x).clamp(min=0))


def test_a_plan_is_read_as_it_was_written() -> None:
    plan = replace(PLAN, kernels=("a",), steps=(*PLAN.steps, LAUNCH), reads=("x",))
    assert read_plan(write_plan(plan)) == plan


REFUSED = {
    "uses a storage before it is made": (changed(0, arguments=(view(3),)), "before it is made"),
    "no such storage": (changed(2, arguments=(view(9), view(2))), "before it is made"),
    "no such new storage": (changed(2, results=(view(9),)), "there is no storage 9"),
    "beyond a storage": (changed(1, arguments=(view(2), view(0, 5))), "reaches beyond"),
    "strides beyond": (changed(1, arguments=(view(2), view(0, strides=(2,)))), "reaches beyond"),
    "offset beyond": (changed(1, arguments=(view(2), view(0, offset=4))), "reaches beyond"),
    "negative strides": (
        changed(1, arguments=(view(2), view(0, offset=12, strides=(-1,)))),
        "negative strides",
    ),
    "a crooked offset": (changed(1, arguments=(view(2), view(0, 3, offset=2))), "inconsistently"),
    "another size of element": (
        changed(1, arguments=(view(2), view(0, 1, itemsize=8))),
        "inconsistently",
    ),
    "no type": (changed(1, arguments=(view(2), view(0, dtype="Tensor"))), "inconsistently"),
    "inside of lists": (changed(2, arguments=(Items((Items((view(9),)),)),)), "before it is made"),
    "another operator": (changed(2, operator="aten::from_file"), "not among those"),
    "another namespace": (changed(2, operator="mylib::maximum"), "not among those"),
    "an operator that makes views": (changed(2, operator="aten::as_strided"), "not among those"),
    "no operator": (changed(2, operator="os.system"), "not among those"),
    "a result beyond": (replace(PLAN, results={"result": view(3, 9)}), "reaches beyond"),
    "an enormous storage": (
        replace(PLAN, storages=(*PLAN.storages[:3], MadeStorage(1 << 40))),
        "bytes; at most",
    ),
    "an address": (
        launching(arguments=(ArgumentSpec(name="x", type="*fp32", value=4096),)),
        "pointer `x` is a number",
    ),
    "a tensor for a number": (
        launching(arguments=(ArgumentSpec(name="x", type="i32", value=view(0)),)),
        "not a pointer",
    ),
    "no such kernel": (replace(PLAN, steps=(LAUNCH,)), "there is no kernel 0"),
    "two storages for one argument": (
        replace(PLAN, storages=(PLAN.storages[0], InputStorage("x", 16), *PLAN.storages[2:])),
        "two storages for one argument",
    ),
    "two storages for one tensor": (changed(1, results=(view(3),)), "have two storages"),
    "an operand by its name": (
        changed(1, arguments=(view(2),), keywords={"other": view(0)}),
        "the operand `other` is passed by its name",
    ),
    "a negative grid": (launching(grid=(-1, 1, 1)), "out of range"),
    "an enormous grid": (launching(grid=(1 << 40, 1, 1)), "out of range"),
    "too many kernels": (replace(PLAN, kernels=("",) * 1000), "1,000 kernels"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_plans_are_refused(name: str) -> None:
    plan, reason = REFUSED[name]
    with pytest.raises(PlanError, match=reason):
        read_plan(write_plan(plan))


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x90", b"\x80", b"\x91" * 100_000, b"\xdf" * 9])
def test_bytes_that_are_no_plan(data: bytes) -> None:
    with pytest.raises(PlanError, match="malformed"):
        read_plan(data)


def test_a_plan_that_is_too_long() -> None:
    with pytest.raises(PlanError, match="at most"):
        read_plan(bytes(LONGEST_PLAN + 1))


FAILING = {
    "another shape": (changed(2, results=(view(3, 2),)), "a different tensor"),
    "another number of results": (changed(2, results=(view(3), view(3))), "returns 1 tensors"),
    "no overload": (changed(2, operator="aten::maximum.nothing"), "no operator"),
    "wrong operands": (changed(2, arguments=(view(1), "text")), "step 2"),
    "wrong keywords": (changed(2, keywords={"out_of": 1}), "step 2"),
    "no dtype": (
        changed(0, keywords={"dtype": Symbol("dtype", "Tensor")}),
        "no dtype `Tensor`",
    ),
    "an enormous result": (
        changed(2, operator="aten::full", arguments=(Items((1 << 50,)), 1.0)),
        "step 2",
    ),
    "an argument of another size": (
        replace(PLAN, storages=(InputStorage("x", 32), *PLAN.storages[1:])),
        "has 16 bytes",
    ),
    "no such argument": (
        replace(PLAN, storages=(InputStorage("y", 16), *PLAN.storages[1:])),
        "no argument `y`",
    ),
    "no TTIR": (launching(), "reading the TTIR of kernel `k`"),
}


@pytest.mark.parametrize("name", FAILING)
def test_plans_that_fail_during_execution(name: str) -> None:
    plan, reason = FAILING[name]
    response = answer(plan, torch.ones(4))
    assert reason in response["unsupported"]


def test_memory_has_one_storage() -> None:
    plan = replace(PLAN, storages=(PLAN.storages[0], InputStorage("y", 16), *PLAN.storages[2:]))
    x = torch.ones(4)
    with pytest.raises(PlanError, match="storage 1 is another storage of the plan"):
        Executor(timeout=2.0).run(plan, {"x": x, "y": x})


def test_operators_exist_and_make_no_views() -> None:
    missing = [name for name in OPERATORS if not hasattr(torch.ops.aten, name)]
    in_place = [name for name in missing if not hasattr(torch.ops.aten, f"{name}_")]
    assert not in_place
    for name in OPERATORS - set(missing):
        for overload in getattr(torch.ops.aten, name).overloads():
            operator = find_operator(f"aten::{name}.{overload}")
            if operator is not None:
                returns = operator._schema.returns
                views = [e for e in returns if e.alias_info and not e.alias_info.is_write]
                assert not views, operator
    assert find_operator("aten::set_.source_Storage") is None
    assert find_operator("aten::resize_") is None


def mutated(value: Any, pick: random.Random) -> Any:
    """Return a copy of plain data with one random change."""
    if isinstance(value, (list, dict)) and value and pick.random() < 0.9:
        copy: Any = value.copy()
        key = pick.choice(list(copy) if isinstance(copy, dict) else range(len(copy)))
        if pick.random() < 0.1:
            copy.pop(key)
        else:
            copy[key] = mutated(copy[key], pick)
        return copy
    numbers = [-1, 0, 1, 3, 16, 1 << 31, (1 << 63) - 1, 1 << 63, -(1 << 63)]
    others = [None, True, 1e308, "float32", "", "aten::add.Tensor", b"", [], {}, value, [value]]
    return pick.choice([*numbers, *others])


@settings(max_examples=400, deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_change_is_read_or_refused(pick: random.Random) -> None:
    plain = msgspec.msgpack.decode(write_plan(launching()))
    for _ in range(pick.randint(1, 3)):
        plain = mutated(plain, pick)
    with contextlib.suppress(PlanError):
        plan = read_plan(msgspec.msgpack.encode(plain))
        assert read_plan(write_plan(plan)) == plan


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(PlanError):
        read_plan(data)


HINTED = """
#here = loc("{file}":3:5)
module {{
  tt.func public @k(%x: !tt.ptr<f32>) {{
    %n = tt.get_program_id x {{tt.divisibility = dense<16> : tensor<1xi32>}} : i32 loc(#named)
    %p = tt.addptr %x, %n : !tt.ptr<f32>, i32 loc(#here)
    %v = tt.load %p : !tt.ptr<f32> loc(#here)
    tt.store %p, %v : !tt.ptr<f32> loc(#here)
    tt.return loc(#here)
  }} loc(#here)
}} loc(#here)
#named = loc("n"(#here))
"""


def test_plans_do_not_choose_the_source_files_that_are_read(tmp_path: Path) -> None:
    """Name a pipe as the source of a kernel with a hint; reading it would take forever."""
    warm_up()
    os.mkfifo(tmp_path / "k.py")
    launch = LaunchSpec(
        kernel="k",
        grid=(1, 1, 1),
        arguments=(ArgumentSpec(name="x", type="*fp32", value=view(0)),),
    )
    ttir = HINTED.format(file=tmp_path / "k.py")
    plan = replace(PLAN, kernels=(ttir,), steps=(*PLAN.steps, LaunchStep(0, launch)))
    limits = Limits(seconds=20.0, memory=2 << 30, own_folder=True, errors="dropped")
    worker = fork_worker(Replayer(timeout=2.0).serve, limits, CODEC)
    try:
        worker.ask({"do": "load"})
        assert "forged" not in worker.ask({"do": "plan", "data": write_plan(plan)})
        response = worker.ask({"do": "call", "arguments": {"x": image_of(torch.arange(4.0))}})
    finally:
        worker.end()
    assert "results" in response, response


def test_changed_plans_do_no_harm_when_executed() -> None:
    """Execute changed plans: each request is answered, and the process continues to work."""
    warm_up()
    limits = Limits(seconds=20.0, memory=2 << 30, own_folder=True, errors="dropped")
    worker = fork_worker(Replayer(timeout=2.0).serve, limits, CODEC)
    x = image_of(torch.arange(4.0))
    pick, executed = random.Random(7), 0
    try:
        for _ in range(150):
            data = msgspec.msgpack.encode(mutated(msgspec.msgpack.decode(write_plan(PLAN)), pick))
            if "forged" not in worker.ask({"do": "plan", "data": data}):
                executed += 1
                response = worker.ask({"do": "call", "arguments": {"x": x}})
                assert "results" in response or response["unsupported"] or response["error"], (
                    response
                )
        worker.ask({"do": "plan", "data": write_plan(PLAN)})
        last = worker.ask({"do": "call", "arguments": {"x": x}})
    except WorkerEndedError as error:
        pytest.fail(error.message)
    finally:
        worker.end()
    assert executed > 20
    assert elements(last["results"][0]["image"]).tolist() == [0.0, 2.0, 4.0, 6.0]


TTIR = """
%a = arith.constant dense<[1.5, -2.0e+00, 0x7F800000]> : tensor<3xf32> loc(#loc1)
%b = arith.constant 1.250000e+00 : f32
%c = arith.constant dense<1077936128> : tensor<16xi32>
%d = arith.constant dense<"0x0000803F00000041"> : tensor<2xf32>
%e = arith.constant 007.5 : i32
%f = arith.constant 64 : i32
"""


def test_numbers_outside_of_memory_are_found() -> None:
    value = ArgumentSpec(name="bits", type="i32", value=0x40A00000)
    plan = launching(arguments=(value, ArgumentSpec(name="n", type="i32", value=7)))
    plan = replace(plan, kernels=(TTIR,))
    assert sorted(numbers_of(plan)) == [-2.0, 1.0, 1.25, 1.5, 3.0, 5.0, 8.0]


def test_results_that_are_constants_are_found() -> None:
    values = torch.linspace(0.0, 1.0, 40) ** 2
    tables = ConstantValues()
    tables.load([values.flip(0)])
    assert tables.contain(values * -3.0 + 1.0)
    assert not tables.contain(values.sqrt() + values)
    assert ConstantValues(values.tolist()).contain(values)
    assert not ConstantValues(values.tolist()).contain(values[1:] * 1.02)


@pytest.mark.parametrize("varied", ["operand", "offset", "type", "storage"])
def test_numbers_of_a_plan_are_those_that_no_loop_explains(varied: str) -> None:
    def filled(choices: list[int]) -> int:
        steps = []
        for n, choice in enumerate(choices):
            offset = 4 * (choice if varied == "offset" else n)
            target = view(choice % 2 if varied == "storage" else 0, 1, offset=offset)
            value: Any = choice if varied == "operand" else 1
            if varied == "type":
                value = Symbol("dtype", ("int8", "int16")[choice % 2])
            steps.append(OperatorStep("aten::fill_.Scalar", (target, value), {}, (target,)))
        storages = (InputStorage("x", 4000), InputStorage("y", 4000))
        return count_numbers(Plan(storages, (), tuple(steps), {}))

    regular = filled([0] * 200)
    assert regular < 20
    assert filled([7 * n * n % 13 % 3 for n in range(200)]) >= regular + 150
