"""Moves code that rarely runs into separate functions.

LLVM spends as much time on a path that is rarely taken as on any other, and the values of such a
path occupy registers that the hot path needs. If the code is in a function, equal code at several
places is compiled only once. The function is optimised like all other code: `optnone` would save a
tenth of the compilation time, but LLVM 22 then aborts on some shuffles of short lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.llvm.lines import BlockStart, Instruction, Line, Return, flattened
from ttools.interpreter.llvm.value import NOTHING, SSAValue

#: Attributes of cold functions.
_SELDOM = 'cold noinline nounwind "prefer-vector-width"="512"'


def out_of_line(e: Emitter, body: Callable[[], SSAValue]) -> SSAValue:
    """Emit code as a separate function and a call of it, or in place if that is impossible.

    Args:
        e: The emitter, in the cold block.
        body: Emits the code and returns its result, or `NOTHING`. Other values of the code must not
            be used elsewhere.

    Returns:
        The value of `body`.
    """
    b = e.b
    first = b.label("cold")
    with b.function_body(given=True) as lines:
        b.start(first)
        with e.cold():
            value = body()
        last = b.block
    if _stays(lines):
        b.branch(first)
        b.lines.extend(lines)
        b.block = last
        return value
    lines.append(Return(None, ("ret void",) if value is NOTHING else (f"ret {value.type} ", value)))
    parameters = _free_values(lines)
    symbol = _function(e, lines, parameters, value.type)
    return b.call(value.type, f"@{symbol}", *parameters)


def _stays(lines: Sequence[Line]) -> bool:
    """Return whether code must stay in place because it returns from the kernel's function."""
    return any(isinstance(line, Return) for line in flattened(lines))


def _function(e: Emitter, lines: Sequence[Line], parameters: Sequence[SSAValue], type: str) -> str:
    """Return the symbol of a function with these lines.

    Code that differs only in the names of values and blocks shares one function.
    """
    b = e.b
    names: dict[str, str] = {name: f"%p{n}" for n, name in enumerate(parameters)}
    flat = list(flattened(lines))
    for line in flat:
        if isinstance(line, BlockStart):
            names[line.label] = f"v{len(names)}"
    for line in flat:
        if isinstance(line, Instruction) and line.result is not None:
            names[line.result] = f"%v{len(names)}"
    taken = ", ".join(f"{parameter.type} {names[parameter]}" for parameter in parameters)
    body = "\n".join([line.renamed(names) for line in lines])
    key = f"{type} ({taken}) {{\n{body}\n}}"
    symbol = b.cold.get(key)
    if symbol is None:
        symbol = b.cold[key] = b.label("ttools.cold.")
        head = f"define internal {type} @{symbol}({taken}) {_SELDOM}"
        b.define_function(symbol, head, lines, names, inline=False)
    return symbol


def _free_values(lines: Sequence[Line]) -> list[SSAValue]:
    """Return the values that code uses but does not define, which become parameters.

    They are in the order of their first use, so that equal code has equal parameters.
    """
    instructions = [line for line in flattened(lines) if isinstance(line, Instruction)]
    own = {instruction.result for instruction in instructions}
    used = (part for line in instructions for part in line.parts if type(part) is SSAValue)
    return list(dict.fromkeys(v for v in used if not v.is_literal and v not in own))
