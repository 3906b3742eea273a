"""The table of operations: the Triton source of each, and its evaluation in NumPy.

The other modules of this package (`elementwise`, `movement`, `combining`, `access`) register their
operations here, and contain the functions that construct typed expressions from them.
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
    """The state of one program of a launch while the oracle evaluates it.

    Attributes:
        variables: Values of variables by name.
        memory: Elements of each buffer, margins included.
        parameters: Values of scalar parameters by name.
        helpers: Functions that the kernel calls, by name.
        owners: Number of the program that stored each element of a buffer, or -1 if none did.
        number: Number of this program in the launch.
        limits: Ends of shortened buffers in elements; lanes that access elements beyond are
            skipped.
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
    """An operation of generated kernels.

    Attributes:
        write: Returns the Triton source, given the source of the operands.
        evaluate: Returns the value, given the values of the operands.
        effect: If True, the operation writes to memory.
    """

    write: Write
    evaluate: Evaluate
    effect: bool = False


OPERATIONS: dict[str, Operation] = {}


def operation(
    name: str, text: str | Write, *, effect: bool = False
) -> Callable[[Evaluate], Evaluate]:
    """Return a decorator that registers a function as the evaluation of `name`.

    Args:
        name: Name of the operation.
        text: Format string or function that makes the Triton source. A format may use the operands
            by number, attributes by name, and the result's `shape` and `element`.
        effect: If True, the operation writes to memory.
    """

    def register(evaluate: Evaluate) -> Evaluate:
        write = _formatted(text) if isinstance(text, str) else text
        OPERATIONS[name] = Operation(write, evaluate, effect)
        return evaluate

    return register


def _formatted(text: str) -> Write:
    def write(expr: Expr, args: Sequence[str]) -> str:
        builtin = {"shape": shape_text(expr.type.shape), "element": expr.type.element.triton}
        return text.format(*args, **{**builtin, **expr.attrs})

    return write


def write(expr: Expr) -> str:
    """Return the Triton source of an expression."""
    return OPERATIONS[expr.op].write(expr, [write(arg) for arg in expr.args])


def evaluate(expr: Expr, frame: Frame) -> Any:
    """Return the value of an expression: an array, or a tuple of arrays."""
    values = [evaluate(arg, frame) for arg in expr.args]
    entry = OPERATIONS.get(expr.op)
    if entry is None:
        return evaluate_declared(expr, values, frame.program)
    return entry.evaluate(expr, values, frame)


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as Triton source."""
    return "[" + ", ".join(map(str, shape)) + "]"


def common_shape(*types: Type) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast; Triton follows the rule of NumPy."""
    return tuple(int(n) for n in np.broadcast_shapes(*(t.shape for t in types)))


# ---- leaves: the Triton source, and a function of the frame, the type and the attributes

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
    """Return a variable."""
    return Expr("var", type_, attrs={"name": name}, fact=fact)


def number(value: float, element: Element) -> Expr:
    """Return a Python number that Triton converts to the type of the other operand."""
    if not element.is_float:
        value = int(value)
    grain = 0 if float(value).is_integer() else -8
    return Expr("number", Type(element), attrs={"value": value}, fact=within(value, value, grain))


def parameter(name: str, value: int) -> Expr:
    """Return a scalar integer parameter of the kernel."""
    return Expr("parameter", Type(I32), attrs={"name": name}, fact=within(value, value))


def program_id(axis: int, extent: int) -> Expr:
    """Return the program's index along an axis of the grid."""
    return Expr("program_id", Type(I32), attrs={"axis": axis}, fact=within(0, extent - 1))


def arange(size: int, start: int = 0) -> Expr:
    """Return the integers from `start` on; `size` is a power of two."""
    attrs = {"start": start, "stop": start + size}
    return Expr("arange", Type(I32, (size,)), attrs=attrs, fact=within(start, start + size - 1))


def full(value: float, type_: Type) -> Expr:
    """Return a tensor or a scalar of equal elements; the type must represent the value exactly."""
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
