"""Pruning for an absent GPU rejects only configurations that full compilation rejects."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.stages import CompilationError, compile_for
from ttools.core.gpus.targets import read_target
from ttools.tuner.cost.limits import over_allocated, over_limit

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "tuning"
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120", "gfx942")
HALF, WORD, FLOATS = "*fp16", "i32", "*fp32"
#: Signatures and configurations of kernels: some fit everywhere, some only on few targets.
KERNELS: dict[str, tuple[dict[str, str], list[dict[str, Any]]]] = {
    "block_scaled_kernel": (
        {
            "a_ptr": HALF,
            "b_ptr": HALF,
            "a_scale_ptr": FLOATS,
            "b_scale_ptr": FLOATS,
            "c_ptr": "*bf16",
            "M": WORD,
            "N": WORD,
            "K": WORD,
        },
        [
            {"BLOCK_M": 64, "BLOCK_N": 64, "GROUP": 8, "num_warps": 4, "num_stages": 2},
            {"BLOCK_M": 128, "BLOCK_N": 256, "GROUP": 8, "num_warps": 8, "num_stages": 2},
            {"BLOCK_M": 128, "BLOCK_N": 128, "GROUP": 8, "num_warps": 8, "num_stages": 3},
            {"BLOCK_M": 128, "BLOCK_N": 256, "GROUP": 8, "num_warps": 8, "num_stages": 4},
        ],
    ),
    "window_attention_kernel": (
        {
            "q_ptr": HALF,
            "k_ptr": HALF,
            "v_ptr": HALF,
            "out_ptr": HALF,
            "length": WORD,
            "window": WORD,
            "scale": "fp32",
        },
        [
            {"HEAD": 64, "BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4, "num_stages": 2},
            {"HEAD": 128, "BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8, "num_stages": 3},
            {"HEAD": 128, "BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8, "num_stages": 5},
        ],
    ),
    "quantize_kernel": (
        {"x_ptr": HALF, "out_ptr": "*i8", "scale_ptr": FLOATS, "rows": WORD, "columns": WORD},
        [
            {"BLOCK": 1024, "ROWS": 1, "num_warps": 4, "num_stages": 3},
            {"BLOCK": 4096, "ROWS": 4, "num_warps": 32, "num_stages": 3},
        ],
    ),
}
OPTIONS = ("num_warps", "num_stages")


def source_of(name: str, config: dict[str, Any]) -> KernelSource:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import tuning_kernels
    finally:
        sys.path.remove(str(BENCHMARKS))
    function, types = getattr(tuning_kernels, name), KERNELS[name][0]
    names = function.arg_names
    return KernelSource(
        name=name,
        function=function,
        signature={parameter: types.get(parameter, "constexpr") for parameter in names},
        constants={
            (n,): config[parameter] for n, parameter in enumerate(names) if parameter not in types
        },
        hints={
            (n,): [["tt.divisibility", 16]]
            for n, parameter in enumerate(names)
            if types.get(parameter, "fp32") != "fp32"
        },
        options={option: config[option] for option in OPTIONS},
    )


def reasons(source: KernelSource, target_name: str) -> tuple[str | None, str | None]:
    """Return why a target cannot run a kernel, by allocation and by full compilation."""
    target = read_target(target_name)
    early = over_allocated(source, target)
    return early, over_limit(Inspection(compile_for(source, target)))


def test_allocation_rejects_too_much_shared_memory() -> None:
    name = "block_scaled_kernel"
    for config in KERNELS[name][1][::3]:
        early, late = reasons(source_of(name, config), "sm_90")
        assert early == late
    assert early is not None
    assert "bytes of shared memory" in early


def test_allocation_fails_with_the_compiler_s_reason() -> None:
    config = {"BLOCK": 1000, "ROWS": 1, "num_warps": 4, "num_stages": 3}
    with pytest.raises(CompilationError, match="power of 2"):
        over_allocated(source_of("quantize_kernel", config), read_target("sm_90"))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_pruning_rejects_nothing_that_full_compilation_accepts(name: str, target: str) -> None:
    for config in KERNELS[name][1]:
        early, late = reasons(source_of(name, config), target)
        if late is None or "registers" not in late:
            assert early == late, config
        else:
            assert early is None, config  # only full compilation determines registers
