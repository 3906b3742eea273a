"""The arguments of a launch and the memory behind them, as a record keeps them.

Owns which storages there are, each once, and where arguments lie in them. Must not know which
launches are recorded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ttools.core.errors import UnsupportedError
from ttools.core.records.container import LARGEST_RECORD
from ttools.core.records.launch_record import (
    PLACE_BYTES,
    Filling,
    Storage,
    TensorArgument,
    Value,
)
from ttools.core.spec import storage_extent
from ttools.interpreter.records.record_contents import Data, contents_of
from ttools.interpreter.run.kernel_launch import KernelLaunch


class LaunchMemory:
    """The storages of a launch, each once.

    Args:
        first: the number of its first storage in the record.
    """

    def __init__(self, launch: KernelLaunch, first: int) -> None:
        self._launch, self._first = launch, first
        self._numbers: dict[tuple[int, int], int] = {}
        self._dtypes: list[str] = []
        self._remainders: list[int] = []

    def value(self, index: int) -> Value:
        argument = self._launch.arguments[index]
        if index not in self._launch.kernel.plan.pointers:
            if isinstance(argument, (bool, int, float)):
                return argument
            return (
                float(argument)
                if _is_float(self._launch.kernel.plan.types[index])
                else int(argument)
            )
        if argument is None:
            return None
        extent = storage_extent(self._launch.values[index])
        name = self._launch.kernel.plan.names[index]
        if extent is None:
            raise UnsupportedError(f"argument `{name}` is an address, not a tensor")
        tensor = argument if hasattr(argument, "stride") else getattr(argument, "base", argument)
        dtype = str(getattr(argument, "dtype", tensor.dtype)).removeprefix("torch.")
        offset = self._launch.raw_parameters[index] - extent[0]
        return TensorArgument(
            storage=self._number(extent, dtype, int(tensor.data_ptr()) - offset),
            offset=offset,
            shape=tuple(int(n) for n in tensor.shape),
            strides=tuple(int(tensor.stride(n)) for n in range(len(tensor.shape))),
            dtype=dtype,
            itemsize=int(tensor.element_size()),
        )

    def _number(self, extent: tuple[int, int], dtype: str, address: int) -> int:
        if extent not in self._numbers:
            self._numbers[extent] = self._first + len(self._numbers)
            self._dtypes.append(dtype)
            self._remainders.append(address % PLACE_BYTES)
        return self._numbers[extent]

    def storages(self, data: Data, held: int) -> list[Storage]:
        """The memory as it is now.

        Args:
            data: how much of it to keep.
            held: bytes that are recorded already.

        Raises:
            UnsupportedError: it is too much.
        """
        size = sum(end - start for start, end in self._numbers)
        if held + size > LARGEST_RECORD:
            raise UnsupportedError(f"the record would be larger than {LARGEST_RECORD:,} bytes")
        made = []
        for (start, end), dtype, remainder in zip(
            self._numbers, self._dtypes, self._remainders, strict=True
        ):
            seed = self._numbers[start, end]
            kept: np.ndarray[Any, Any] | Filling = contents_of(start, end, dtype, data, held, seed)
            filling = kept if isinstance(kept, Filling) else None
            array = None if isinstance(kept, Filling) else kept
            held += 0 if array is None else array.size
            made.append(Storage(size=end - start, place=remainder, data=array, filling=filling))
        return made


def _is_float(type_name: str) -> bool:
    return type_name.startswith(("f", "bf"))
