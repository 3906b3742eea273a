"""The memory that an eager launch may access, and the errors for accesses outside it.

Addresses are host addresses. Every access is checked before it is executed, so that no kernel can
crash the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ttools.core.buffers import ArrayBuffer
from ttools.core.errors import KernelError
from ttools.core.spec import storage_extent
from ttools.interpreter.eager.debugging.frames import location
from ttools.interpreter.eager.elements import Handle
from ttools.interpreter.run.address_book import live_storages

#: After this many equal accesses in a row, if no other program can run, the program is considered
#: to wait forever, and a deadlock is reported.
_PATIENCE = 20_000
#: After this many equal accesses in a row, the program is suspended and other programs run.
_POLITENESS = 50

_MOST_NAMED = 8

Addresses = NDArray[np.int64]


@dataclass(frozen=True)
class Storage:
    """The storage of an argument.

    Attributes:
        start: First address of the storage.
        end: Address after the last byte.
        name: Name in messages, usually that of the argument.
        first: Address of the argument's first element.
        text: Type and shape, as in `float32[64, 64]`.
        item: Size of an element in bytes.
    """

    start: int
    end: int
    name: str
    first: int
    text: str = ""
    item: int = 1


class Others(Protocol):
    """The other programs of a launch."""

    @property
    def waiting(self) -> list[tuple[int, int, int]]:
        """The ids of the other programs that wait."""

    def wait(self, address: int, seen: bytes) -> bool:
        """Suspend the current program, which has read unchanged memory, and run other programs.

        Returns:
            True if other programs ran.
        """


class Memory:
    """The storages that a launch may access."""

    def __init__(self) -> None:
        self.storages: list[Storage] = []
        self.others: Others | None = None
        self._latest: tuple[object, ...] = ()
        self._repeated = 0

    def add(self, name: str, argument: Any, value: Any, address: int) -> None:
        """Add the storage behind a pointer argument.

        Args:
            name: Name of the argument.
            argument: The argument that the user passed.
            value: The argument that the launch uses: `argument`, or a copy of it on the host.
            address: Address of the first element.
        """
        extent = storage_extent(value)
        if extent is None or extent[0] == extent[1]:
            return
        tensor = argument if hasattr(argument, "shape") else getattr(argument, "base", argument)
        shape = list(getattr(tensor, "shape", ()))
        dtype = str(getattr(tensor, "dtype", "")).removeprefix("torch.")
        item = int(tensor.element_size()) if hasattr(tensor, "element_size") else 1
        text = f"{dtype}{shape}" if dtype else ""
        self.storages.append(Storage(*extent, name, address, text, item))

    def holding(self, address: int, size: int = 1) -> Storage | None:
        """Return the storage that contains `size` bytes at an address; None if there is none."""
        for storage in self.storages:
            if storage.start <= address and address + size <= storage.end:
                return storage
        return None

    def check(self, verb: str, pointer: Handle, mask: Handle | None, where: str) -> None:
        """Check an access.

        Args:
            verb: Kind of access for messages, such as `load`.
            pointer: Addresses of the access.
            mask: Active lanes; None if all are active.
            where: Name of the program for messages.

        Raises:
            KernelError: An active lane is outside all storages.
        """
        size = _accessed_bytes(pointer)
        addresses = pointer.data
        lanes = addresses.reshape(-1)
        if mask is not None:
            lanes = lanes[np.broadcast_to(mask.data, addresses.shape).reshape(-1)]
        if not lanes.size:
            return
        low, high = int(lanes.min()), int(lanes.max())
        for storage in self.storages:
            if storage.start <= low and high + size <= storage.end:
                return
        bad = self._outside(lanes, size)
        for address in np.unique(lanes[bad]).tolist():
            if self.holding(address, size) is None and not self._discover(address, size):
                self._refuse(verb, pointer, address, f"{where}{_lane(pointer, mask, address)}")

    def watch(self, name: str, pointer: Handle, result: Handle | None, where: str) -> None:
        """Detect a program that waits for another program, and let other programs run.

        Args:
            name: Name of the operation.
            pointer: Addresses of the access.
            result: The result of the access; None for a store.
            where: Name of the program for messages.

        Raises:
            KernelError: The program has repeated the same access `_PATIENCE` times with the same
                result and without another access in between, and no other program can run.
        """
        if pointer.data.size != 1 or result is None:  # a program that only stores does not wait
            self._latest, self._repeated = (), 0
            return
        contents = result.data.tobytes()
        access = (name, int(pointer.data.reshape(())), contents)
        self._repeated = self._repeated + 1 if access == self._latest else 0
        self._latest = access
        is_patient = self._repeated and self._repeated % _POLITENESS == 0
        if is_patient and self.others is not None and self.others.wait(access[1], contents):
            self._latest, self._repeated = (), 0
        if self._repeated >= _PATIENCE:
            raise KernelError(
                f"{where} waits for memory that only another program can change, but "
                f"no other program can continue{self._others()}",
                location(),
                help="with --programs, also select the programs that it waits for",
                kind="deadlock",
            )

    def wait(self, pointer: Handle, found: bytes) -> None:
        """Suspend the current program and let other programs run, if there are any.

        Args:
            pointer: Address that the program reads.
            found: Bytes that the program last read there.
        """
        if self.others is not None:
            self.others.wait(int(pointer.data), found)

    def _others(self) -> str:
        waiting = [] if self.others is None else self.others.waiting
        if not waiting:
            return ""
        listed = ", ".join(map(str, waiting[:_MOST_NAMED]))
        more = " and others" if len(waiting) > _MOST_NAMED else ""
        return f"; also waiting: {listed}{more}"

    def _outside(self, lanes: Addresses, size: int) -> NDArray[np.bool_]:
        outside = np.ones(lanes.shape, np.bool_)
        for storage in self.storages:
            outside &= (lanes < storage.start) | (lanes + size > storage.end)
        return outside

    def _discover(self, address: int, size: int) -> bool:
        """Find a live tensor at an address that came from memory or from an integer."""
        for start, end, value in live_storages():
            if start <= address and address + size <= end:
                array = value.array if isinstance(value, ArrayBuffer) else value
                text = f"{array.dtype}{list(array.shape)}"
                self.storages.append(Storage(start, end, f"a tensor ({text})", start))
                return True
        return False

    def _refuse(self, verb: str, pointer: Handle, address: int, where: str) -> None:
        size = _accessed_bytes(pointer)
        target = f" through `{pointer.origin}`" if pointer.origin else ""
        why = _explain(self.storage_named(pointer.origin), address, size)
        message = f"out-of-bounds {verb} of {size} bytes{target} in {where}: {why}"
        raise KernelError(message, location())

    def storage_named(self, name: str | None) -> Storage | None:
        return next((s for s in self.storages if s.name == name), None)

    def name_of(self, tensor: Any, variable: str | None) -> str:
        """Return the name of the storage behind a tensor; a new storage is added.

        Args:
            tensor: Tensor or parameter of torch.
            variable: Name of the variable that holds the tensor, if known.
        """
        address = int(tensor.data_ptr())
        storage = self.holding(address)
        if storage is not None and storage.first == address:
            return storage.name
        name = variable or f"tensor {len(self.storages) + 1}"
        self.add(name, tensor, tensor, address)
        return name

    def describe(self, address: int, origin: str | None) -> str:
        """Return an address as an argument and an offset in elements, as in `x_ptr + 3`."""
        storage = self.storage_named(origin) or self.holding(address)
        if storage is None:
            return f"{address:#x}"
        offset, rest = divmod(address - storage.first, storage.item)
        return f"{address:#x}" if rest else f"{storage.name} + {offset}"


def _accessed_bytes(pointer: Handle) -> int:
    return pointer.element.pointee.size if pointer.element.pointee else 1


def _lane(pointer: Handle, mask: Handle | None, address: int) -> str:
    """Return the first active lane that accesses the address, as text for messages."""
    here = pointer.data == address
    if mask is not None:
        here = here & np.broadcast_to(mask.data, here.shape)
    lane = np.argwhere(here)[0].tolist()
    return f", lane {lane} of {list(pointer.data.shape)}" if lane else ""


def _explain(storage: Storage | None, address: int, size: int) -> str:
    if address == 0:
        return "the address is null"
    if storage is None:
        return f"the address {address:#x} does not belong to a live tensor"
    offset = (address - storage.first) // storage.item
    if address < storage.start:
        side = f"{storage.start - address} bytes before its start"
    else:
        side = f"{address + size - storage.end} bytes past its end"
    bytes_ = storage.end - storage.start
    return f"element {offset} of `{storage.name}`, {storage.text} ({bytes_:,} bytes), is {side}"
