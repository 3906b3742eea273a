"""Runs kernels with only the overflow checks of offsets, and without their loads."""

from __future__ import annotations

from typing import Any

import instrumented
import torch
from instrumented import Held

from ttools.ir import Module
from ttools.ir.rewriting import Rewriter, set_operand
from ttools.sanitizer.passes import overflow

B = 8


def scalars(kernel: Any, arguments: dict[str, Any]) -> dict[int, int]:
    names = [name for name in kernel.arg_names if name != "B"]
    return {n: arguments[name] for n, name in enumerate(names) if isinstance(arguments[name], int)}


def candidates(kernel: Any, grid: tuple[int, ...], arguments: dict[str, Any]) -> set[Any]:
    module = instrumented.parsed(kernel, arguments, {"B": B})
    return set(overflow.find(module, scalars(kernel, arguments), grid))


def _disarm(module: Module) -> None:
    """Mask off all lanes of loads, because their addresses may be invalid."""
    rewriter = Rewriter()
    for op in list(module.kernel.walk()):
        if op.name == "tt.load" and len(op.operands) > 1:
            mask = rewriter.before(op).constant(op.operands[1].type, 0)
            set_operand(op, 1, mask)
    rewriter.apply()


def run(
    kernel: Any, grid: tuple[int, ...], arguments: dict[str, Any], **options: Any
) -> list[Held]:
    def rewrite(module: Module) -> None:
        overflows = overflow.find(module, scalars(kernel, arguments), grid)
        assert overflow.apply(module, overflows) == []
        _disarm(module)

    return instrumented.run(kernel, grid, arguments, {"B": B}, rewrite, **options)


def bytes_of(*values: int) -> dict[str, Any]:
    index = torch.tensor(values, dtype=torch.uint8)
    return {"x_ptr": torch.zeros(512), "o_ptr": torch.zeros(64), "i_ptr": index, "n": B}
