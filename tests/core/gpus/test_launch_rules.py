"""Tests of the launch rules: values at the limit are accepted, and larger ones are rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ttools.core.gpus.launch_rules import (
    ANY_CUDA,
    CUDA_GRID,
    RULES,
    GpuNeeds,
    broken_rules,
    limits_of,
)
from ttools.core.gpus.targets import ARCHITECTURES, read_target

FEW = GpuNeeds(grid=(1, 1, 1), threads=128, cluster=1, shared=0, registers=32, tensor_memory=0)


def broken(gpu: str, **needs: Any) -> dict[str, str]:
    violations = broken_rules(replace(FEW, **needs), limits_of(read_target(gpu)))
    return {violation.rule: violation.message for violation in violations}


@pytest.mark.parametrize(
    ("gpu", "needs", "rule", "message"),
    [
        ("sm_90", {"grid": (2**31 - 1,)}, None, ""),
        ("sm_90", {"grid": (1, 65_535)}, None, ""),
        ("sm_90", {"grid": (1, 65_536)}, "grid", "65,536 programs, but at most 65,535"),
        ("sm_90", {"grid": (1, 1, 65_536)}, "grid", "axis 2 of the grid has 65,536 programs"),
        ("sm_90", {"grid": (2**30 - 1,), "cluster": 2}, None, ""),
        ("sm_90", {"grid": (2**30,), "cluster": 2}, "grid", "axis 0 of the grid has 1,073,741,824"),
        ("sm_90", {"grid": (2**15, 2**16 - 1)}, None, ""),
        ("sm_90", {"grid": (2**15 + 1, 2**16 - 1)}, "programs", "2,147,516,415 programs in total"),
        ("sm_90", {"grid": (0, 70_000)}, None, ""),
        ("sm_90", {"threads": 1024}, None, ""),
        ("sm_90", {"threads": 1056}, "threads", "1,056 threads per block, but only 1,024"),
        ("sm_90", {"cluster": 16}, None, ""),
        ("sm_90", {"cluster": 32}, "cluster", "32 blocks, but they have at most 16"),
        ("sm_120", {"cluster": 16}, "cluster", "at most 8"),
        ("sm_80", {"cluster": 2}, "cluster", "2 blocks, but they have at most 1"),
        ("sm_90", {"shared": 232_448}, None, ""),
        (
            "sm_90",
            {"shared": 232_449},
            "shared_memory",
            "needs 232,449 bytes of shared memory, but only 232",
        ),
        ("sm_86", {"shared": 131_072}, "shared_memory", "101,376 are available"),
        ("sm_90", {"registers": 255}, None, ""),
        ("sm_90", {"registers": 256}, "registers", "256 registers per thread, but only 255"),
        ("sm_90", {"registers": 64, "threads": 1024}, None, ""),
        (
            "sm_90",
            {"registers": 65, "threads": 1024},
            "registers",
            "needs 73,728 registers per bl",
        ),
        # With nine warps, one of the four parts of the multiprocessor gets three warps.
        ("sm_90", {"registers": 168, "threads": 288}, None, ""),
        ("sm_90", {"registers": 176, "threads": 288}, "registers", "needs 67,584 registers"),
        ("sm_100", {"tensor_memory": 512}, None, ""),
        ("sm_100", {"tensor_memory": 1024}, "tensor_memory", "1,024 columns of tensor memory, but"),
        ("gfx942", {"grid": (1, 70_000, 1)}, None, ""),
        ("gfx942", {"cluster": 2}, None, ""),
        ("gfx942", {"shared": 65_537}, "shared_memory", "65,536 are available"),
        ("gfx1100", {"shared": 1 << 30, "registers": 9999}, None, ""),
    ],
)
def test_values_at_the_limit_are_accepted_and_larger_ones_are_not(
    gpu: str, needs: dict[str, Any], rule: str | None, message: str
) -> None:
    messages = broken(gpu, **needs)
    assert list(messages) == ([] if rule is None else [rule])
    assert message in "".join(messages.values())


def test_hip_counts_the_threads_of_an_axis_in_32_bits() -> None:
    target = read_target("gfx942")
    assert limits_of(target, warps=4).grid == (2**32 // 256 - 1, 2**31 - 1, 2**31 - 1)


def test_limits_of_an_unknown_gpu_are_the_largest_of_all() -> None:
    for name in ARCHITECTURES:
        target = read_target(name)
        if target.backend == "cuda":
            limits = limits_of(target)
            assert limits.grid == ANY_CUDA.grid == CUDA_GRID
            assert (limits.shared or 0) <= (ANY_CUDA.shared or 0)
            assert (limits.cluster or 0) <= (ANY_CUDA.cluster or 0)


def test_every_rule_has_a_description() -> None:
    assert all(rule.limit and rule.says and rule.help for rule in RULES.values())
