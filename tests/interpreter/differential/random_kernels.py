"""Random kernels over scalars, rows, columns and tiles, and their results as NumPy computes them.

The body of a kernel is valid both in Triton and in NumPy; the functions that it calls are defined
for each. Floats are small integers, so the bits do not depend on the order of additions or on
contraction.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Any

import kernel_text
import numpy as np
import torch
from hypothesis import strategies
from number_formats import Array

SLOTS = 24
MEMORY = 1024
PROGRAMS = 3

_FUNCTIONS = """
@triton.jit
def small(x):
    return x - tl.floor(x / 64) * 64

@triton.jit
def times(a, b):
    return small(a * b)

@triton.jit
def to_float(a):
    return (a & 31).to(tl.float32)

@triton.jit
def to_int(a):
    return a.to(tl.int32)

@triton.jit
def bit(a):
    return a.to(tl.int32)

@triton.jit
def select(c, a, b):
    return tl.where(c, a, b)

@triton.jit
def larger(a, b):
    return tl.maximum(a, b)

@triton.jit
def smaller(a, b):
    return tl.minimum(a, b)

@triton.jit
def quotient(a, b):
    return a // ((b & 7) + 1)

@triton.jit
def remainder(a, b):
    return a % ((b & 7) + 3)

@triton.jit
def shifted(a, b):
    return (a << (b & 15)) >> (b & 3)

@triton.jit
def row(v, M: tl.constexpr, N: tl.constexpr):
    return tl.broadcast_to(v[None, :], (M, N))

@triton.jit
def column(v, M: tl.constexpr, N: tl.constexpr):
    return tl.broadcast_to(v[:, None], (M, N))

@triton.jit
def down(x):
    return tl.sum(x, 0)

@triton.jit
def across(x):
    return tl.sum(x, 1)

@triton.jit
def highest(x):
    return tl.max(x, 1)

@triton.jit
def lowest(x):
    return tl.min(x, 0)

@triton.jit
def place(x):
    return tl.argmax(x, 1)

@triton.jit
def total(v):
    return tl.sum(v, 0)

@triton.jit
def scanned(x):
    return tl.cumsum(x, 0)

@triton.jit
def scanned_across(x):
    return tl.cumsum(x, 1)

@triton.jit
def flipped(x):
    return tl.flip(x, 1)

@triton.jit
def mixed(x, M: tl.constexpr, N: tl.constexpr):
    return tl.reshape(tl.trans(x), (M, N))

@triton.jit
def picked(x, i, M: tl.constexpr, N: tl.constexpr):
    return tl.gather(x, i & (N - 1), 1)

@triton.jit
def both(a, b):
    return tl.max(tl.join(a, b), 2)

@triton.jit
def product(a, b):
    return small(tl.dot(a, tl.trans(b), input_precision="ieee"))

@triton.jit
def load(p, i):
    return tl.load(p + (i & 1023))

@triton.jit
def load_where(p, i, c, z):
    return tl.load(p + i, mask=c & (i >= 0) & (i < 1024), other=z)

@triton.jit
def keep(out_ptr, p, slot, x, M: tl.constexpr, N: tl.constexpr):
    place = (p * 24 + slot) * M * N
    r, c = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(out_ptr + place + r * N + c, x.to(tl.int32) + tl.zeros((M, N), tl.int32))
"""

_HEAD = """
@triton.jit
def kernel(ints, floats, out_ptr, n, M: tl.constexpr, N: tl.constexpr):
    p = tl.program_id(0)
    r = tl.arange(0, M)
    c = tl.arange(0, N)
"""


def _small(x: Array) -> Array:
    return np.asarray(x - np.floor(x / np.float32(64)) * np.float32(64), np.float32)


def _truncated(a: Array, b: Array) -> Array:
    return (np.abs(a.astype(np.int64)) // b * np.sign(a)).astype(np.int32)


def _same(function: Any) -> Any:
    """Return a NumPy function whose result has the type of its first argument."""
    return lambda x, *others: np.asarray(function(x, *others), np.asarray(x).dtype)


_NUMPY: dict[str, Any] = {
    "small": _small,
    "times": lambda a, b: _small(a * b),
    "to_float": lambda a: np.asarray(a & 31, np.float32),
    "to_int": lambda a: np.asarray(a, np.int32),
    "bit": lambda a: np.asarray(a, np.int32),
    "select": lambda c, a, b: np.where(c, a, b),
    "larger": np.maximum,
    "smaller": np.minimum,
    "quotient": lambda a, b: _truncated(np.asarray(a), (b & 7) + 1),
    "remainder": lambda a, b: np.fmod(a, (b & 7) + 3),
    "shifted": lambda a, b: (a << (b & 15)) >> (b & 3),
    "row": lambda v, m, n: np.broadcast_to(v[None, :], (m, n)),
    "column": lambda v, m, n: np.broadcast_to(v[:, None], (m, n)),
    "down": _same(lambda x: x.sum(0, dtype=x.dtype)),
    "across": _same(lambda x: x.sum(1, dtype=x.dtype)),
    "highest": _same(lambda x: x.max(1)),
    "lowest": _same(lambda x: x.min(0)),
    "place": lambda x: x.argmax(1).astype(np.int32),
    "total": _same(lambda x: x.sum(0, dtype=x.dtype)),
    "scanned": _same(lambda x: x.cumsum(0, dtype=x.dtype)),
    "scanned_across": _same(lambda x: x.cumsum(1, dtype=x.dtype)),
    "flipped": lambda x: x[:, ::-1],
    "mixed": lambda x, m, n: x.T.reshape(m, n),
    "picked": lambda x, i, m, n: np.take_along_axis(x, i & (n - 1), 1),
    "both": np.maximum,
    "product": lambda a, b: _small(a @ b.T),
    "load": lambda p, i: p[i & 1023],
    "load_where": lambda p, i, c, z: np.where(
        c & (i >= 0) & (i < MEMORY), p[np.clip(i, 0, MEMORY - 1)], p.dtype.type(z)
    ),
}

#: Templates of expressions by the kind of their value. In them, I is an int, F a float and B a bool
#: of the same shape; lower case letters are scalars.
_ANY_SHAPE = {
    "I": ["I + I", "I - I", "I * I", "I + i", "i - I", "I & I", "I | I", "I ^ I", "-I", "~I",
          "quotient(I, I)", "remainder(I, I)", "shifted(I, I)", "select(B, I, I)", "larger(I, I)",
          "smaller(I, I)", "to_int(F)", "bit(B)", "load(ints, I)", "load_where(ints, I, B, 7)"],
    "F": ["F + F", "F - F", "times(F, F)", "f + F", "times(F, f)", "-F", "select(B, F, F)",
          "larger(F, F)", "smaller(F, F)", "to_float(I)", "load(floats, I)",
          "load_where(floats, I, B, 3.0)"],
    "B": ["I < I", "I == I", "F > F", "F <= F", "I >= i", "B & B", "B | B", "B ^ B", "F != f"],
}  # fmt: skip
#: Templates by the shape of their value: t is a tile, v a row, u a column and s a scalar.
_BETWEEN = {
    "t": ["row(v{k}, M, N)", "column(u{k}, M, N)", "flipped(t{k})", "mixed(t{k}, M, N)",
          "scanned(t{k})", "scanned_across(t{k})", "picked(t{k}, tI, M, N)", "both(t{k}, t{k})"],
    "v": ["down(t{k})", "lowest(t{k})"],
    "u": ["across(t{k})", "highest(t{k})"],
    "s": ["total(v{k})", "total(u{k})"],
}  # fmt: skip
#: Depth of the expression of a statement.
_DEPTH = 3
_SHAPES = [(16, 16), (8, 32), (32, 8), (4, 64), (16, 2)]


@dataclass
class RandomKernel:
    """The body of a kernel, the sizes of its tiles and its argument `n`."""

    shape: tuple[int, int]
    n: int
    lines: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"M, N, n = {(*self.shape, self.n)}\n" + "\n".join(self.lines)


@dataclass
class _Writer:
    """Generator of statements, which keeps the existing names by shape and kind."""

    draw: strategies.DrawFn
    square: bool
    names: dict[str, list[str]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    count: int = 0
    depth: int = 0

    def pick(self, options: list[str]) -> str:
        return self.draw(strategies.sampled_from(options))

    def value(self, shape: str, kind: str, budget: int) -> str:
        names = self.names.get(shape + kind, [])
        if names and budget < _DEPTH and (budget == 0 or self.draw(strategies.booleans())):
            return self.pick(names)
        if budget == 0:
            return self.basis(shape, kind)
        templates = list(_ANY_SHAPE[kind])
        if kind != "B":
            templates += [text.replace("{k}", kind) for text in _BETWEEN[shape]]
        if shape == "u" and kind == "I":
            templates.append("place(tF)")
        if shape == "t" and kind == "F" and self.square:
            templates.append("product(tF, tF)")
        return "(" + self.fill(self.pick(templates), shape, budget - 1) + ")"

    def basis(self, shape: str, kind: str) -> str:
        """Return an expression of a shape and kind without operands of the program."""
        ints = {"t": "(row(c, M, N) + column(r, M, N) * 3)", "v": "c", "u": "r", "s": "p"}[shape]
        return {"I": ints, "F": f"to_float({ints})", "B": f"({ints} < 5)"}[kind]

    def fill(self, template: str, shape: str, budget: int) -> str:
        out, position = "", 0
        while position < len(template):
            letter = template[position]
            two = template[position : position + 2]
            named = position and (template[position - 1].isalnum() or template[position - 1] == "_")
            if not named and two[0] in "tvus" and two[1:] in "IFB" and len(two) == 2:
                out, position = out + self.value(two[0], two[1], budget), position + 2
            elif not named and letter in "IFBif" and not (two[1:].isalnum() or two[1:] == "_"):
                inner = shape if letter.isupper() else "s"
                out, position = out + self.value(inner, letter.upper(), budget), position + 1
            else:
                out, position = out + letter, position + 1
        return out

    def write(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def assign(self) -> None:
        """Write an assignment to a new name or to an existing one."""
        shape, kind = self.pick(list("tttvus")), self.pick(list("IIFFB"))
        if self.depth:
            # Names that are new inside a loop or branch would not exist after it.
            keys = [key for key, names in self.names.items() if set(names) - set("rcp")]
            key = self.pick(keys)
            shape, kind = key[0], key[1]
        names_of_kind = self.names.setdefault(shape + kind, [])
        text = self.value(shape, kind, _DEPTH)
        if kind == "F":
            text = f"small({text})"
        old = [name for name in names_of_kind if name not in "rcp"]
        if self.depth or (old and self.draw(strategies.booleans())):
            if old:
                self.write(f"{self.pick(old)} = {text}")
            return
        name = f"{shape}{kind}{self.count}".lower()
        self.count += 1
        names_of_kind.append(name)
        self.write(f"{name} = {text}")

    def block(self, head: str) -> None:
        self.write(head)
        self.depth += 1
        before = len(self.lines)
        for _ in range(self.draw(strategies.integers(2, 4))):
            self.assign()
        if len(self.lines) == before:
            self.write("pass")
        self.depth -= 1

    def statement(self) -> None:
        kind = self.pick(["assign"] * 5 + ["for", "for", "if"])
        if kind == "assign":
            self.assign()
        elif kind == "for":
            self.block(f"for i{self.count} in range({self.pick(['n', 'p + 1', '2'])}):")
        else:
            self.block(f"if {self.pick(['n > 2', 'p == 1', 'p * 2 < n'])}:")


@strategies.composite
def random_kernels(draw: strategies.DrawFn) -> RandomKernel:
    """Draw a kernel of several statements, which finally stores all its values."""
    shape = draw(strategies.sampled_from(_SHAPES))
    writer = _Writer(draw, square=shape[0] == shape[1])
    writer.names = {"vI": ["c"], "uI": ["r"], "sI": ["p"]}
    for text in ("ti = load(ints, {})", "tf = load(floats, {} + p)", "vf = load(floats, c)"):
        writer.write(text.format(writer.basis("t", "I")))
    writer.names |= {"tI": ["ti"], "tF": ["tf"], "vF": ["vf"]}
    for _ in range(draw(strategies.integers(2, 7))):
        writer.statement()
    slot = 0
    for key, names in writer.names.items():
        for name in names:
            if slot == SLOTS or name in "rc":
                continue
            tile = {
                "t": name, "v": f"row({name}, M, N)", "u": f"column({name}, M, N)", "s": name,
            }[key[0]]  # fmt: skip
            tile = f"bit({tile})" if key[1] == "B" else f"to_int({tile})"
            writer.write(f"keep(out_ptr, p, {slot}, {tile}, M, N)")
            slot += 1
    return RandomKernel(shape, draw(strategies.sampled_from([0, 2, 3, 5])), writer.lines)


def _expected(kernel: RandomKernel, ints: Array, floats: Array) -> Array:
    m, n = kernel.shape
    out = np.zeros((PROGRAMS, SLOTS, m, n), np.int32)

    def keep(_: object, p: Any, slot: int, x: Array, *sizes: int) -> None:
        out[int(p), slot] = x

    parameters = "ints, floats, out_ptr, n, M, N, p, r, c"
    text = f"def body({parameters}):\n" + textwrap.indent("\n".join(kernel.lines), "    ")
    namespace = {**_NUMPY, "keep": keep}
    exec(text, namespace)  # the text is generated above
    r, c = np.arange(m, dtype=np.int32), np.arange(n, dtype=np.int32)
    with np.errstate(all="ignore"):
        for p in range(PROGRAMS):
            namespace["body"](ints, floats, None, kernel.n, m, n, np.asarray(p, np.int32), r, c)
    return out


def check(kernel: RandomKernel) -> None:
    """Run a kernel and compare everything that it stores."""
    rng = np.random.default_rng(0)
    ints = rng.integers(-(2**31), 2**31, MEMORY).astype(np.int32)
    ints[::2] %= 1000
    floats = rng.integers(0, 64, MEMORY).astype(np.float32)
    m, n = kernel.shape
    out = torch.zeros((PROGRAMS, SLOTS, m, n), dtype=torch.int32)
    text = _FUNCTIONS + _HEAD + textwrap.indent("\n".join(kernel.lines), "    ") + "\n"
    triton_kernel = kernel_text.kernel(text)
    triton_kernel[(PROGRAMS,)](
        torch.from_numpy(ints), torch.from_numpy(floats), out, kernel.n, M=m, N=n
    )
    expected = _expected(kernel, ints, floats)
    if not np.array_equal(out, expected):
        p, slot, i, j = np.argwhere(out.numpy() != expected)[0]
        line = next(x for x in kernel.lines if f"p, {slot}, " in x).strip()
        raise AssertionError(
            f"program {p}, `{line}` at [{i}, {j}]: got {out[p, slot, i, j]}, "
            f"expected {expected[p, slot, i, j]}"
        )
