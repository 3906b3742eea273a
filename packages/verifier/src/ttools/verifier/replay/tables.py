"""Finds results among the constants of a plan.

A result that depends on no input can be computed outside of kernels and stored as a constant, which
a kernel then only copies or scales. The values of such a result are those of the constant, in any
order. The values may also be operands of operators, arguments of launches, or constants in the code
of a kernel.
"""

from __future__ import annotations

import contextlib
import math
import re
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from msgspec.structs import replace

from ttools.core.spec import TensorSpec
from ttools.verifier.replay.plan import Items, LaunchStep, Plan

#: Results with fewer elements, or with fewer different values, are not compared.
_FEWEST, _FEWEST_DIFFERENT = 8, 4
#: Larger constants are not compared.
_MOST = 1 << 22
#: Relative difference up to which values count as equal, because types differ in precision.
_CLOSE = 5e-3
#: A constant with very many different values contains nearly any result. Such a constant also
#: contains the result multiplied by this factor, and is then not reported.
_CHANGED = 1.05
#: Matches the elements of a constant tensor in the TTIR of a kernel, and their type.
_DENSE = re.compile(r"\bdense\s*<([^>]*)>\s*:\s*tensor\s*<[\dx\s]*x\s*(\w+)\s*>")
#: Match a number with its type, and a number alone. Infinities and NaN are written in hexadecimal.
_SCALAR = re.compile(r"(?<![\w.])(-?\d[\w.+-]*)\s*:\s*(f\d+|bf\d+|i\d+)\b")
_NUMBER = re.compile(r"-?0x[0-9A-Fa-f]+|-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
#: Size in bytes and `struct` format of the types whose bits are read as those of a float.
_FORMATS = {
    **dict.fromkeys(("f32", "i32"), (4, "<f")),
    **dict.fromkeys(("f64", "i64"), (8, "<d")),
    "f16": (2, "<e"),
}
#: Integers below this are not taken for the bits of a float.
_LEAST_BITS = 1 << 20


class ConstantValues:
    """The constants of a plan that its results may contain.

    Args:
        numbers: Constants that are not in tensors; see `numbers_of`.
    """

    def __init__(self, numbers: Iterable[float] = ()) -> None:
        self._tables: list[torch.Tensor] = []
        # Every program has a zero.
        numbers = [0.0, *numbers]
        self._numbers = torch.tensor(numbers, dtype=torch.float64, device="cpu")

    def load(self, tensors: Iterable[torch.Tensor]) -> None:
        """Remember the values that constants have before a launch."""
        for tensor in tensors:
            if _FEWEST <= tensor.numel() <= _MOST and not tensor.is_complex():
                self._tables.append(tensor.clone())

    def contain(self, result: torch.Tensor) -> bool:
        """Return whether a result has the values of a constant, perhaps scaled and shifted."""
        if result.numel() < _FEWEST:
            return False
        values = _sorted(torch.view_as_real(result.detach()) if result.is_complex() else result)
        different = int((values.diff() != 0).sum()) + 1
        if different < _FEWEST_DIFFERENT or _is_linear(values):
            return False
        # The code contains a number once.
        if _contains(_sorted(self._numbers), torch.unique_consecutive(values)):
            return True
        return any(_contains(_sorted(table), values) for table in self._tables)


def numbers_of(plan: Plan) -> Iterator[float]:
    """Yield the floats in operands, in arguments of launches, and in the code of kernels.

    Integers whose bits may be those of a float are included as that float.
    """
    for step in plan.steps:
        if isinstance(step, LaunchStep):
            for argument in step.spec.arguments:
                yield from _floats_of([argument.value])
                if type(argument.value) is int:
                    yield from _float_of_bits(argument.value, argument.type)
        else:
            yield from _floats_of((*step.arguments, *step.keywords.values()))
    for ttir in plan.kernels:
        for elements, kind in (*_DENSE.findall(ttir), *_SCALAR.findall(ttir)):
            yield from _floats_in(elements, kind)


def _floats_in(elements: str, kind: str) -> Iterator[float]:
    """Yield the floats in the text of a constant.

    Args:
        elements: Text of the constant's elements.
        kind: Type of the elements, such as `f32`.
    """
    size, _ = _FORMATS.get(kind, (4, ""))
    if elements.lstrip().startswith('"'):  # the bytes of a large constant
        digits = "".join(re.findall(r"[0-9A-Fa-f]{2}", elements.partition("x")[2]))
        for at in range(0, len(digits), 2 * size):
            word = bytes.fromhex(digits[at : at + 2 * size])
            yield from _float_of_bits(int.from_bytes(word, "little"), kind)
        return
    for text in _NUMBER.findall(elements):
        with contextlib.suppress(ValueError):  # the text may come from anywhere
            if "0x" in text or kind.startswith("i"):
                yield from _float_of_bits(int(text, 16 if "0x" in text else 10), kind)
            else:
                yield float(text)


def _float_of_bits(bits: int, kind: str) -> Iterator[float]:
    """Yield the float that has the bits of an integer, unless the integer is small."""
    if kind not in _FORMATS or (kind != "f16" and abs(bits) < _LEAST_BITS):
        return
    size, layout = _FORMATS[kind]
    (number,) = struct.unpack(layout, (bits % (1 << 8 * size)).to_bytes(size, "little"))
    if math.isfinite(number):
        yield number


def _floats_of(values: Iterable[Any]) -> Iterator[float]:
    for value in values:
        if isinstance(value, Items):
            yield from _floats_of(value.items)
        elif isinstance(value, float):
            yield value


def whole_view(view: TensorSpec, size: int) -> TensorSpec:
    """Return a view of a whole storage, with the element type of a given view.

    Args:
        view: A view of the storage.
        size: Size of the storage in bytes.
    """
    return replace(view, offset=0, shape=(size // view.itemsize,), strides=(1,))


def _sorted(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.detach().reshape(-1).double()
    return values[values.isfinite()].sort().values


def _is_linear(values: torch.Tensor) -> bool:
    """Return whether sorted values are evenly spaced, as consecutive indices are."""
    steps = values.diff()
    return bool((steps == steps[:1]).all())


def _normalised(values: torch.Tensor) -> torch.Tensor:
    """Return sorted values, shifted and scaled to the range from 0 to 1."""
    lowest, highest = values[0], values[-1]
    return (values - lowest) / (highest - lowest).clamp(min=1e-300)


def _contains(table: torch.Tensor, values: torch.Tensor) -> bool:
    if table.numel() < values.numel() or not values.numel():
        return False
    if table.numel() == values.numel():
        one, other = _normalised(table), _normalised(values)
        return any(bool(((one - e).abs() <= _CLOSE).all()) for e in (other, 1.0 - other.flip(0)))
    return _shares(table, values) == 1.0 and _shares(table, values * _CHANGED) < 0.5


def _shares(table: torch.Tensor, values: torch.Tensor) -> float:
    """Return the share of values that a sorted table contains."""
    at = torch.searchsorted(table, values).clamp(1, table.numel() - 1)
    nearest = torch.minimum((table[at] - values).abs(), (table[at - 1] - values).abs())
    return float((nearest <= 1e-3 * values.abs()).double().mean())
