"""The static cost of a configuration, from facts about its compiled code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core import triton_versions
from ttools.core.gpus.targets import read_target
from ttools.tuner.cost.gpu_resources import compiled_facts
from ttools.tuner.cost.static_cost import StaticFacts, expected_costs
from ttools.tuner.measure.gpu_launch import gpu_launch
from ttools.tuner.measure.measuring import Measuring
from ttools.tuner.workers.target_driver import compile_for_target

FACTS = StaticFacts(registers=64, spilled=0, shared=0, threads=128, blocks=8, programs=4096)


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, 2 * x, mask=offs < n)


def test_spills_idle_processors_and_few_warps_cost() -> None:
    worse = {
        "spills": replace(FACTS, spilled=512),
        "last turn": replace(FACTS, programs=133),
        "few warps": replace(FACTS, blocks=1, threads=32),
    }
    for name, own in worse.items():
        base = replace(FACTS, programs=132) if name == "last turn" else FACTS
        costs = expected_costs({"good": base, "bad": own}, 132)
        assert costs["bad"] > costs["good"], name


@settings(max_examples=20)
@given(
    st.lists(
        st.builds(
            StaticFacts,
            registers=st.integers(0, 255),
            spilled=st.integers(0, 4000),
            shared=st.integers(0, 232_448),
            threads=st.sampled_from([32, 64, 128, 256, 512, 1024]),
            blocks=st.integers(0, 32),
            programs=st.integers(0, 1 << 30),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_costs_are_relative_to_each_other(facts: list[StaticFacts]) -> None:
    costs = expected_costs({str(n): fact for n, fact in enumerate(facts)}, 132)
    assert sum(costs.values()) == pytest.approx(0, abs=1e-6)
    again = expected_costs({str(n): fact for n, fact in reversed(list(enumerate(facts)))}, 132)
    assert again == pytest.approx(costs)


def test_configurations_that_do_not_compile_have_the_highest_cost() -> None:
    bad = replace(FACTS, spilled=512)
    costs = expected_costs({"good": FACTS, "bad": bad}, 132)
    assert expected_costs({"good": FACTS, "none": None, "bad": bad}, 132) == {
        **costs,
        "none": costs["bad"],
    }


def test_there_are_no_costs_without_facts_or_on_the_cpu() -> None:
    assert expected_costs({}, 132) == expected_costs({"none": None}, 132) == {}
    assert Measuring().hint(lambda: {"a": FACTS})() == {}


def test_registers_and_spills_are_read_without_a_gpu() -> None:
    before = triton_versions.active_driver()
    compile_for_target(read_target("sm_90").gpu_target())
    try:
        x = torch.zeros(64)
        own: Any = {}
        for block, warps in ((256, 4), (16384, 1)):
            kernel = scale_kernel.run(
                x, x, 64, BLOCK=block, grid=(3,), warmup=True, num_warps=warps
            )
            own[block] = compiled_facts(kernel, 3)
    finally:
        triton_versions.driver_config().set_active(before)
    small, large = own[256], own[16384]
    assert (small.threads, small.programs, small.spilled) == (128, 3, 0)
    assert 8 <= small.registers < large.registers
    assert large.spilled > 0
    assert small.blocks == 16  # a multiprocessor has room for 64 warps
    assert 1 <= large.blocks <= 32


def test_the_grid_determines_the_number_of_programs() -> None:
    tuner = triton.autotune([triton.Config({"BLOCK": b}) for b in (64, 128)], key=["n"])(
        scale_kernel
    )
    x = torch.zeros(1000)

    def programs(grid: Any) -> list[int | None]:
        launch = gpu_launch(tuner, (x, x, 1000), {"grid": grid, "warmup": False})
        return [launch.programs(config) for config in launch.configs]

    assert programs(lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]), 2)) == [32, 16]
    assert programs((5, 2, 3)) == [30, 30]
    assert programs(lambda meta: (meta["x_ptr"].no_such_thing,)) == [None, None]
