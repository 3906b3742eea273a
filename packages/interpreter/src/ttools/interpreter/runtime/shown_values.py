"""The variables that an event shows, decoded from its payload; not what is wrong with them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence

from ttools.interpreter.abi.module import Shown
from ttools.interpreter.runtime.printing import element_value


def shown_values(
    variables: Sequence[Shown], data: bytes, lane: int
) -> tuple[tuple[str, int | float | bool], ...]:
    """Names and values of variables, in one lane of the chunk that a payload describes."""
    held = ctypes.create_string_buffer(data, len(data))
    return tuple(
        (shown.name, _value(shown, ctypes.addressof(held) + _offset(shown, lane)))
        for shown in variables
    )


def _value(shown: Shown, address: int) -> int | float | bool:
    return element_value(address, shown.element, signed=not shown.unsigned)


def _offset(shown: Shown, lane: int) -> int:
    bits = re.fullmatch(r"[if](\d+).*", shown.element)
    size = 2 if shown.element == "bf16" else max(1, int(bits[1]) // 8) if bits else 8
    return shown.offset + size * min(lane, shown.width - 1)
