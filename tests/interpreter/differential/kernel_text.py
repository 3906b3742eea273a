"""Kernels from text, each in a separate file, because Triton reads the source from the file.

The same text always gives the same kernel object, so it is compiled once per schedule.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.util
import shutil
import tempfile
import textwrap
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from number_formats import Array, Format, empty, to_numpy, to_torch

PREAMBLE = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice

"""

_ELEMENTWISE = """\
@triton.jit
def kernel(out_ptr, {parameters}, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
{loads}
    tl.store(out_ptr + offsets, {expression}, mask=mask)
"""


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ttools-kernels-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


#: Prevents threads from writing the file of a module concurrently, which `functools.cache` allows.
_importing = threading.RLock()


def module(text: str) -> ModuleType:
    """Write `text`, after the usual imports, to a file and import it as a module."""
    with _importing:
        return _module(text)


@functools.cache
def _module(text: str) -> ModuleType:
    text = PREAMBLE + textwrap.dedent(text)
    name = "kernels_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    path = _folder() / f"{name}.py"
    path.write_text(text)
    return import_file(path)


def import_file(path: Path) -> ModuleType:
    """Import a Python file that nothing else imports by name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module_ = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module_)
    return module_


def kernel(text: str) -> Any:
    """Return the function `kernel` of a module with this text."""
    return module(text).kernel


def elementwise(expression: str, inputs: int) -> Any:
    """Return a kernel that stores an expression of the lanes `x`, `y` and `z`, with a mask."""
    return kernel(elementwise_text(expression, inputs))


def elementwise_text(expression: str, inputs: int) -> str:
    """Return the text of the kernel that `elementwise` returns."""
    names = "xyz"[:inputs]
    loads = [f"    {x} = tl.load({x}_ptr + offsets, mask=mask)" for x in names]
    return _ELEMENTWISE.format(
        parameters=", ".join(f"{x}_ptr" for x in names),
        loads="\n".join(loads),
        expression=expression,
    )


def offsets(shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> str:
    """Return Triton text of the offsets of a tile, in row-major order unless strides are given."""
    if strides is None:
        strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    terms = []
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        index = ", ".join(":" if i == axis else "None" for i in range(len(shape)))
        terms.append(f"tl.arange(0, {size})[{index}] * {stride}")
    return " + ".join(terms).replace("[:]", "") or "0"


def run_tiles(
    body: str,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, tuple[tuple[int, ...], Format]],
    definitions: str = "",
) -> list[Array]:
    """Run one program that loads whole arrays, executes `body`, and stores its results.

    Args:
        body: Statements that use the inputs' names and assign the outputs' names.
        inputs: Arrays whose sizes are powers of two.
        outputs: Shape and format of each result.
        definitions: Text of the functions that `body` calls.
    """
    results = [empty(shape, element) for shape, element in outputs.values()]
    text = textwrap.dedent(definitions) + "\n\n" + tiles_text(body, inputs, outputs)
    kernel(text)[(1,)](*map(to_torch, inputs.values()), *results)
    return [to_numpy(result) for result in results]


def tiles_text(
    body: str, inputs: Mapping[str, Array], outputs: Mapping[str, tuple[tuple[int, ...], Format]]
) -> str:
    """Return the text of the kernel that `run_tiles` launches."""
    parameters = ", ".join(f"{name}_ptr" for name in (*inputs, *outputs))
    lines = [f"{x} = tl.load({x}_ptr + {offsets(array.shape)})" for x, array in inputs.items()]
    lines += textwrap.dedent(body).strip().splitlines()
    lines += [f"tl.store({r}_ptr + {offsets(shape)}, {r})" for r, (shape, _) in outputs.items()]
    text = f"@triton.jit\ndef kernel({parameters}):\n"
    return text + textwrap.indent("\n".join(lines), "    ") + "\n"
