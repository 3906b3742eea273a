"""Converts the arguments of a launch, and the memory behind them, to the form of a record."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from ttools.core.errors import UnsupportedError
from ttools.core.records.container import LARGEST_RECORD
from ttools.core.records.launch_record import PLACE_BYTES, Filling, Storage
from ttools.core.spec import ArgumentSpec
from ttools.interpreter.records.record_contents import Data, contents_of
from ttools.interpreter.run.kernel_launch import KernelLaunch


class StorageList:
    """The storages of the arguments of a launch, each listed once.

    Args:
        launch: The launch whose arguments are listed.
        first: Number of its first storage in the record.
    """

    def __init__(self, launch: KernelLaunch, first: int) -> None:
        self._launch, self._first = launch, first
        self._numbers: dict[tuple[int, int], int] = {}
        self._dtypes: list[str] = []

    def arguments(self) -> tuple[ArgumentSpec, ...]:
        """Return the arguments with tensors that refer to storages by their numbers.

        Raises:
            UnsupportedError: The size of the memory behind a pointer is unknown.
        """
        return tuple(map(self._argument, range(len(self._launch.values))))

    def _argument(self, index: int) -> ArgumentSpec:
        argument = self._launch.spec.arguments[index]
        if argument.value is None or index not in self._launch.kernel.plan.pointers:
            return argument
        tensor = self._launch.memory(index)
        if tensor is None:
            raise UnsupportedError(f"argument `{argument.name}` is an address, not a tensor")
        if tensor.extent not in self._numbers:
            self._numbers[tensor.extent] = self._first + len(self._numbers)
            self._dtypes.append(tensor.dtype)
        number = self._numbers[tensor.extent]
        return replace(argument, value=replace(tensor, storage=number, storage_bytes=None))

    def storages(self, data: Data, recorded_bytes: int) -> list[Storage]:
        """Return the memory as it is now.

        Args:
            data: Choice of the contents to keep, as for `contents_of`.
            recorded_bytes: Size of the contents recorded so far, in bytes.

        Raises:
            UnsupportedError: The record would exceed the size limit.
        """
        size = sum(end - start for start, end in self._numbers)
        if recorded_bytes + size > LARGEST_RECORD:
            raise UnsupportedError(f"the record would be larger than {LARGEST_RECORD:,} bytes")
        made = []
        for ((start, end), seed), dtype in zip(self._numbers.items(), self._dtypes, strict=True):
            kept: np.ndarray[Any, Any] | Filling = contents_of(
                start, end, dtype, data, recorded_bytes, seed
            )
            filling = kept if isinstance(kept, Filling) else None
            array = None if isinstance(kept, Filling) else kept
            recorded_bytes += 0 if array is None else array.size
            made.append(
                Storage(size=end - start, place=start % PLACE_BYTES, data=array, filling=filling)
            )
        return made
