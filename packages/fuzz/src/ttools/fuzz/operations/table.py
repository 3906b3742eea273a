"""The table of operations: how each is written in Triton and what NumPy makes of it.

An operation is one entry. The families are files of their own (`elementwise`, `movement`,
`combining`, `access`), each with the functions that make typed expressions of its operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ttools.fuzz.elements import I32, Array, Element
from ttools.fuzz.facts import Fact, within
from ttools.fuzz.operations.declared import evaluate_declared
from ttools.fuzz.program import Buffer, Expr, Helper, Type
from ttools.fuzz.rounding import convert


@dataclass
class Frame:
    """What a program of a launch knows while the oracle evaluates it.

    Attributes:
        variables: values by name.
        memory: elements by buffer, margins included.
        parameters: numbers by name.
        helpers: functions by name.
        owners: for each element of a buffer the number of the program that stored it, or -1.
        number: this program's.
        limits: Where the memory of buffers ends for the kernel: lanes beyond are skipped.
    """

    variables: dict[str, Array]
    memory: dict[str, Array]
    buffers: dict[str, Buffer]
    parameters: dict[str, int]
    program: tuple[int, int, int]
    helpers: dict[str, Helper]
    call: Callable[[Helper, Sequence[Array], Frame], tuple[Array, ...]] = field(repr=False)
    owners: dict[str, Array] = field(default_factory=dict)
    number: int = 0
    limits: Mapping[str, int] = field(default_factory=dict)


Evaluate = Callable[[Expr, Sequence[Any], Frame], Any]
Write = Callable[[Expr, Sequence[str]], str]


@dataclass(frozen=True)
class Operation:
    """An operation.

    Attributes:
        write: its text, given the operands'.
        evaluate: its value, given the operands'.
        effect: it writes to memory.
    """

    write: Write
    evaluate: Evaluate
    effect: bool = False


OPERATIONS: dict[str, Operation] = {}


def operation(
    name: str, text: str | Write, *, effect: bool = False
) -> Callable[[Evaluate], Evaluate]:
    """Registers the decorated function as what evaluates `name`.

    Args:
        text: a format of the operands, by number, of attributes, by name, and of the result's
            `shape` and `element`; or a function.
        effect: whether it writes to memory.
    """

    def register(evaluate: Evaluate) -> Evaluate:
        write = _formatted(text) if isinstance(text, str) else text
        OPERATIONS[name] = Operation(write, evaluate, effect)
        return evaluate

    return register


def _formatted(text: str) -> Write:
    def write(expr: Expr, args: Sequence[str]) -> str:
        known = {"shape": shape_text(expr.type.shape), "element": expr.type.element.triton}
        return text.format(*args, **{**known, **expr.attrs})

    return write


def write(expr: Expr) -> str:
    """The Triton text of an expression."""
    return OPERATIONS[expr.op].write(expr, [write(arg) for arg in expr.args])


def evaluate(expr: Expr, frame: Frame) -> Any:
    """The value of an expression: an array, or a tuple of them."""
    values = [evaluate(arg, frame) for arg in expr.args]
    entry = OPERATIONS.get(expr.op)
    if entry is None:
        return evaluate_declared(expr, values, frame.program)
    return entry.evaluate(expr, values, frame)


def shape_text(shape: Sequence[int]) -> str:
    """A shape as Triton takes it."""
    return "[" + ", ".join(map(str, shape)) + "]"


def common_shape(*types: Type) -> tuple[int, ...]:
    """What shapes broadcast to; Triton's rule is NumPy's."""
    return tuple(int(n) for n in np.broadcast_shapes(*(t.shape for t in types)))


# ---- leaves: their text, and their value by the frame and the attributes

_LEAVES: dict[str, tuple[str, Callable[..., Array]]] = {
    "var": ("{name}", lambda frame, _, name: frame.variables[name]),
    "number": ("{value!r}", lambda _, type, value: np.array(value).astype(type.element.numpy)),
    "parameter": ("{name}", lambda frame, _, name: np.array(frame.parameters[name], np.int32)),
    "program_id": (
        "tl.program_id({axis})",
        lambda frame, _, axis: np.array(frame.program[axis], np.int32),
    ),
    "arange": (
        "tl.arange({start}, {stop})",
        lambda _, type, start, stop: np.arange(start, stop, dtype=np.int32),
    ),
    "full": (
        "tl.full({shape}, {value!r}, tl.{element})",
        lambda _, type, value: np.full(type.shape, value).astype(type.element.numpy),
    ),
}
for _name, (_text, _leaf) in _LEAVES.items():
    operation(_name, _text)(lambda e, _, frame, f=_leaf: f(frame, e.type, **e.attrs))  # type: ignore[misc]


def var(name: str, type_: Type, fact: Fact) -> Expr:
    """A variable."""
    return Expr("var", type_, attrs={"name": name}, fact=fact)


def number(value: float, element: Element) -> Expr:
    """A Python number where Triton takes one beside a tensor of the type."""
    if not element.is_float:
        value = int(value)
    grain = 0 if float(value).is_integer() else -8
    return Expr("number", Type(element), attrs={"value": value}, fact=within(value, value, grain))


def parameter(name: str, value: int) -> Expr:
    """A number that the kernel takes."""
    return Expr("parameter", Type(I32), attrs={"name": name}, fact=within(value, value))


def program_id(axis: int, extent: int) -> Expr:
    """The program's number along an axis of the grid."""
    return Expr("program_id", Type(I32), attrs={"axis": axis}, fact=within(0, extent - 1))


def arange(size: int, start: int = 0) -> Expr:
    """The numbers from `start` on; `size` is a power of two."""
    attrs = {"start": start, "stop": start + size}
    return Expr("arange", Type(I32, (size,)), attrs=attrs, fact=within(start, start + size - 1))


def full(value: float, type_: Type) -> Expr:
    """A tensor, or a scalar, of equal elements, which the type must hold exactly."""
    if not type_.element.is_float:
        value = int(value)
    grain = 0 if float(value).is_integer() else -8
    fact = within(value, value, grain)
    return Expr("full", type_.of(type_.element), attrs={"value": value}, fact=fact)


# ---- casts


@operation("cast", "{0}.to(tl.{element})")
def _cast(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    return convert(args[0], expr.args[0].type.element, expr.type.element)


@operation("bitcast", "{0}.to(tl.{element}, bitcast=True)")
def _bitcast(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    bits = np.ascontiguousarray(args[0]).view(expr.type.element.numpy)
    made: Array = bits.reshape(args[0].shape)
    return made


@operation("call", lambda expr, args: f"{expr.attrs['name']}({', '.join(args)})", effect=True)
def _call(expr: Expr, args: Sequence[Array], frame: Frame) -> Any:
    results = frame.call(frame.helpers[expr.attrs["name"]], args, frame)
    return results if expr.more else results[0]
