"""Small programs of loads and stores through pointers that may overlap, with a naive oracle.

A program is a list of statements. It is printed as a Triton kernel. The oracle executes it naively:
each load reads all its lanes and each store writes all its lanes, in the order of the statements.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import kernel_text
import numpy as np
import torch
from number_formats import Array

LANES = 64
#: Elements between the base of a pointer and the ends of the storage.
MARGIN = 512


@dataclass(frozen=True)
class Load:
    """The statement `name = base[index]`; masked-off lanes get `other`."""

    name: str
    base: str
    index: str
    mask: str = ""


@dataclass(frozen=True)
class Store:
    """The statement `base[index] = value` under a mask; each lane must have its own element."""

    base: str
    index: str
    value: str
    mask: str = ""


@dataclass(frozen=True)
class Add:
    """The atomic statement `name = base[index]; base[index] += value`."""

    name: str
    base: str
    index: str
    value: str


@dataclass(frozen=True)
class Assign:
    """The statement `name = value`."""

    name: str
    value: str


@dataclass(frozen=True)
class Loop:
    """The loop `for name in range(count)`; its results also have a value before the loop."""

    name: str
    count: str
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class If:
    """The statement `if condition` with a scalar condition."""

    condition: str
    body: tuple[Statement, ...]


Statement = Load | Store | Add | Assign | Loop | If

_KERNEL = """\
@triton.jit
def total(v):
    return tl.sum(v, 0)


@triton.jit
def kernel({bases}, n, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
"""


def _lines(statement: Statement) -> list[str]:
    match statement:
        case Load(name, base, index, mask):
            masked = f", mask={mask}, other=5" if mask else ""
            return [f"{name} = tl.load({base}_ptr + ({index}){masked})"]
        case Store(base, index, value, mask):
            masked = f", mask={mask}" if mask else ""
            return [f"tl.store({base}_ptr + ({index}), {value}{masked})"]
        case Add(name, base, index, value):
            return [f"{name} = tl.atomic_add({base}_ptr + ({index}), {value})"]
        case Assign(name, value):
            return [f"{name} = {value}"]
        case Loop(name, count, body):
            head = f"for {name} in range({count}):"
        case If(condition, body):
            head = f"if {condition}:"
    return [head, *(f"    {line}" for inner in body for line in _lines(inner))]


def text_of(program: Sequence[Statement], bases: str = "xy") -> str:
    """Return a program as the text of a Triton kernel."""
    body = "\n".join(line for statement in program for line in _lines(statement))
    head = _KERNEL.format(bases=", ".join(f"{base}_ptr" for base in bases))
    return head + textwrap.indent(body, "    ") + "\n"


class _Naive:
    """The oracle, which executes a program on one array of memory."""

    def __init__(self, memory: Array, bases: dict[str, int], n: int) -> None:
        self.memory = memory
        self.bases = bases
        # All values are int32, which wrap like those of the kernel.
        lanes, total = np.arange(LANES, dtype=np.int32), partial(np.sum, dtype=np.int32)
        self.names: dict[str, Any] = {"lanes": lanes, "n": n, "total": total}

    def value(self, text: str) -> Any:
        return eval(text, {"__builtins__": {}}, self.names)

    def address(self, base: str, index: str) -> Array:
        return np.broadcast_to(self.bases[base] + self.value(index), (LANES,))

    def run(self, program: Sequence[Statement]) -> None:
        for statement in program:
            self.step(statement)

    def step(self, statement: Statement) -> None:
        match statement:
            case Load(name, base, index, mask):
                loaded = self.memory[self.address(base, index)]
                self.names[name] = np.where(self.value(mask), loaded, 5) if mask else loaded
            case Store(base, index, value, mask):
                on = np.broadcast_to(self.value(mask) if mask else True, (LANES,))
                stored = np.broadcast_to(self.value(value), (LANES,))
                self.memory[self.address(base, index)[on]] = stored[on]
            case Add(name, base, index, value):
                where = self.address(base, index)
                self.names[name] = self.memory[where]
                self.memory[where] += self.value(value)
            case Assign(name, value):
                self.names[name] = self.value(value)
            case Loop(name, count, body):
                for i in range(self.value(count)):
                    self.names[name] = i
                    self.run(body)
            case If(condition, body):
                if self.value(condition):
                    self.run(body)


def check(program: Sequence[Statement], starts: dict[str, int], n: int = 3) -> None:
    """Run a program on views of one storage, and compare the whole storage with the oracle's.

    Args:
        program: Statements, whose pointers have the names in `starts`.
        starts: Start of each pointer's view, in elements from the middle of the storage.
        n: Value of the kernel's argument `n`.
    """
    size = 2 * MARGIN + max(starts.values())
    before = np.random.default_rng(0).integers(-1000, 1000, size).astype(np.int32)
    memory = torch.from_numpy(before.copy())
    views = [memory[MARGIN + start :] for start in starts.values()]
    text = text_of(program, "".join(starts))
    kernel_text.kernel(text)[(1,)](*views, n, LANES=LANES)
    naive = _Naive(before, {base: MARGIN + start for base, start in starts.items()}, n)
    with np.errstate(over="ignore"):
        naive.run(program)
    wrong = np.flatnonzero(memory.numpy() != before)
    assert wrong.size == 0, f"{wrong.size} elements differ, first {wrong[0] - MARGIN}, in:\n{text}"
