"""A failing program as a self-contained script: kernel, memory, launch and expected values."""

from __future__ import annotations

import math

import numpy as np

from ttools.fuzz import oracle
from ttools.fuzz.comparison import Mismatch
from ttools.fuzz.elements import Array
from ttools.fuzz.program import Program
from ttools.fuzz.text import definitions, launch_arguments, torch_lines
from ttools.fuzz.variants import Variant, launch_options


def script(
    program: Program, variant: Variant, *, cpu: str = "", mismatch: Mismatch | None = None
) -> str:
    """Return a script that reproduces a failure.

    Args:
        program: The program that fails.
        variant: Variant in which it fails.
        cpu: Target CPU if the variant does not set one.
        mismatch: The elements to print if memory was wrong.
    """
    lines = [f"# python -m tools.fuzz --seed {program.seed}"]
    settings = _settings(variant, cpu)
    if settings:
        lines += ["import os", f"os.environ.update({', '.join(settings)})"]
    lines += ["import torch, triton", "import triton.language as tl"]
    opening = _opening(variant)
    if not variant.simplified:
        lines.append("from ttools.fuzz.passes import fewest_passes")
    if opening:
        lines.append(opening[0])
    lines += ["", "", definitions(program).rstrip(), "", *_memory(program)]
    lines += _launch(program, variant, opening[1] if opening else "")
    if mismatch is not None:
        lines.append(_shown(program, mismatch))
    return "\n".join(lines) + "\n"


def _settings(variant: Variant, cpu: str) -> list[str]:
    settings = []
    if variant.opt != 2:
        settings.append(f'TTOOLS_OPT="{variant.opt}"')
    if variant.cpu or cpu:
        settings.append(f'TTOOLS_CPU="{variant.cpu or cpu}"')
    return settings


def _opening(variant: Variant) -> tuple[str, str] | None:
    """Return an import line and the context in which the script launches; None if not needed."""
    if variant.checks:
        name = "from ttools.sanitizer import sanitize"
        return name, f'sanitize(checks="{variant.checks}")'
    options = []
    if variant.schedule != "fused":
        options.append(f'schedule="{variant.schedule}"')
    if variant.engine != "native":
        options.append(f'engine="{variant.engine}"')
    if variant.threads != 1:
        options.append(f"threads={variant.threads}")
    if variant.order != "natural":
        options.append(f'order="{variant.order}"')
    if not options and variant.simplified:
        return None
    return "from ttools.interpreter import interpret", f"interpret({', '.join(options)})"


def _memory(program: Program) -> list[str]:
    lines: list[str] = []
    for buffer in program.buffers:
        index, made = torch_lines(buffer)
        if index not in lines[-2:]:
            lines.append(index)
        lines.append(made)
    return lines


def _launch(program: Program, variant: Variant, context: str) -> list[str]:
    arguments = launch_arguments(program)
    arguments += "".join(f", {name}={value}" for name, value in launch_options(variant).items())
    grid = program.grid if len(program.grid) > 1 else f"({program.grid[0]},)"
    call = f"kernel[{grid}]({arguments})"
    if not context:
        return [call]
    if not variant.simplified:
        context = f"fewest_passes(), {context}"
    if variant.checks:
        return [f"with {context} as run:", f"    {call}", "print(run.to('text'))"]
    return [f"with {context}:", f"    {call}"]


def _shown(program: Program, mismatch: Mismatch) -> str:
    buffer = program.buffer(mismatch.buffer)
    expected = oracle.run(program)[buffer.name]
    cells = [index + buffer.margin for index in mismatch.indices]
    wanted = ", ".join(_literal(expected[cell]) for cell in cells)
    listed = ", ".join(map(str, cells))
    got = f"[{buffer.name}[j].item() for j in ({listed},)]"
    return f'print("{buffer.name}[{listed}] expected", [{wanted}], "got", {got})'


def _literal(value: Array) -> str:
    plain = value.item() if isinstance(value, np.generic) else value
    number = float(plain) if not isinstance(plain, (bool, int)) else plain
    if isinstance(number, float) and not math.isfinite(number):
        return f'float("{number}")'
    return repr(number)
