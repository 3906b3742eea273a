"""Divisions of integer tiles by numbers that a launch passes to a kernel.

GPUs have no instruction for integer division, so each division becomes some twenty instructions
(about a hundred for 64 bits). If the divisor is a constant, a multiplication and a shift are
sufficient. The cost is therefore measured as the difference between the numbers of instructions of
two compilations: the second one divides by a constant that is not a power of two, which is the
least favourable case.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache

from ttools.core.location import SourceLocation
from ttools.ir import Operation, Value
from ttools.ir.dataflow import reachable
from ttools.ir.dialects.traits import CONSTANT, DIVIDES, ELEMENTWISE, VIEW
from ttools.ir.parser import parse_module
from ttools.profiler.report.changed_kernels import with_changes

#: Text of a division or remainder of tiles: indentation, result, operation, dividend, divisor and
#: type.
_DIVISION = re.compile(
    r"^(?P<indent> *)(?P<head>%[\w#:]+ = arith\.(?:div|rem)[su]i %[\w#:]+, )(?P<divisor>%[\w#:]+)"
    r"(?P<tail> : (?P<type>tensor<[^>]*>))",
    re.MULTILINE,
)
#: The constant that replaces divisors. Division by it takes as many instructions as by any other
#: number: a product, an addition and shifts.
_CONSTANT = 7


@dataclass(frozen=True)
class IndexDivision:
    """Divisions of integer tiles on one line, by a number that depends on parameters only.

    Attributes:
        location: Position of the first division.
        parameters: Names of the parameters that determine the divisors.
        numbers: Indices of these divisions among all divisions in the text of the kernel.
    """

    location: SourceLocation
    parameters: tuple[str, ...]
    numbers: tuple[int, ...]


@lru_cache(maxsize=64)
def index_divisions(ttir: str) -> tuple[IndexDivision, ...]:
    """Return the divisions of integer tiles by parameters, one entry per line."""
    module = parse_module(ttir)
    parameters_of_kernel = set(module.kernel.regions[0].entry.arguments)
    divisions = [op for op in module.walk() if _is_division(op)]
    if len(divisions) != len(_DIVISION.findall(ttir)):
        return ()
    lines: dict[tuple[str, int], IndexDivision] = {}
    for number, op in enumerate(divisions):
        own = _names(op.operands[1], parameters_of_kernel)
        if own and (place := op.location) is not None:
            key = place.file, place.line
            line = lines.get(key, IndexDivision(place, (), ()))
            names = dict.fromkeys((*line.parameters, *own))
            lines[key] = replace(line, parameters=tuple(names), numbers=(*line.numbers, number))
    return tuple(lines.values())


def with_constant_divisors(ttir: str, numbers: Collection[int]) -> str:
    """Return TTIR in which some divisors are constant.

    Args:
        ttir: Text of a kernel.
        numbers: Numbers of the divisions, see `IndexDivision`.
    """

    def changed(number: int, match: re.Match[str]) -> str:
        name, type = f"%ttools_divisor_{number}", match["type"]
        constant = f"{name} = arith.constant dense<{_CONSTANT}> : {type}"
        indent, division = match["indent"], f"{match['head']}{name}{match['tail']}"
        return f"{indent}{constant}\n{indent}{division}"

    return with_changes(ttir, _DIVISION, numbers, changed)


def _is_division(op: Operation) -> bool:
    return op.has(DIVIDES) and op.results[0].is_tensor


def _names(divisor: Value, parameters: Collection[Value]) -> list[str]:
    """Return the names of the parameters that alone determine a value; empty if other values do."""

    def operands(value: Value) -> list[Value]:
        op = value.defining_op
        return [] if op is None else list(op.operands)

    names: list[str] = []
    for value in reachable([divisor], operands):
        op = value.defining_op
        if value in parameters:
            names.append(value.name)
        elif op is None or op.regions or not op.has(ELEMENTWISE, VIEW, CONSTANT):
            return []
    return names
