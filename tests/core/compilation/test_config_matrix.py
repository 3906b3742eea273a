"""The matrix of configurations by GPU: verdicts, occupancy, and its reports."""

from __future__ import annotations

import json

import triton
import triton.language as tl

from ttools.core.compilation.config_matrix import (
    Cell,
    ConfigMatrix,
    ConfigRow,
    Configured,
    KernelMatrix,
    examine,
    make_matrix,
    matrix_text,
)
from ttools.core.compilation.config_matrix_html import matrix_page
from ttools.core.compilation.kernel_source import KernelSource, source_of_signature
from ttools.core.compilation.resources import Occupancy
from ttools.core.gpus.devices import gpu_names, read_gpu
from ttools.core.gpus.launch_rules import GpuNeeds
from ttools.core.gpus.targets import read_target
from ttools.tuner.cost.every_config import configs_of_kernel


@triton.autotune([triton.Config({"BLOCK": 64}, num_warps=w) for w in (1, 4, 64)], key=["n"])
@triton.jit
def reversed_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, tl.flip(x, 0), mask=offsets < n)


@triton.jit
def product(a, c, SIZE: tl.constexpr, DEPTH: tl.constexpr):
    m, k = tl.arange(0, SIZE), tl.arange(0, DEPTH)
    x = tl.load(a + m[:, None] * DEPTH + k[None, :])
    tl.store(c + m[:, None] * SIZE + m[None, :], tl.dot(x, tl.trans(x)))


def source_of(signature: str, **options: int) -> KernelSource:
    return source_of_signature(product, signature, options)


def occupied(warps: int) -> Occupancy:
    return Occupancy(
        blocks=warps // 4, warps=warps, most_warps=64, limited_by="registers", allowed={}
    )


def fitting(target: str, warps: int, spilled: int = 0) -> Cell:
    needs = GpuNeeds(threads=128, shared=1024, registers=64)
    return Cell(
        target=target,
        verdict="fits",
        needs=needs,
        spilled=spilled,
        local=spilled + 32,
        occupancy=occupied(warps),
    )


def refused(target: str) -> Cell:
    return Cell(
        target=target,
        verdict="does_not_fit",
        rule="shared_memory",
        reason="needs 131,072 bytes of shared memory, but only 101,376 are available",
        needs=GpuNeeds(shared=131_072),
    )


def matrix_of(*rows: list[Cell], **more: str) -> ConfigMatrix:
    names = gpu_names(map(read_gpu, ("rtx3090", "h100")))
    shown = {target.name: name for target, name in names.items()}
    return ConfigMatrix(
        targets={cell.target: shown.get(cell.target, cell.target) for cell in rows[0]},
        triton="3.9.0",
        kernels=[
            KernelMatrix(
                kernel="matmul",
                launched="bench.py:40",
                parameters={"a": "*fp16"},
                rows=[
                    ConfigRow(
                        number=number,
                        values={"BLOCK": 32 << number, **more, "num_stages": 3},
                        cells=cells,
                    )
                    for number, cells in enumerate(rows, 1)
                ],
            )
        ],
    )


MATRIX = matrix_of(
    [fitting("sm_86", 16), fitting("sm_90", 32)],
    [fitting("sm_86", 8, spilled=64), fitting("sm_90", 32)],
    [refused("sm_86"), fitting("sm_90", 8)],
)
TEXT = """\
matmul, launched from bench.py:40: 3 configurations
  all with num_stages=3
                 rtx3090 (sm_86)     h100 (sm_90)
   1  BLOCK=64               25%              50%
   2  BLOCK=128             12%*              50%
   3  BLOCK=256           shared              12%
  rtx3090 (sm_86): 2 of 3 fit; occupancy 12% (config 2, 50% less) to 25% (config
    1)
  h100 (sm_90): 3 of 3 fit; occupancy 12% (config 3, 75% less) to 50% (config 1)

A figure is the occupancy; a word is the limit that is exceeded.
* spills registers

config 3 on rtx3090 (sm_86): needs 131,072 bytes of shared memory, but only
  101,376 are available
"""


def test_the_text_names_the_limit() -> None:
    assert matrix_text(MATRIX) == TEXT
    assert MATRIX.unusable() == []
    assert [row.number for _, row, _ in MATRIX.refused()] == [3]


def test_data_and_page_have_the_losses_and_the_limits() -> None:
    data = json.loads(json.dumps(MATRIX.as_dict()))
    assert data["schema"] == "ttools.config-matrix/1"
    (kernel,) = data["kernels"]
    third = kernel["configs"][2]["gpus"]
    assert third["sm_90"]["lost"] == 0.75
    assert (third["sm_90"]["spilled"], third["sm_90"]["local"]) == (0, 32)
    assert third["sm_86"]["verdict"] == "does_not_fit"
    assert (third["sm_86"]["shared"], third["sm_86"]["occupancy"]) == (131_072, None)
    assert data["gpus"][0]["launch"]["shared"] == 101_376
    assert (data["gpus"][0]["gpu"], data["gpus"][0]["name"]) == ("sm_86", "rtx3090 (sm_86)")
    assert "Programming Guide" in data["gpus"][0]["source"]
    page = matrix_page(MATRIX)
    assert "5 of 6 combinations of a configuration and a GPU can be launched" in page
    assert "<th>rtx3090 (sm_86)</th><th>h100 (sm_90)</th>" in page
    assert "<td>h100 (sm_90)</td>" in page
    assert 'style="--heat: 15%"' in page
    assert "64 registers per thread; spills 64 bytes per thread" in page
    assert "101,376" in page


def test_long_texts_are_cut_to_a_screen() -> None:
    rows = [
        [refused(name) for name in ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")]
        for _ in range(40)
    ]
    matrix = matrix_of(*rows)
    lines = matrix_text(matrix).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert "… 35 more reasons; --format json or html shows all" in lines
    assert len(matrix.unusable()) == 6
    # The names of these GPUs are too wide for one line.
    assert lines[2].split() == ["rtx3090", "h100"]
    assert lines[3].split() == ["sm_75", "sm_80", "(sm_86)", "sm_89", "(sm_90)", "sm_120"]


def test_configurations_are_compared_with_limits() -> None:
    fits = examine(source_of("*fp16:16,*fp32:16,32,64", num_warps=4), read_target("sm_86"))
    assert (fits.verdict, fits.rule, fits.reason) == ("fits", "", "")
    assert fits.needs.threads == 128
    assert fits.needs.registers
    assert (fits.spilled, fits.local) == (0, 0)
    assert fits.share
    large = examine(source_of("*fp16:16,*fp32:16,64,2048", num_warps=4), read_target("sm_86"))
    assert (large.verdict, large.rule) == ("does_not_fit", "shared_memory")
    assert "bytes of shared memory, but only 101,376 are available" in large.reason
    clustered = examine(
        source_of("*fp16:16,*fp32:16,32,64", num_ctas=2, num_warps=4), read_target("sm_86")
    )
    assert (clustered.verdict, clustered.rule) == ("does_not_fit", "cluster")
    wrong = examine(source_of("*fp16:16,*fp32:16,48,64", num_warps=4), read_target("sm_86"))
    assert wrong.verdict == "does_not_compile"
    assert "power of 2" in wrong.reason


def test_a_kernel_of_a_file_in_all_configurations() -> None:
    kernel = reversed_kernel.fn
    source = source_of_signature(kernel, "*fp32:16,i32,1", {})
    configs = configs_of_kernel(reversed_kernel, source)
    assert [config.values["num_warps"] for config in configs] == [1, 4, 64]
    assert all(config.source and config.source.constants[2,] == 64 for config in configs)
    matrix = make_matrix([configs], {read_target("sm_80"): "a100 (sm_80)"})
    verdicts = [cell.verdict for _, _, cell in matrix.cells()]
    assert verdicts == ["fits", "fits", "does_not_fit"]
    (_, row, cell) = matrix.refused()[0]
    assert (row.number, cell.rule) == (3, "threads")
    assert cell.reason == "needs 2,048 threads per block, but only 1,024 are available"


def test_the_front_end_s_rejection_is_a_reason() -> None:
    config = Configured(kernel="k", values={"BLOCK": 3}, source=None, error="ValueError: no")
    matrix = make_matrix([[config]], {read_target("sm_80"): "sm_80"})
    ((_, _, cell),) = matrix.refused()
    assert (cell.verdict, cell.reason) == ("does_not_compile", "ValueError: no")
