"""Tests that candidates are valid kernels, and that reductions reach what a predicate requires."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable

import pytest

from ttools.core import shrinking
from ttools.core.compilation.reduction.candidates import (
    NUMBER_STEPS,
    STEPS,
    lines,
    undefined_names,
    weight,
    without_unused,
)
from ttools.core.compilation.standalone import Parameter, StandaloneKernel

_ALL_STEPS = (*STEPS, *NUMBER_STEPS)
_DEFINITIONS = '''\
import triton
import triton.language as tl
import math
SIZE = tl.constexpr(64)

@triton.jit
def scaled(x, factor, unused=3):
    """Return a product."""
    return x * factor

@triton.jit
def shifted(x, by):
    y = x + by
    y = y + 1
    return y

@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Do many things."""
    offsets = tl.arange(0, BLOCK) + SIZE
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    for step in range(2, n):
        if step > 3:
            x = scaled(x, 2.0)
        else:
            x = shifted(x, step)
    while n > 0:
        n -= 1
    tl.store(y_ptr + offsets, x, mask=mask)
'''


def _kernel() -> StandaloneKernel:
    return StandaloneKernel(
        name="kernel",
        definitions=_DEFINITIONS,
        parameters=(
            Parameter(name="x_ptr", kind="'*fp32'", hints=(((), "[['tt.divisibility', 16]]"),)),
            Parameter(name="y_ptr", kind="'*fp32'"),
            Parameter(name="n", kind="'i32'"),
            Parameter(name="BLOCK", kind="'constexpr'", constants=(((), "128"),)),
        ),
        options=(("num_warps", "8"), ("num_stages", "3")),
    )


def _reduced(fails: Callable[[StandaloneKernel], bool]) -> StandaloneKernel:
    def accepts(candidate: StandaloneKernel, best: StandaloneKernel) -> StandaloneKernel | None:
        tidy = without_unused(candidate)
        accepted = weight(tidy) < weight(best) and not undefined_names(tidy) and fails(tidy)
        return tidy if accepted else None

    return shrinking.shrink(_kernel(), _ALL_STEPS, accepts, math.inf)


def test_all_candidates_are_modules_with_matching_parameters() -> None:
    count = 0
    for step in _ALL_STEPS:
        for candidate in step(_kernel()):
            tidy = without_unused(candidate)
            tree = ast.parse(tidy.definitions)
            function = tree.body[-1]
            assert isinstance(function, ast.FunctionDef)
            names = [argument.arg for argument in function.args.args]
            assert names == [parameter.name for parameter in tidy.parameters]
            count += 1
    assert count > 100


def test_each_edit_is_undone_before_the_next_one() -> None:
    everything = {line.strip() for line in ast.unparse(ast.parse(_DEFINITIONS)).splitlines()}
    for step in STEPS[2:]:
        lost: list[set[str]] = []
        for candidate in step(_kernel()):
            text = ast.unparse(ast.parse(candidate.definitions))
            lost.append(everything - {line.strip() for line in text.splitlines()})
        # A change that was not undone would be missing from all later candidates.
        assert len(lost) < 2 or not set.intersection(*lost)


@pytest.mark.parametrize(
    ("text", "most_lines"),
    [
        ("tl.load(", 5),
        ("while ", 6),
        ("SIZE", 6),
        ("tl.arange(0, BLOCK)", 5),
        ("triton.jit", 4),
    ],
)
def test_everything_else_is_removed(text: str, most_lines: int) -> None:
    reduced = _reduced(lambda candidate: text in candidate.definitions)
    assert text in reduced.definitions
    assert lines(reduced) <= most_lines
    assert reduced.options == ()
    assert all(not parameter.hints for parameter in reduced.parameters)


def test_functions_are_inlined() -> None:
    reduced = _reduced(lambda candidate: "* 2.0" in candidate.definitions)
    assert "scaled" not in reduced.definitions
    several = _reduced(lambda candidate: candidate.definitions.count("+ 1") == 1)
    assert "def shifted" not in several.definitions


def test_constants_and_options_become_smaller() -> None:
    def fails(candidate: StandaloneKernel) -> bool:
        options = dict(candidate.options)
        sizes = [text for p in candidate.parameters for _, text in p.constants]
        return int(options.get("num_warps", "4")) > 5 and any(int(s) > 20 for s in sizes)

    reduced = _reduced(fails)
    assert reduced.options == (("num_warps", "8"),)
    (constant,) = [text for p in reduced.parameters for _, text in p.constants]
    assert constant == "32"


def test_a_long_line_counts_as_several() -> None:
    kernel = _kernel()
    line = f"x = {' + '.join(['x'] * 60)}"
    longer = StandaloneKernel(
        name="kernel", definitions=f"def kernel(x):\n    {line}\n", parameters=(), options=()
    )
    assert weight(longer)[0] == 4
    assert lines(longer) == 2
    assert weight(kernel)[0] == lines(kernel)
