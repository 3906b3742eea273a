"""Which products are fused with which sums: as in the PTX that Triton makes for a GPU.

Random expressions are compiled for a GPU, which needs none, and their PTX is evaluated here.
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
#: The LLVM of Triton 3.6 chooses another one of two products in some deeper expressions.
DEPTHS = [2] if minus_subtracts() else [2, 3]

_LOAD = re.compile(r"(?:@\S+ )?ld\.global\S* \{\s*(\S+) \}")
_STORE = re.compile(r"(?:@\S+ )?st\.global\S* \[.*\], \{\s*(\S+) \}")
_FLOAT = re.compile(r"(fma|mul|add|sub|neg)(?:\.rn)?\.f32\s+(\S+), (.*);")
_MINUS = re.compile(r"xor\.b32\s+(\S+), (\S+), -2147483648;")
_MOVE = re.compile(r"mov\.b32\s+(\S+), (\S+);")


def fused(a: Any, b: Any, c: Any) -> Any:
    """`a * b + c` rounded once but for ties of the sum in f64, which these numbers have none of."""
    return (a.astype(np.float64) * b + c).astype(np.float32)


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "fma": fused,
    "mul": np.multiply,
    "add": np.add,
    "sub": np.subtract,
    "neg": np.negative,
}


def evaluate(ptx: str, loads: list[Any]) -> list[Any]:
    """What a straight line of PTX stores, given what it loads, in their order."""
    registers: dict[str, Any] = {}
    given, stored = iter(loads), []

    def value(operand: str) -> Any:
        if operand.startswith("0f"):
            return np.uint32(int(operand[2:], 16)).view(np.float32)
        return registers[operand]

    for text in ptx.splitlines():
        line = text.split("//")[0].strip()
        if found := _LOAD.match(line):
            registers[found[1]] = next(given)
        elif found := _STORE.match(line):
            stored.append(registers[found[1]])
        elif found := _FLOAT.match(line):
            operands = [value(operand.strip()) for operand in found[3].split(",")]
            registers[found[2]] = ARITHMETIC[found[1]](*operands)
        elif found := _MINUS.match(line):
            registers[found[1]] = -registers[found[2]]
        elif found := _MOVE.match(line):
            if found[2] in registers or found[2].startswith("0f"):
                registers[found[1]] = value(found[2])
        else:
            assert ".f32" not in line, line
    return stored


def expression(source: random.Random, depth: int, leaves: Iterator[str]) -> str:
    """Products, sums, differences and negatives of values, none of them twice."""
    kind = source.choices("v*+-n", [3, 8, 4, 4, 3])[0] if depth else "v"
    if kind == "v":
        return next(leaves)
    left = expression(source, depth - 1, leaves)
    if kind == "n":
        return f"(-{left})"
    right = expression(source, depth - 1, leaves)
    return f"({left} {kind} {right})"


def kernel_of(source: random.Random, depth: int) -> tuple[Any, list[str], int]:
    """A kernel that stores random expressions, the expressions, and how many rows it loads."""
    text = "@triton.jit\ndef kernel(a, o):\n"
    text += f"    i = tl.arange(0, {COUNT})\n"
    leaves = (f"v{number}" for number in itertools.count())
    expressions, rows = [], 0
    for place in range(EXPRESSIONS):
        each = expression(source, depth, leaves)
        names = re.findall(r"v\d+", each)
        for name in source.sample(names, len(names)):
            text += f"    {name} = tl.load(a + {rows * COUNT} + i)\n"
            rows += 1
        text += f"    tl.store(o + {place * COUNT} + i, {each})\n"
        expressions.append(each)
    return kernel_text.kernel(text), expressions, rows


@pytest.mark.parametrize("seed", range(4))
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
    for text, want, got in zip(expressions, expected, result.numpy(), strict=True):
        np.testing.assert_array_equal(got, want, err_msg=text)
