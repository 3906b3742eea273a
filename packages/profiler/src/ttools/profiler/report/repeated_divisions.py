"""Finds divisions that are repeated with the same scalar divisor, in TTIR."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from ttools.core.location import SourceLocation
from ttools.ir import Module, Operation, Value
from ttools.ir.dialects import declared
from ttools.ir.dialects.traits import VIEW
from ttools.ir.nesting import definition_depth, loop_depth
from ttools.ir.parser import parse_module


@dataclass(frozen=True)
class RepeatedDivision:
    """Divisions of tiles by one scalar in one line.

    Attributes:
        location: The source line of the division.
        divisor: Name of the divisor if it is a parameter of the kernel, and otherwise empty.
        copies: Number of divisions by this divisor in the code of the kernel.
        in_loop: True if a loop repeats the division with the same divisor.
    """

    location: SourceLocation
    divisor: str
    copies: int
    in_loop: bool


@lru_cache(maxsize=64)
def repeated_divisions(ttir: str) -> tuple[RepeatedDivision, ...]:
    """Return the divisions that a loop, or an unrolled loop, repeats with the same divisor."""
    module = parse_module(ttir)
    divisions = [op for op in module.walk() if declared(op.name).unit == "divide"]
    by_divisor = [(op, divisor) for op in divisions if (divisor := _scalar_divisor(op)) is not None]
    copies = Counter(id(divisor) for _, divisor in by_divisor)
    by_location: dict[SourceLocation, RepeatedDivision] = {}
    for op, divisor in by_divisor:
        if op.location is not None:
            in_loop = loop_depth(op.parent) > definition_depth(divisor)
            name = _parameter(module, divisor)
            own = RepeatedDivision(op.location, name, copies[id(divisor)], in_loop)
            by_location.setdefault(op.location, own)
    return tuple(by_location.values())


def _scalar_divisor(op: Operation) -> Value | None:
    """Return the non-constant scalar by which an operation divides a tile; None without one."""
    divisor = op.operands[1]
    if not op.results[0].is_tensor:
        return None
    while divisor.is_tensor:
        view = divisor.defining_op
        if view is None or not view.has(VIEW) or len(view.operands) != 1:
            return None
        divisor = view.operands[0]
    defining = divisor.defining_op
    return None if defining is not None and defining.constant is not None else divisor


def _parameter(module: Module, value: Value) -> str:
    """Return the name of a parameter of the kernel; empty for any other value."""
    arguments = module.kernel.regions[0].entry.arguments
    return next((argument.name for argument in arguments if argument is value), "")
