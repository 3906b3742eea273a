"""Puts code that seldom runs into functions of their own.

LLVM spends as long on a path that is never taken as on any other, and what it keeps at hand for one
is missing elsewhere. A function that is called there instead is compiled once for all places that
need the same. It is optimised like all else: code that is not (`optnone`) compiles a tenth faster,
but LLVM 22 aborts on some of its shuffles of short lanes. Owns how such a function gets the values
that it uses: as parameters, whose types are read off the instructions that make them. Must not know
what is seldom.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.llvm.builder import register_type
from ttools.interpreter.llvm.value_types import value_type

_NAME = re.compile(r"%[\w.]+")
_DEFINED = re.compile(r"^  (%[\w.]+) = ", re.MULTILINE)
_LABEL = re.compile(r"^([\w.]+):", re.MULTILINE)
#: Nothing of it is inlined where it is called.
_SELDOM = 'cold noinline nounwind "prefer-vector-width"="512"'


def out_of_line(e: Emitter, body: Callable[[], str], result: str) -> str:
    """Emits code in a function of its own and calls it; in place where that cannot be.

    Args:
        e: stands in the block that seldom runs.
        body: emits the code; what it computes must not be used elsewhere. Returns a value.
        result: the value's LLVM type; "" for none.

    Returns:
        The value, or "".
    """
    b = e.b
    first = b.label("seldom")
    with b.function_body(given=True) as lines:
        b.start(first)
        with e.cold():
            value = body()
        last = b.block
    text = "\n".join(lines)
    parameters = _parameters(e, f"{text}\n{value}")
    if parameters is None:
        b.branch(first)
        b.lines.extend(lines)
        b.block = last
        return value
    symbol = _function(e, text, parameters, value, result or "void")
    call = f"call {result or 'void'} @{symbol}({_listed(parameters)})"
    if result:
        return b.emit(call)
    b.do(call)
    return ""


def _function(
    e: Emitter, text: str, parameters: Sequence[tuple[str, str]], value: str, type: str
) -> str:
    """The symbol of the function that does what a text does.

    It is the one that there is, where names are all that differs.
    """
    b = e.b
    names = {name: f"%p{n}" for n, (name, _) in enumerate(parameters)}
    for name in (*_LABEL.findall(text), *(name[1:] for name in _DEFINED.findall(text))):
        names[f"%{name}"] = f"%v{len(names)}"
    body = _NAME.sub(lambda found: names[found[0]], text)
    body = _LABEL.sub(lambda found: f"{names[f'%{found[1]}'][1:]}:", body)
    taken = _listed([(names[name], type) for name, type in parameters])
    end = f"  ret {type} {names.get(value, value)}" if value else "  ret void"
    key = f"{type} ({taken}) {{\n{body}\n{end}\n}}"
    symbol = b.seldom.get(key)
    if symbol is None:
        symbol = b.seldom[key] = b.label("ttools.seldom.")
        head = f"define internal {type} @{symbol}({taken}) {_SELDOM}"
        b.define(symbol, f"{head} {{\n{body}\n{end}\n}}")
    return symbol


def _listed(values: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{type} {name}" for name, type in values)


def _parameters(e: Emitter, text: str) -> Sequence[tuple[str, str]] | None:
    """Name and type of each value that code uses and does not make; None if a type is unknown."""
    if "\n  ret " in text:
        return None  # it ends the function that it is in
    own = {*_DEFINED.findall(text), *(f"%{label}" for label in _LABEL.findall(text))}
    names = {name for name in _NAME.findall(text) if name not in own}
    found = []
    # By where they are first used, so that the same text has the same parameters.
    for name in (name for name in dict.fromkeys(_NAME.findall(text)) if name in names):
        type = _type_of(e, name)
        if type is None:
            return None
        found.append((name, type))
    return found


def _type_of(e: Emitter, name: str) -> str | None:
    known = e.b.types.get(name) or value_type(e.b.made.get(name, ""))
    if known is not None:
        return known
    # Names of parameters are those of other functions, too.
    if any(slot.base == name for slot in e.slots.values()):
        return "ptr"
    held = (value for value, ssa in e.scalars.items() if ssa == name)
    return next((register_type(value.type) for value in held), None)
