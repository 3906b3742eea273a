"""Tests that emitted code consists of typed values, and that no code parses its text."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter import emit, llvm, tiles
from ttools.interpreter.abi.module import EmitOptions, Facts, Instruments
from ttools.interpreter.emit import kernel
from ttools.interpreter.emit.kernel import emit_kernel
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.lines import Instruction, Line, body_text, flattened
from ttools.ir.parser import parse_module

_FILES = [
    path
    for package in (emit, llvm, tiles)
    for folder in package.__path__
    for path in Path(folder).rglob("*.py")
]


@pytest.mark.parametrize("path", _FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_emission_imports_no_regular_expressions(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module))
    assert not imported & {"re", "regex", "string"}


@triton.jit
def _busy(x_ptr, y_ptr, n, rounds, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    total = tl.zeros((SIZE,), tl.float32)
    for k in range(rounds):
        total += tl.exp(x) * k
    if tl.sum(total, axis=0) > 0:
        total = tl.cumsum(total, axis=0)
    tl.atomic_add(y_ptr + i % 32, total, mask=i < n)


@pytest.mark.parametrize(
    "instruments",
    [
        Instruments(),
        Instruments(lines=True),
        Instruments(guards=True, footprints=True),
        Instruments(footprints=True, synchronised=True),
    ],
    ids=["none", "lines", "checks", "log"],
)
def test_operands_of_instructions_have_types(
    instruments: Instruments, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = torch.ones(100), torch.zeros(32)
    module = parse_module(_busy[(2,)](x, y, 100, 3, 64).asm["ttir"])
    written: list[Line] = []
    define = Builder.define_function

    def log_function(
        self: Builder, name: str, head: str, lines: Sequence[Line], *arguments, **options
    ) -> str:
        written.extend(lines)
        return define(self, name, head, lines, *arguments, **options)

    def log_body(lines: Sequence[Line]) -> str:
        written.extend(lines)
        return body_text(lines)

    monkeypatch.setattr(Builder, "define_function", log_function)
    monkeypatch.setattr(kernel, "body_text", log_body)
    emit_kernel(module, Facts(), EmitOptions(lanes=16, instruments=instruments))
    instructions = [line for line in flattened(written) if isinstance(line, Instruction)]
    assert len(instructions) > 100
    # In the text between values, `%` can only begin a label, and so is the last character.
    texts = {part for line in instructions for part in line.parts if type(part) is str}
    assert not [text for text in texts if "%" in text.removesuffix("%")]
