"""Kernels without a script: parameters that inputs and spaces have to provide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.errors import UsageError
from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.space.named_kernel import Inputs, autotuned, launch_all, load_inputs


@triton.heuristics({"TWICE": lambda args: args["n"] > 100})
@triton.jit
def add_kernel(x_ptr, out_ptr, n, by=1, BLOCK: tl.constexpr = 64, TWICE: tl.constexpr = False):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x + by * (2 if TWICE else 1), mask=offs < n)


@triton.jit
def plain_kernel(x_ptr, n, BLOCK: tl.constexpr, PART: tl.constexpr):
    pass


def configs(**values: Any) -> list[triton.Config]:
    return [triton.Config(values)]


def given(*names: str) -> list[Inputs]:
    return [Inputs(dict.fromkeys(names, 1), (1,))]


def test_each_input_is_tuned_and_heuristics_are_kept() -> None:
    inputs = []
    for n in (64, 200):
        x, out = torch.zeros(n), torch.zeros(n)
        arguments = {"x_ptr": x, "out_ptr": out, "n": n}
        inputs.append(Inputs(arguments, lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)))
    tuner = autotuned(add_kernel, [*configs(BLOCK=32), *configs(BLOCK=64)], inputs)
    with TuningRun(TuneOptions(workers=0)) as run:
        launch_all(tuner, inputs)
    assert [result.problem.key_values["n"] for result in run.results] == [64, 200]
    small, large = (tensor.arguments["out_ptr"] for tensor in inputs)
    assert (small.unique().tolist(), large.unique().tolist()) == ([1.0], [2.0])


def test_an_autotuner_of_the_kernel_is_replaced() -> None:
    around = triton.autotune(configs(BLOCK=1, PART=1), key=["n"])(plain_kernel)
    tuner = autotuned(around, configs(BLOCK=2, PART=3), given("x_ptr", "n"))
    assert tuner.fn is plain_kernel
    assert [config.kwargs["BLOCK"] for config in tuner.configs] == [2]
    assert tuner.keys == ["x_ptr", "n"]


@pytest.mark.parametrize(
    ("space", "names", "sentence"),
    [
        (
            {"BLOCK": 1},
            ("x_ptr", "n"),
            "`plain_kernel` needs values for PART, in the space or from inputs",
        ),
        ({"BLOCK": 1, "PART": 1}, ("n",), "`plain_kernel` needs values for x_ptr"),
        (
            {"BLOCC": 1},
            ("x_ptr", "n"),
            "`plain_kernel` has no parameter `BLOCC`; available: x_ptr, n, BLOCK",
        ),
        ({"BLOCK": 1, "PART": 1}, ("x_ptr", "n", "m"), "has no parameter `m`"),
        ({"BLOCK": 1, "PART": 1}, ("x_ptr", "n", "PART"), "`PART` is both in the space and among"),
    ],
)
def test_parameters_that_are_missing_or_unknown(
    space: dict[str, int], names: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        autotuned(plain_kernel, configs(**space), given(*names))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 3", r"has no function `inputs`"),
        ("inputs = 3", r"has no function `inputs`"),
        ("def inputs(): return 3", r"must return \(\{name: argument\}, grid\)"),
        ("def inputs(): return {}, 5", "must return"),
        ("def inputs(): return []", "returned no inputs"),
        ("def inputs(): yield 1 / 0", "fails: ZeroDivisionError"),
        ("import sys; sys.exit(4)", "cannot be loaded: SystemExit: 4"),
        ("import nothing_of_that_name", "cannot be loaded: ModuleNotFoundError"),
        ("def inputs(:", "cannot be loaded: SyntaxError"),
    ],
)
def test_invalid_files_of_inputs(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "inputs.py"
    path.write_text(text + "\n")
    with pytest.raises(UsageError, match=sentence):
        load_inputs(path)


def test_files_of_inputs(tmp_path: Path) -> None:
    path = tmp_path / "inputs.py"
    path.write_text("def inputs(): return {'n': 5}, [1, 2]\n")
    assert load_inputs(path) == [Inputs({"n": 5}, (1, 2))]
    path.write_text("def inputs():\n  for n in (1, 2):\n    yield {'n': n}, (n,)\n")
    assert load_inputs(path) == [Inputs({"n": 1}, (1,)), Inputs({"n": 2}, (2,))]
    with pytest.raises(UsageError, match="there is no file"):
        load_inputs(tmp_path / "none.py")
