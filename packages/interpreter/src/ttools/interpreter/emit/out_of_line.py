"""Moves cold code into functions of its own.

LLVM spends as long on a path that is never taken as on any other, and what it keeps at hand for one
is missing elsewhere. A function that is called there instead is compiled once for all places that
need the same. It is optimised like all else: code that is not (`optnone`) compiles a tenth faster,
but LLVM 22 aborts on some of its shuffles of short lanes. Owns how such a function gets the values
that it uses: as parameters. Must not know what is cold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.llvm.lines import BlockStart, Instruction, Line, Return, flattened
from ttools.interpreter.llvm.value import NOTHING, SSAValue

#: Nothing of it is inlined where it is called.
_SELDOM = 'cold noinline nounwind "prefer-vector-width"="512"'


def out_of_line(e: Emitter, body: Callable[[], SSAValue]) -> SSAValue:
    """Emits code in a function of its own and calls it; in place where that cannot be.

    Args:
        e: stands in the cold block.
        body: emits the code; what it computes must not be used elsewhere. Returns a value, or
            `NOTHING`.

    Returns:
        The same.
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
    """Whether code has to stay where it is: it ends the function that it is in."""
    return any(isinstance(line, Return) for line in flattened(lines))


def _function(e: Emitter, lines: Sequence[Line], parameters: Sequence[SSAValue], type: str) -> str:
    """The symbol of the function that does what lines do.

    It is the one that there is, where names are all that differs.
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
    """The values that code uses and does not make.

    They are in the order of their first use, so that the same code has the same parameters.
    """
    instructions = [line for line in flattened(lines) if isinstance(line, Instruction)]
    own = {instruction.result for instruction in instructions}
    used = (part for each in instructions for part in each.parts if type(part) is SSAValue)
    return list(dict.fromkeys(v for v in used if not v.is_literal and v not in own))
