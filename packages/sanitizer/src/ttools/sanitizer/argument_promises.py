"""What a kernel says of its arguments: what Triton compiled it for, and hints in its source.

Triton compiles anew for every launch that needs it, unless the compiled kernel itself is launched:
`kernel.warmup(...)[grid](...)`. Hints about parameters, `stride = tl.multiple_of(stride, 16)`, it
drops on the way to TTIR, so they are read from the source; only what every program does for certain
counts. Must not know what a broken promise means.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ttools.core.location import SourceLocation, source_lines
from ttools.interpreter.ir import Module
from ttools.sanitizer.passes.hint_places import functions_around, name_of
from ttools.sanitizer.passes.hints import specialised

_CALL = "multiple_of"
_HINTS = (_CALL, "max_contiguous", "max_constancy")
_STRAIGHT = (ast.Assign, ast.AnnAssign, ast.Expr, ast.AugAssign)


@dataclass(frozen=True)
class ArgumentPromise:
    """Something that divides an argument.

    Attributes:
        parameter: its index.
        divisor: of the number or, in bytes, of the address.
        location: of the kernel, or of the hint.
        by: who says so.
    """

    parameter: int
    divisor: int
    location: SourceLocation | None
    by: Literal["specialisation", "source"]


def argument_promises(
    module: Module, names: Sequence[str], known: Mapping[str, Any]
) -> tuple[ArgumentPromise, ...]:
    """Everything that a kernel says of its arguments.

    Args:
        module: the kernel.
        names: of its parameters.
        known: global names of its source, for divisors that are no literals.
    """
    place = module.kernel.location
    compiled = [
        ArgumentPromise(index, divisor, place, "specialisation")
        for index, divisor in specialised(module).items()
    ]
    written = [] if place is None else _from_source(place, names, known)
    return (*compiled, *written)


def _from_source(
    kernel: SourceLocation, names: Sequence[str], known: Mapping[str, Any]
) -> Iterator[ArgumentPromise]:
    source = "".join(source_lines(kernel.file))
    around = functions_around(source, kernel.line) if _CALL in source else []
    if not around:
        return
    unchanged = set(names)
    for statement in around[-1].body:
        if isinstance(statement, _STRAIGHT):
            for call in _hints_in(statement):
                subject, divisor = _subject(call), _divisor(call, known)
                if subject in unchanged and divisor is not None and divisor > 1:
                    place = replace(kernel, line=call.lineno, column=call.col_offset + 1)
                    yield ArgumentPromise(names.index(subject), divisor, place, "source")
        unchanged -= _changed(statement)


def _hints_in(node: ast.AST) -> Iterator[ast.Call]:
    """The hints that are made whatever the conditions in a statement say."""
    if isinstance(node, ast.Call) and name_of(node.func) == _CALL and node.args:
        yield node
    for part in _always(node):
        yield from _hints_in(part)


def _always(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression that are evaluated whenever it is."""
    if isinstance(node, ast.IfExp):
        yield node.test
    elif isinstance(node, ast.BoolOp):
        yield node.values[0]
    elif not isinstance(node, ast.Lambda):
        yield from ast.iter_child_nodes(node)


def _subject(call: ast.expr) -> str:
    """The variable that a hint, or a hint about a hint, is about; `""` if it is none."""
    while isinstance(call, ast.Call) and name_of(call.func) in _HINTS and call.args:
        call = call.args[0]
    return call.id if isinstance(call, ast.Name) else ""


def _divisor(call: ast.Call, known: Mapping[str, Any]) -> int | None:
    given = call.args[1] if len(call.args) > 1 else None
    for keyword in call.keywords:
        given = keyword.value if keyword.arg == "values" else given
    if isinstance(given, ast.List | ast.Tuple) and len(given.elts) == 1:
        given = given.elts[0]
    if isinstance(given, ast.Constant):
        value = given.value
    elif isinstance(given, ast.Name):
        value = known.get(given.id)
        value = getattr(value, "value", value)  # tl.constexpr
    else:
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _changed(statement: ast.stmt) -> set[str]:
    """The names that a statement gives other values."""
    stored = {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        stored.discard(_subject(statement.value))
    return stored
