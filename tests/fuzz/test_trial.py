"""Tests of trials: kernels of fixed seeds pass in every variant, and differences are reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ttools.fuzz import oracle
from ttools.fuzz.comparison import compare
from ttools.fuzz.elements import ELEMENTS, Element
from ttools.fuzz.execution import Runner, to_numpy, to_torch
from ttools.fuzz.generate.context import Features
from ttools.fuzz.generate.kernel import generate
from ttools.fuzz.memory import PATTERNS, contents
from ttools.fuzz.program import Buffer
from ttools.fuzz.text import torch_lines
from ttools.fuzz.three_way import COMPILATION, examine_three_ways
from ttools.fuzz.trial import examine
from ttools.fuzz.variants import BASELINE, usable


@pytest.mark.smoke
@pytest.mark.parametrize("seed", [11, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 27))])
def test_kernels_pass_in_every_variant(seed: int, tmp_path: Path) -> None:
    variants = [BASELINE, *usable()]
    verdict = examine(generate(seed), variants, tmp_path)
    assert verdict.failures == ()
    assert verdict.variants == tuple(variant.name for variant in variants)


def test_a_changed_element_is_reported(tmp_path: Path) -> None:
    program = generate(0)
    before = {buffer.name: contents(buffer) for buffer in program.buffers}
    expected = oracle.run(program)
    actual = Runner(program, tmp_path).run(BASELINE, before)
    buffers = {buffer.name: buffer for buffer in program.buffers}
    assert compare(buffers, before, expected, actual) == []
    changed = actual[program.buffers[0].name]
    changed.view(f"uint{8 * changed.itemsize}")[0] ^= 1
    assert len(compare(buffers, before, expected, actual)) == 1


@pytest.mark.parametrize("data", PATTERNS)
@pytest.mark.parametrize("element", ELEMENTS, ids=lambda e: e.name)
def test_scripts_create_the_same_memory_as_the_oracle(data: str, element: Element) -> None:
    if data == "fraction" and (not element.is_float or element.bits == 8):
        return
    buffer = Buffer("x", element, 50, "in", data, 13, 3)
    scope: dict[str, object] = {}
    exec("import torch\n" + "\n".join(torch_lines(buffer)), scope)
    assert to_numpy(scope["x"], buffer).tobytes() == contents(buffer).tobytes()
    assert to_numpy(to_torch(contents(buffer)), buffer).tobytes() == contents(buffer).tobytes()


# ---- comparisons of engine, oracle and GPU, in which the CPU replaces the GPU


def _three_ways(
    folder: Path, spoil_gpu: bool, spoil_oracle: bool, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    program = generate(0, Features(gpu=True))
    runner = Runner(program, folder)
    right = oracle.run

    def spoiled(memory):
        out = next(buffer.name for buffer in program.buffers if buffer.role == "out")
        changed = {name: array.copy() for name, array in memory.items()}
        changed[out].view(np.uint8)[:] ^= 3
        return changed

    if spoil_oracle:
        monkeypatch.setattr(oracle, "run", lambda p: spoiled(right(p)))

    def gpu(memory):
        memory_after = runner.run_on("cpu", memory)
        return spoiled(memory_after) if spoil_gpu else memory_after

    verdict = examine_three_ways(program, folder, "cpu", reference=gpu)
    assert verdict.variants == ("engine", "gpu")
    return [failure.kind for failure in verdict.failures]


@pytest.mark.parametrize(
    ("spoil_gpu", "spoil_oracle", "expected"),
    [
        (False, False, []),
        (True, False, ["gpu only"]),
        (False, True, ["oracle only"]),
        (True, True, ["engine only"]),
    ],
)
def test_the_one_that_differs_from_the_other_two_is_named(
    spoil_gpu: bool,
    spoil_oracle: bool,
    expected: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _three_ways(tmp_path, spoil_gpu, spoil_oracle, monkeypatch) == expected


def test_kernels_that_a_gpu_rejects_are_not_reported_as_different(tmp_path: Path) -> None:
    def refuse(memory):
        raise RuntimeError("out of resources")

    program = generate(0, Features(gpu=True))
    verdict = examine_three_ways(program, tmp_path, "cpu", reference=refuse)
    assert [failure.kind for failure in verdict.failures] == ["rejected"]


def test_a_kernel_is_compiled_for_the_gpu_before_it_runs_there(tmp_path: Path) -> None:
    stages: list[str] = []
    program = generate(0, Features(gpu=True))
    verdict = examine_three_ways(program, tmp_path, "cpu", announce=stages.append)
    assert (verdict.variants, verdict.failures) == (("engine", "gpu"), ())
    assert stages == ["engine", COMPILATION, "gpu"]
