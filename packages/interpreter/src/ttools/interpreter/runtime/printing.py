"""Formats the output of `device_print` exactly as Triton's code on a GPU does.

Triton prints one line per element: `pid (0, 0, 0) idx ( 0) prefix: value`, with the conversions of
C's `printf`.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from ttools.interpreter.abi.module import Shown, Site
from ttools.ir.numpy_types import numpy_type


def lines(site: Site, program: tuple[int, int, int], payload: int) -> Iterator[str]:
    """Yield the lines that one `device_print` of one program writes, without line ends.

    Args:
        site: The site of the print.
        program: Coordinates of the program.
        payload: Address of an array that contains, for each operand, the address of its elements in
            row-major order.
    """
    pid = "pid ({}, {}, {})".format(*program)
    if not site.operands:
        yield pid + site.text
        return
    for number, (element, shape, as_hex, signed) in enumerate(site.operands):
        address = ctypes.c_uint64.from_address(payload + 8 * number).value
        operand = f"(operand {number}) " if len(site.operands) > 1 else ""
        values = _texts(address, element, math.prod(shape), as_hex, signed)
        widths = [math.ceil(math.log10(extent)) if extent > 0 else 0 for extent in shape]
        for index, value in zip(itertools.product(*map(range, shape)), values, strict=True):
            where = ", ".join(f"{i:{width or 1}d}" for i, width in zip(index, widths, strict=True))
            yield f"{pid} idx ({where}){site.text}{operand}{value}"


def _texts(address: int, element: str, count: int, as_hex: bool, signed: bool) -> Iterator[str]:
    if element.startswith("!tt.ptr"):
        values = _integers(address, 64, count, signed=False)
        return (f"0x{value:x}" if value else "(nil)" for value in values)
    if match := re.fullmatch(r"i(\d+)", element):
        width = int(match[1])
        if as_hex:
            return _hex(_integers(address, width, count, signed=False), width)
        return map(str, _integers(address, width, count, signed=signed))
    if as_hex:
        width = _float_type(element).itemsize * 8
        return _hex(_integers(address, width, count, signed=False), width)
    return map(_printf_f, _floats(address, element, count))


def element_value(address: int, element: str, *, signed: bool = True) -> int | float | bool:
    """Return the Python value of an element in memory.

    Args:
        address: The address of the element.
        element: MLIR text of its type.
        signed: True if an integer is signed.
    """
    match = re.fullmatch(r"i(\d+)", element)
    if match is None:
        return next(_floats(address, element, 1))
    value = next(_integers(address, int(match[1]), 1, signed=signed))
    return bool(value) if match[1] == "1" else value


def _hex(values: Iterator[int], width: int) -> Iterator[str]:
    digits = max(1, width // 4)
    return (f"0x{value:0{digits}x}" for value in values)


def _integers(address: int, width: int, count: int, *, signed: bool) -> Iterator[int]:
    size = max(1, width // 8)
    data = ctypes.string_at(address, size * count)
    code = {1: "b", 2: "h", 4: "i", 8: "q"}[size]
    # An i1 is a byte that is 0 or 1, even if it is signed.
    code = code if signed and width > 1 else code.upper()
    return iter(struct.unpack(f"={count}{code}", data))


def _float_type(element: str) -> Any:
    kind = numpy_type(element)
    assert kind is not None, f"{element} cannot be printed"
    return kind


def _floats(address: int, element: str, count: int) -> Iterator[float]:
    import numpy as np

    kind = _float_type(element)
    data = ctypes.string_at(address, kind.itemsize * count)
    return iter(np.frombuffer(data, kind).astype(np.float64).tolist())


def _printf_f(value: float) -> str:
    """Format a number as `%f` in C, which also defines the text for NaN and infinity."""
    if math.isnan(value):
        return "-nan" if math.copysign(1, value) < 0 else "nan"
    return f"{value:f}"


def shown_values(
    variables: Sequence[Shown], data: bytes, lane: int
) -> tuple[tuple[str, int | float | bool], ...]:
    """Return the names and values of variables in one lane of a chunk.

    Args:
        variables: The variables that the payload contains.
    """
    buffer = ctypes.create_string_buffer(data, len(data))
    return tuple(
        (shown.name, _value(shown, ctypes.addressof(buffer) + _offset(shown, lane)))
        for shown in variables
    )


def _value(shown: Shown, address: int) -> int | float | bool:
    return element_value(address, shown.element, signed=not shown.unsigned)


def _offset(shown: Shown, lane: int) -> int:
    bits = re.fullmatch(r"[if](\d+).*", shown.element)
    size = 2 if shown.element == "bf16" else max(1, int(bits[1]) // 8) if bits else 8
    return shown.offset + size * min(lane, shown.width - 1)
