"""Native code that combines hashes of large tiles, element by element.

NumPy reads and writes memory in each of about 12 steps per operand. The native engine executes all
of these steps in registers, on several threads. `hashes` implements the same formulas for small
tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.interpreter.abi.module import EmitOptions, Facts
from ttools.interpreter.emit.kernel import emit_kernel
from ttools.interpreter.native import jit
from ttools.interpreter.runtime import launch
from ttools.interpreter.runtime.cache import get_or_compile
from ttools.interpreter.runtime.launch import Kernel
from ttools.ir.parser import parse_module

#: Elements of a program.
_BLOCK = 2048
#: Steps of the finaliser of SplitMix64: a shift to the right and a multiplier.
STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
#: Number that is added before an operand.
ODD = 0x9E3779B97F4A7C15
#: All marks of a hash, and all bits that are not part of the mixed number; see `hashes`.
MARKS, LOW_BITS = 7, 127


class _Text:
    """The text of a TTIR function on tensors of `_BLOCK` elements; numbers name its values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def add(self, text: str) -> str:
        """Add an operation to the text; return the name of its result."""
        self._count += 1
        self.lines.append(f"    %{self._count} = {text}")
        return f"%{self._count}"

    def constant(self, number: int) -> str:
        """Return a tensor of equal unsigned numbers."""
        signed = number - (1 << 64) if number >> 63 else number
        return self.add(f"arith.constant dense<{signed}> : {_tensor('i64')}")

    def apply(self, operation: str, a: str, b: str | int) -> str:
        """Add an operation on 64-bit integers; return the name of its result."""
        second = self.constant(b) if isinstance(b, int) else b
        return self.add(f"arith.{operation} {a}, {second} : {_tensor('i64')}")

    def mixed(self, value: str) -> str:
        """Return mixed numbers, as `hashes.mixed` does."""
        for shift, factor in STEPS:
            value = self.apply("xori", value, self.apply("shrui", value, shift))
            value = value if factor == 1 else self.apply("muli", value, factor)
        return value

    def combined(self, operation: str, operands: Sequence[str]) -> str:
        """Add the operations that `hashes.combined` performs; return the name of the hashes."""
        marks, result = self.constant(0), operation
        for operand in operands:
            marks = self.apply("ori", marks, self.apply("andi", operand, MARKS))
            result = self.apply("addi", result, ODD)
            result = self.mixed(self.apply("xori", result, operand))
        result = self.apply("andi", result, (1 << 64) - 1 - LOW_BITS)
        return self.apply("ori", result, marks)


def _tensor(element: str) -> str:
    return f"tensor<{_BLOCK}x{element}>"


def _module(widths: Sequence[int], body: Callable[[_Text, str, list[str]], str]) -> str:
    """Return the text of a module that computes and stores a function of some arrays.

    Args:
        widths: Bits of the elements of each array.
        body: Writes the function, given the operation and the elements as 64-bit integers.
    """
    names = [f"%p{n}" for n in range(len(widths))]
    kinds = [f"!tt.ptr<i{width}>" for width in widths]
    parameters = [f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True)]
    text = _Text()
    program = text.add("tt.get_program_id x : i32")
    block = text.add(f"arith.constant {_BLOCK} : i32")
    start = text.add(f"arith.muli {program}, {block} : i32")
    lanes = text.add(f"tt.make_range {{end = {_BLOCK} : i32, start = 0 : i32}} : {_tensor('i32')}")
    starts = text.add(f"tt.splat {start} : i32 -> {_tensor('i32')}")
    index = text.add(f"arith.addi {starts}, {lanes} : {_tensor('i32')}")
    counts = text.add(f"tt.splat %count : i32 -> {_tensor('i32')}")
    mask = text.add(f"arith.cmpi slt, {index}, {counts} : {_tensor('i32')}")

    def pointers(name: str, kind: str) -> str:
        base = text.add(f"tt.splat {name} : {kind} -> {_tensor(kind)}")
        return text.add(f"tt.addptr {base}, {index} : {_tensor(kind)}, {_tensor('i32')}")

    elements = []
    for name, kind, width in zip(names, kinds, widths, strict=True):
        value = text.add(f"tt.load {pointers(name, kind)}, {mask} : {_tensor(kind)}")
        if width < 64:
            value = text.add(f"arith.extui {value} : {_tensor(f'i{width}')} to {_tensor('i64')}")
        elements.append(value)
    operation = text.add(f"tt.splat %operation : i64 -> {_tensor('i64')}")
    result = body(text, operation, elements)
    target = pointers("%out", "!tt.ptr<i64>")
    text.lines.append(f"    tt.store {target}, {result}, {mask} : {_tensor('!tt.ptr<i64>')}")
    head = ", ".join(["%count: i32", "%operation: i64", *parameters, "%out: !tt.ptr<i64>"])
    inside = "\n".join(text.lines)
    return f"module {{\n  tt.func public @hashes({head}) {{\n{inside}\n    tt.return\n  }}\n}}\n"


def _pair(text: _Text, operation: str, elements: list[str]) -> str:
    a, b = elements
    return text.combined(operation, [text.apply("minui", a, b), text.apply("maxui", a, b)])


def _bits(text: _Text, operation: str, elements: list[str]) -> str:
    (bits,) = elements
    high = text.apply("shli", text.apply("shrui", bits, 56), 8)
    return text.combined(operation, [text.apply("shli", bits, 8), high])


def combined(operation: np.uint64, arrays: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
    """Return the hashes of an operation on ordered operands, which all have the same shape."""
    return _run(_compiled("combined", (64,) * len(arrays)), operation, arrays)


def unordered_pair(
    operation: np.uint64, a: NDArray[np.uint64], b: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return the hashes of a commutative operation on two arrays of the same shape."""
    return _run(_compiled("pair", (64, 64)), operation, (a, b))


def of_words(operation: np.uint64, words: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the hashes of unsigned integers of 8, 16, 32 or 64 bits."""
    return _run(_compiled("bits", (8 * words.dtype.itemsize,)), operation, (words,))


@lru_cache(maxsize=64)
def _compiled(kind: str, widths: tuple[int, ...]) -> Kernel:
    bodies = {"pair": _pair, "bits": _bits, "combined": _Text.combined}
    text = _module(widths, bodies[kind])
    facts = Facts(readonly=frozenset(range(2, 2 + len(widths))))
    options = EmitOptions(lanes=jit.host_lanes())
    name = f"hashes ({kind})"
    return get_or_compile(
        text, facts, options, lambda: emit_kernel(parse_module(text), facts, options), name=name
    ).kernel


def _run(kernel: Kernel, operation: np.uint64, arrays: Sequence[Any]) -> NDArray[np.uint64]:
    shape = arrays[0].shape
    result = np.empty(shape, np.uint64)
    for part in _parts(result.size):
        own = [array.reshape(-1)[part] for array in (*map(np.ascontiguousarray, arrays), result)]
        addresses = [array.ctypes.data for array in own]
        count = len(own[-1])
        launch.run(kernel, [count, int(operation), *addresses], (-(-count // _BLOCK),))
    return result


def _parts(size: int) -> Iterator[slice]:
    """Yield slices of an array, each small enough to be indexed with 32 bits."""
    for start in range(0, size, 1 << 30):
        yield slice(start, min(size, start + (1 << 30)))
