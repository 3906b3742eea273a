"""Tests that the engine fuses the same products and sums as Triton's PTX for a GPU.

Random expressions are compiled for a GPU, which works without one, and the test evaluates the PTX.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import kernel_text
import numpy as np
import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ttools.fuzz.operations.elementwise import minus_subtracts
from ttools.interpreter import interpret

COUNT = 128
EXPRESSIONS = 32
#: Depths of expressions. Triton 3.6's LLVM fuses the other of two products in some deeper ones.
DEPTHS = [2] if minus_subtracts() else [2, 3]

_LOAD = re.compile(r"(?:@\S+ )?ld\.global\S* \{\s*(\S+) \}")
_STORE = re.compile(r"(?:@\S+ )?st\.global\S* \[.*\], \{\s*(\S+) \}")
_FLOAT = re.compile(r"(fma|mul|add|sub|neg)(?:\.rn)?\.f32\s+(\S+), (.*);")
_MINUS = re.compile(r"xor\.b32\s+(\S+), (\S+), -2147483648;")
_MOVE = re.compile(r"mov\.b32\s+(\S+), (\S+);")


def fused(a: Any, b: Any, c: Any) -> Any:
    """Return `a * b + c` rounded once; ties of the sum in f64 do not occur with these numbers."""
    return (a.astype(np.float64) * b + c).astype(np.float32)


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "fma": fused,
    "mul": np.multiply,
    "add": np.add,
    "sub": np.subtract,
    "neg": np.negative,
}


def evaluate(ptx: str, loads: list[Any]) -> list[Any]:
    """Evaluate straight-line PTX: return the stored values, given the loaded ones, in order."""
    registers: dict[str, Any] = {}
    inputs, stored = iter(loads), []

    def value(operand: str) -> Any:
        if operand.startswith("0f"):
            return np.uint32(int(operand[2:], 16)).view(np.float32)
        return registers[operand]

    for text in ptx.splitlines():
        line = text.split("//")[0].strip()
        if match := _LOAD.match(line):
            registers[match[1]] = next(inputs)
        elif match := _STORE.match(line):
            stored.append(registers[match[1]])
        elif match := _FLOAT.match(line):
            operands = [value(operand.strip()) for operand in match[3].split(",")]
            registers[match[2]] = ARITHMETIC[match[1]](*operands)
        elif match := _MINUS.match(line):
            registers[match[1]] = -registers[match[2]]
        elif match := _MOVE.match(line):
            if match[2] in registers or match[2].startswith("0f"):
                registers[match[1]] = value(match[2])
        else:
            assert ".f32" not in line, line
    return stored


def expression(source: random.Random, depth: int, leaves: Iterator[str]) -> str:
    """Generate products, sums, differences and negatives of values, each of which occurs once."""
    kind = source.choices("v*+-n", [3, 8, 4, 4, 3])[0] if depth else "v"
    if kind == "v":
        return next(leaves)
    left = expression(source, depth - 1, leaves)
    if kind == "n":
        return f"(-{left})"
    right = expression(source, depth - 1, leaves)
    return f"({left} {kind} {right})"


def kernel_of(source: random.Random, depth: int) -> tuple[Any, list[str], int]:
    """Return a kernel that stores random expressions, their texts, and the loaded row count."""
    text = "@triton.jit\ndef kernel(a, o):\n"
    text += f"    i = tl.arange(0, {COUNT})\n"
    leaves = (f"v{number}" for number in itertools.count())
    expressions, rows = [], 0
    for row in range(EXPRESSIONS):
        text_of_row = expression(source, depth, leaves)
        names = re.findall(r"v\d+", text_of_row)
        for name in source.sample(names, len(names)):
            text += f"    {name} = tl.load(a + {rows * COUNT} + i)\n"
            rows += 1
        text += f"    tl.store(o + {row * COUNT} + i, {text_of_row})\n"
        expressions.append(text_of_row)
    return kernel_text.kernel(text), expressions, rows


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 4))]
)
@pytest.mark.parametrize("depth", DEPTHS)
def test_products_are_fused_as_on_a_gpu(seed: int, depth: int) -> None:
    source = random.Random(seed)
    kernel, expressions, rows = kernel_of(source, depth)
    values = np.random.default_rng(seed).uniform(0.9, 1.1, (rows, COUNT)).astype(np.float32)
    signature = {"a": "*fp32", "o": "*fp32"}
    compiled = triton.compile(
        ASTSource(fn=kernel, signature=signature),
        target=GPUTarget("cuda", 90, 32),
        options={"enable_fp_fusion": True},
    )
    expected = evaluate(compiled.asm["ptx"], list(values))
    result = torch.empty(EXPRESSIONS, COUNT)
    with interpret():
        kernel[(1,)](torch.from_numpy(values), result)
    for text, reference, actual in zip(expressions, expected, result.numpy(), strict=True):
        np.testing.assert_array_equal(actual, reference, err_msg=text)
