"""Contents of buffers before a launch, computed by NumPy or by one line of torch.

Patterns are formulas of an element's index and a seed, so that a short script can reproduce the
memory. The margins contain the pattern, too, so that writes to them are detected.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ttools.fuzz.elements import Array, Element
from ttools.fuzz.facts import WILD, Fact, whole, within
from ttools.fuzz.program import Buffer, Program

_GOLDEN = -7046029254386353131  # 2**64 / the golden ratio, as a signed number


@dataclass(frozen=True)
class Pattern:
    """A pattern of memory contents.

    Attributes:
        make: Computes elements from indices.
        torch: Returns a line of torch that computes them from the indices `i`.
        fact: Returns the facts that hold for all elements.
    """

    make: Callable[[Array, int, Element], Array]
    torch: Callable[[int, Element], str]
    fact: Callable[[Element], Fact]


def _signed(element: Element) -> bool:
    return element.kind in ("signed", "float")


def _small(i: Array, seed: int, element: Element) -> Array:
    value = (i * 7 + seed) % 17 - (8 if _signed(element) else 0)
    if element.kind == "bool":
        value = value & 1
    return value.astype(element.numpy)


def _small_torch(seed: int, element: Element) -> str:
    value = f"(i * 7 + {seed}) % 17"
    if element.kind == "bool":
        return f"({value} & 1).bool()"
    if _signed(element):
        value += " - 8"
    through = ".float()" if element.bits == 8 and element.is_float else ""
    return f"({value}){through}.to(torch.{element.torch})"


def _small_fact(element: Element) -> Fact:
    if element.kind == "bool":
        return Fact(0, 1)
    return within(-8, 8) if _signed(element) else within(0, 16)


def _period(element: Element) -> int:
    if element.kind == "bool":
        return 2
    return int(2 ** min(element.digits if element.is_float else element.bits - 1, 20))


def _ramp(i: Array, seed: int, element: Element) -> Array:
    return ((i + seed) % _period(element)).astype(element.numpy)


def _ramp_torch(seed: int, element: Element) -> str:
    through = ".float()" if element.bits == 8 and element.is_float else ""
    return f"((i + {seed}) % {_period(element)}){through}.to(torch.{element.torch})"


def _bits(i: Array, seed: int, element: Element) -> Array:
    with np.errstate(over="ignore"):
        mixed = (i + seed * 7919) * np.int64(_GOLDEN)
    if element.kind == "bool":
        return np.asarray((mixed >> 63) != 0)
    bits = (mixed >> (64 - element.bits)).astype(f"int{element.bits}")
    return np.asarray(bits.view(element.numpy))


def _bits_torch(seed: int, element: Element) -> str:
    mixed = f"((i + {seed * 7919}) * {_GOLDEN}"
    if element.kind == "bool":
        return f"{mixed} >> 63) != 0"
    return (
        f"{mixed} >> {64 - element.bits}).to(torch.int{element.bits}).view(torch.{element.torch})"
    )


#: Bit patterns of special values. For floats: zeros, infinities, NaN, the bounds of the denormal
#: and of the normal range, and one.
def _special_bits(element: Element) -> list[int]:
    if element.kind == "bool":
        return [0, 1]
    bits = element.bits
    if not element.is_float:
        return [0, 1, -1, 2, 3, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 2 ** (bits - 1) - 2, 7]
    fraction = element.digits - 1
    top = ((1 << (bits - 1)) - 1) >> fraction << fraction
    values = [0, top, top | 1 << (fraction - 1), 1, (1 << fraction) - 1, 1 << fraction, top - 1]
    one = int(np.array(1.0).astype(element.numpy).view(f"uint{bits}"))
    return [*values, one] + [v - (1 << (bits - 1)) for v in [*values, one]]


def _special(i: Array, seed: int, element: Element) -> Array:
    values = np.array(_special_bits(element), np.int64)
    chosen = values[(i * 5 + seed) % len(values)]
    if element.kind == "bool":
        return np.asarray(chosen != 0)
    return np.asarray(chosen.astype(f"int{element.bits}").view(element.numpy))


def _special_torch(seed: int, element: Element) -> str:
    values = _special_bits(element)
    chosen = f"torch.tensor({values})[(i * 5 + {seed}) % {len(values)}]"
    if element.kind == "bool":
        return f"{chosen}.bool()"
    return f"{chosen}.to(torch.int{element.bits}).view(torch.{element.torch})"


def _any(element: Element) -> Fact:
    return WILD if element.is_float else whole(element)


def _ramp_fact(element: Element) -> Fact:
    return within(0, _period(element) - 1)


def _fraction(i: Array, seed: int, element: Element) -> Array:
    return (((i * 11 + seed) % 129 - 64) / 8).astype(element.numpy)


def _fraction_torch(seed: int, element: Element) -> str:
    return f"(((i * 11 + {seed}) % 129 - 64) / 8).to(torch.{element.torch})"


PATTERNS = {
    "small": Pattern(_small, _small_torch, _small_fact),
    "ramp": Pattern(_ramp, _ramp_torch, _ramp_fact),
    "fraction": Pattern(_fraction, _fraction_torch, lambda element: within(-8, 8, -3)),
    "bits": Pattern(_bits, _bits_torch, _any),
    "special": Pattern(_special, _special_torch, _any),
}


def short_limits(program: Program) -> dict[str, int]:
    """Return, by name, the new lengths in elements of randomly shortened buffers (at least one)."""
    rng = random.Random(f"ttools-fuzz-short-{program.seed}")
    buffers = [buffer for buffer in program.buffers if buffer.size]
    chosen = [buffer for buffer in buffers if rng.random() < 0.5] or buffers[:1]
    return {b.name: max(rng.randrange(b.size), 1 - b.margin) for b in chosen}


def contents(buffer: Buffer) -> Array:
    """Return a buffer's memory before the launch, margins included."""
    index = np.arange(buffer.size + 2 * buffer.margin, dtype=np.int64)
    return PATTERNS[buffer.data].make(index, buffer.seed, buffer.element)
