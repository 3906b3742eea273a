"""Generates the kernel of a group of rows, as a file that Triton can read."""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
from pathlib import Path
from typing import Any

from tools.gpu_op_table.rows import Group

#: Number of lanes of a program. It equals the number of threads, so that a GPU executes each
#: operation once per thread.
BLOCK = 128

_PREAMBLE = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def combine_maximum(a, b):
    return tl.maximum(a, b)


@triton.jit
def combine_sum(a, b):
    return a + b


@triton.jit
def combine_product(a, b):
    return a * b


@triton.jit
def combine_affine(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


"""


def _offsets(shape: tuple[int, ...]) -> str:
    """Return the offsets of a tile in row-major order."""
    if not shape:
        return "lanes"
    terms = []
    for axis, size in enumerate(shape):
        stride = math.prod(shape[axis + 1 :])
        index = ", ".join(":" if i == axis else "None" for i in range(len(shape)))
        terms.append(f"(tl.arange(0, {size}) * {stride})[{index}]")
    return " + ".join(terms).replace("[:]", "")


def source(group: Group) -> str:
    """Return the source of a module with the function `kernel(x_ptr, ..., r0_ptr, ...)`."""
    names = "xyz"[: len(group.inputs)]
    outputs = [f"r{i}" for i in range(len(group.outputs))]
    parameters = ", ".join(f"{name}_ptr" for name in (*names, *outputs))
    lines = []
    if group.lanes:
        lines.append(f"lanes = tl.program_id(0) * {BLOCK} + tl.arange(0, {BLOCK})")
    for name, tensor in zip(names, group.inputs, strict=True):
        lines.append(f"{name} = tl.load({name}_ptr + {_offsets(tensor.shape)})")
    position = 0
    for row in group.rows:
        own = outputs[position : position + len(row.outputs)]
        position += len(row.outputs)
        lines += row.body.format(*own).splitlines()
        for name, output in zip(own, row.outputs, strict=True):
            if output.stored:
                lines.append(f"tl.store({name}_ptr + {_offsets(output.shape)}, {name})")
    body = "".join(f"    {line}\n" for line in lines)
    return f"{_PREAMBLE}@triton.jit\ndef kernel({parameters}):\n{body}"


def load(group: Group, folder: Path) -> Any:
    """Return the kernel, loaded from a file in `folder`, because Triton reads its source there."""
    text = source(group)
    name = "rows_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    path = folder / f"{name}.py"
    # The file is replaced atomically, because other processes load the same rows from the same
    # folder.
    written = folder / f"{name}.{os.getpid()}"
    written.write_text(text, encoding="utf-8")
    written.replace(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel
