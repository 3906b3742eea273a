"""Memory that is not torch's, of which a launch is given the address: NumPy's, a library's, a map.

Its bounds are unknown. A launch may access it from such an address on, up to the next memory that
is known or the end of what the process has mapped there. Must not know kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.device_map.memory import on_host

Range = tuple[int, int]
Addresses = NDArray[np.uint64]

#: Where a process may have memory.
_LOWEST, _HIGHEST = 1 << 16, 1 << 47
#: More elements of a tensor are not looked at.
_MOST = 1 << 20


def foreign_memory(
    values: Iterable[Any], known: Sequence[Range], freed: Callable[[int], object]
) -> list[Range]:
    """First address and end of each piece of memory that a launch is given an address of.

    Args:
        values: what is passed; integers and tensors on the host matter, also in tuples.
        known: first address and end of the memory whose bounds are known.
        freed: says what was at an address that is freed, or None.
    """
    given = [_addresses(value) for value in values]
    addresses = np.unique(np.concatenate([*given, np.zeros(0, np.uint64)]))
    if not addresses.size:
        return []
    mapped = _mapped()
    found: list[Range] = []
    for address in map(int, addresses):
        if any(start <= address < end for start, end in known) or freed(address):
            continue
        around = next((end for start, end in mapped if start <= address < end), None)
        if around is not None and (not found or found[-1][1] <= address):
            behind = (start for start, _ in known if start > address)
            found.append((address, min([around, *behind])))
    return found


def _addresses(value: Any) -> Addresses:
    """What may be addresses in an argument."""
    if isinstance(value, (list, tuple)):
        return np.concatenate([np.zeros(0, np.uint64), *map(_addresses, value)])
    elements = np.zeros(0, np.uint64)
    if isinstance(value, int):
        elements = np.array([value] if 0 <= value < _HIGHEST else [], np.uint64)
    elif isinstance(value, np.ndarray) and value.dtype.str[1:] in ("i8", "u8"):
        elements = value.reshape(-1)[:_MOST].view(np.uint64)
    elif str(getattr(value, "dtype", "")) in ("torch.int64", "torch.uint64") and on_host(value):
        elements = value.detach().reshape(-1)[:_MOST].cpu().numpy().view(np.uint64)
    return elements[(elements >= _LOWEST) & (elements < _HIGHEST)]


def _mapped() -> list[Range]:
    """First address and end of all memory that this process can read; neighbours are one."""
    united: list[Range] = []
    for line in Path("/proc/self/maps").read_text("utf-8", errors="replace").splitlines():
        ends, permissions = line.split(maxsplit=2)[:2]
        if permissions[0] != "r":
            continue
        start, end = (int(each, 16) for each in ends.split("-"))
        if united and united[-1][1] == start:
            united[-1] = united[-1][0], end
        else:
            united.append((start, end))
    return united
