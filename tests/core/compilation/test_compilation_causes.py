"""Labelled launches: for each compilation, the cause that a person who knows Triton would name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs
from triton.tools.tensor_descriptor import TensorDescriptor

from ttools.core.compilation.compilation_causes import causes
from ttools.core.compilation.compilation_log import CompilationLog, observe_compilations
from ttools.interpreter import interpret

X, Y = torch.zeros(4096), torch.zeros(4096)
SQUARE = torch.zeros(64, 64)
CUT = [32, 16]
BIG = 1 << 40


def fill(x_ptr, n, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(x_ptr + lanes, n + lanes, mask=lanes < 8)


def fill_two(x_ptr, n, m, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(x_ptr + lanes, n + m + lanes, mask=lanes < 8)


def copy(x_ptr, y_ptr, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(y_ptr + lanes, tl.load(x_ptr + lanes).to(y_ptr.dtype.element_ty))


def scaled(x_ptr, scale, bias_ptr, B: tl.constexpr):
    lanes = tl.arange(0, B)
    value = tl.load(x_ptr + lanes)
    if scale is not None:
        value *= scale
    if bias_ptr is not None:
        value += tl.load(bias_ptr + lanes)
    tl.store(x_ptr + lanes, value)


def typed(x_ptr, KIND: tl.constexpr, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(x_ptr + lanes, tl.full((B,), 1, KIND).to(tl.float32))


def flagged(x_ptr, value, FLAG: tl.constexpr, MODE: tl.constexpr, B: tl.constexpr):
    lanes = tl.arange(0, B)
    if FLAG and MODE == "add":
        tl.store(x_ptr + lanes, value + lanes)
    else:
        tl.store(x_ptr + lanes, lanes)


def shaped(x_ptr, shape, B: tl.constexpr):
    lanes = tl.arange(0, B)
    total = shape[0]
    for index in tl.static_range(1, len(shape)):
        total += shape[index]
    tl.store(x_ptr + lanes, total + lanes, mask=lanes < 8)


def described(source, target, value):
    target.store([0, 0], source.load([0, 0]) + value)


@triton.jit
def double(value):
    return value + value


@triton.jit
def negate(value):
    return -value


def activated(x_ptr, ACTIVATION: tl.constexpr, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(x_ptr + lanes, ACTIVATION(tl.load(x_ptr + lanes)))


def captured(factor: int) -> Any:
    FACTOR = tl.constexpr(factor)

    @triton.jit
    def kernel(x_ptr, B: tl.constexpr):
        lanes = tl.arange(0, B)
        tl.store(x_ptr + lanes, lanes * FACTOR)

    return kernel


def descriptor(block: list[int], tensor: torch.Tensor = SQUARE) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(tensor, block)


Kernel = Callable[..., Any]
Cause = list[tuple[str, str]]
CASES: dict[str, tuple[Callable[[], object], list[Cause]]] = {}


def case(*expected: Cause) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Register launches, with the causes of the compilations after the first one."""

    def register(launch: Callable[[], object]) -> Callable[[], object]:
        CASES[launch.__name__] = (launch, list(expected))
        return launch

    return register


@case([("integer value", "n")], [("integer value", "n")])
def an_argument_at_1_at_a_number_and_at_multiples_of_16() -> None:
    kernel = triton.jit(fill)
    for n in (2, 3, 1, 16, 32, 1, 7):
        kernel[(1,)](X, n, B=16)


@case([("integer value", "n")])
def zero_is_a_multiple_of_16() -> None:
    kernel = triton.jit(fill)
    for n in (5, 0, 160):
        kernel[(1,)](X, n, B=16)


@case([("integer width", "n")], [("integer value", "n")])
def an_argument_that_needs_64_bits() -> None:
    kernel = triton.jit(fill)
    for n in (16, BIG, BIG + 1):
        kernel[(1,)](X, n, B=16)


@case([("integer width", "n")])
def an_unspecialised_argument_that_needs_64_bits() -> None:
    kernel = triton.jit(do_not_specialize=["n"])(fill)
    for n in (1, 2, 16, BIG, BIG + 1):
        kernel[(1,)](X, n, B=16)


@case([("integer value", "n"), ("integer value", "m")], [("integer value", "m")])
def two_arguments_that_change_together() -> None:
    kernel = triton.jit(fill_two)
    for n, m in ((2, 2), (1, 1), (2, 1)):
        kernel[(1,)](X, n, m, B=16)


@case([("integer value", "m")], [("integer value", "n")])
def two_arguments_that_change_in_turn() -> None:
    kernel = triton.jit(fill_two)
    for n, m in ((2, 2), (2, 1), (16, 1)):
        kernel[(1,)](X, n, m, B=16)


@case([("alignment", "x_ptr")], [("alignment", "y_ptr")])
def slices_that_begin_at_odd_elements() -> None:
    kernel = triton.jit(copy)
    kernel[(1,)](X, Y, B=16)
    kernel[(1,)](X[1:], Y, B=16)
    kernel[(1,)](X[4:], Y, B=16)
    kernel[(1,)](X, Y[3:], B=16)


@case([("dtype", "x_ptr")], [("dtype", "x_ptr")], [("dtype", "y_ptr")])
def tensors_of_other_types() -> None:
    kernel = triton.jit(copy)
    kernel[(1,)](X, Y, B=16)
    kernel[(1,)](X.half(), Y, B=16)
    kernel[(1,)](X.bfloat16(), Y, B=16)
    kernel[(1,)](X, Y.double(), B=16)


@case([("None", "scale")], [("None", "bias_ptr")])
def optional_arguments() -> None:
    kernel = triton.jit(scaled)
    kernel[(1,)](X, 0.5, Y, B=16)
    kernel[(1,)](X, None, Y, B=16)
    kernel[(1,)](X, 0.25, None, B=16)


@case([("type", "scale")])
def an_integer_in_place_of_a_float() -> None:
    kernel = triton.jit(scaled)
    kernel[(1,)](X, 0.5, Y, B=16)
    kernel[(1,)](X, 2, Y, B=16)


@case([("constexpr", "B")], [("constexpr", "B")])
def block_sizes() -> None:
    kernel = triton.jit(fill)
    for block in (16, 32, 64, 16):
        kernel[(1,)](X, 5, B=block)


@case([("constexpr", "KIND")])
def a_type_as_a_constant() -> None:
    kernel = triton.jit(typed)
    kernel[(1,)](X, tl.float16, B=16)
    kernel[(1,)](X, tl.int32, B=16)


@case([("constexpr", "FLAG")], [("constexpr", "MODE")])
def flags_and_modes() -> None:
    kernel = triton.jit(flagged)
    kernel[(1,)](X, 3, FLAG=True, MODE="add", B=16)
    kernel[(1,)](X, 3, FLAG=False, MODE="add", B=16)
    kernel[(1,)](X, 3, FLAG=True, MODE="set", B=16)


@case([("constexpr", "ACTIVATION")])
def a_function_as_a_constant() -> None:
    kernel = triton.jit(activated)
    kernel[(1,)](X, double, B=16)
    kernel[(1,)](X, negate, B=16)


@case([("integer value", "shape[1]")], [("integer value", "shape[0]")], [("type", "shape")])
def elements_of_a_tuple() -> None:
    kernel = triton.jit(shaped)
    for shape in ((2, 3), (2, 16), (1, 16), (1, 16, 5)):
        kernel[(1,)](X, shape, B=16)


@case([("descriptor", "source"), ("descriptor", "target")])
def blocks_of_descriptors() -> None:
    kernel = triton.jit(described)
    kernel[(1,)](descriptor([16, 16]), descriptor([16, 16]), 0.5)
    kernel[(1,)](descriptor(CUT), descriptor(CUT), 0.5)


@case([("descriptor", "source")])
def types_of_descriptors() -> None:
    kernel = triton.jit(described)
    kernel[(1,)](descriptor([16, 16]), descriptor([16, 16]), 0.5)
    kernel[(1,)](descriptor([16, 16], SQUARE.half()), descriptor([16, 16]), 0.5)


@case([("option", "num_warps")], [("option", "num_stages")], [("option", "maxnreg")])
def options_of_launches() -> None:
    kernel = triton.jit(fill)
    kernel[(1,)](X, 5, B=16)
    kernel[(1,)](X, 5, B=16, num_warps=8)
    kernel[(1,)](X, 5, B=16, num_warps=8, num_stages=1)
    kernel[(1,)](X, 5, B=16, num_warps=8, maxnreg=64)


@case([("keywords", "num_warps")], [("keywords", "num_stages")])
def an_option_that_is_written_only_sometimes() -> None:
    kernel = triton.jit(fill)
    kernel[(1,)](X, 5, B=16)
    kernel[(1,)](X, 5, B=16, num_warps=4)
    kernel[(1,)](X, 5, B=16, num_stages=3)


@case([("environment", "debug")])
def debug_mode() -> None:
    kernel = triton.jit(fill)
    kernel[(1,)](X, 5, B=16)
    with knobs.runtime.scope():
        knobs.runtime.debug = True
        kernel[(1,)](X, 5, B=16)


@case([("redefinition", "")], [("redefinition", "")])
def a_kernel_that_is_decorated_for_each_call() -> None:
    for _ in range(3):
        triton.jit(fill)[(1,)](X, 5, B=16)


@case([("redefinition", "the captured variable `FACTOR`")])
def a_kernel_that_captures_a_value() -> None:
    captured(2)[(1,)](X, B=16)
    captured(3)[(1,)](X, B=16)


@case([("cleared", "")])
def a_cache_that_is_cleared() -> None:
    kernel = triton.jit(fill)
    kernel[(1,)](X, 5, B=16)
    kernel.device_caches.clear()
    kernel[(1,)](X, 5, B=16)


@case([("constexpr", "B"), ("option", "num_warps")])
def configurations_of_an_autotuner() -> None:
    configs = [triton.Config({"B": 16}), triton.Config({"B": 32}, num_warps=8)]
    kernel = triton.autotune(configs, key=["n"])(triton.jit(fill))
    kernel[(1,)](X, 5)


@case([("constexpr", "B")])
def a_constant_from_heuristics() -> None:
    rounded = {"B": lambda args: max(16, triton.next_power_of_2(args["n"]))}
    kernel = triton.heuristics(rounded)(triton.jit(fill))
    for n in (5, 9, 30):
        kernel[(1,)](X, n)


@case([("alignment", "x_ptr"), ("constexpr", "B")], [("integer value", "n")])
def the_most_similar_earlier_variant_counts() -> None:
    kernel = triton.jit(fill)
    kernel[(1,)](X, 5, B=16)
    kernel[(1,)](X[1:], 5, B=32)
    kernel[(1,)](X[1:], 16, B=32)


def observed(launch: Callable[[], object]) -> CompilationLog:
    with observe_compilations() as log, interpret():
        launch()
    return log


@pytest.mark.parametrize("name", CASES)
def test_every_compilation_has_its_cause(name: str) -> None:
    launch, expected = CASES[name]
    (entries,) = observed(launch).by_kernel()
    explained = causes(entries)
    kinds = [[(d.kind, d.name) for d in cause.differences] for cause in explained]
    assert kinds == [[], *expected]
    assert str(explained[0]) == "first compilation"
    assert all(str(cause) for cause in explained[1:])


def test_the_labelled_set_is_large_enough() -> None:
    assert len(CASES) >= 20
    assert sum(len(expected) for _, expected in CASES.values()) >= 40


def test_a_file_that_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def kernel(x_ptr, B: tl.constexpr):\n    tl.store(x_ptr + tl.arange(0, B), 1.0)\n"
    )
    file = tmp_path / "changing_kernel.py"
    file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("changing_kernel")
    with observe_compilations() as log, interpret():
        module.kernel[(1,)](X, B=16)
        file.write_text(text.replace("1.0", "23.0"))
        importlib.reload(module).kernel[(1,)](X, B=16)
    (entries,) = log.by_kernel()
    (difference,) = causes(entries)[1].differences
    assert (difference.kind, difference.name) == ("redefinition", "its source text")


def test_sentences() -> None:
    launch, _ = CASES["an_argument_at_1_at_a_number_and_at_multiples_of_16"]
    (entries,) = observed(launch).by_kernel()
    assert [str(cause) for cause in causes(entries)] == [
        "first compilation",
        "`n` is 1 (previously neither 1 nor a multiple of 16)",
        "`n` is a multiple of 16 (previously neither 1 nor a multiple of 16)",
    ]
    (difference,) = causes(entries)[1].differences
    assert difference.remedy == '`@triton.jit(do_not_specialize=["n"])`'
    launch, _ = CASES["an_option_that_is_written_only_sometimes"]
    (entries,) = observed(launch).by_kernel()
    assert str(causes(entries)[1]) == (
        "the same variant: the launch writes `num_warps=4` and an earlier one no `num_warps=`"
    )
