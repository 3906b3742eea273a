"""Sees storages that are made, or grow, without a tensor, which no operator of torch's tells of.

`torch.UntypedStorage(8)` and its `resize_` leave memory as the allocator has it, and so do the
typed storages that are made of it. Must not know what is done with the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ttools.core.patches import Patches


@dataclass(frozen=True, slots=True)
class BareStorage:
    """Stands for a tensor of all of a storage's bytes, which has no elements of a type.

    Attributes:
        storage: an untyped one on the host.
    """

    storage: Any

    def untyped_storage(self) -> Any:
        """As a tensor's."""
        return self.storage


def see_storages(
    patches: Patches,
    made: Callable[[BareStorage], None],
    grown: Callable[[BareStorage, int, int], None],
) -> None:
    """Calls back for each storage.

    Args:
        patches: take what is replaced back.
        made: gets one that is new.
        grown: gets one that has become larger, the address where it was, and how many bytes it had.
    """
    import torch

    def construct(inherited: Any) -> Any:
        def constructed(cls: Any, *args: Any, **kwargs: Any) -> Any:
            storage = inherited(cls, *args, **kwargs)
            size = args[0] if args else kwargs.get("size")  # or the bytes themselves
            if isinstance(size, Integral) and _address(storage) is not None:
                made(BareStorage(storage))
            return storage

        return staticmethod(constructed)

    def resize(inherited: Any) -> Any:
        def resize_(self: Any, size: int) -> Any:
            start, nbytes = _address(self), self.nbytes()
            result = inherited(self, size)
            if start is not None and self.nbytes() > nbytes:
                grown(BareStorage(self), start, int(nbytes))
            return result

        return resize_

    patches.wrap(torch.UntypedStorage, "__new__", construct)
    patches.wrap(torch.UntypedStorage, "resize_", resize)


def _address(storage: Any) -> int | None:
    """Where a storage of the host begins; None of one that stands for others, as a fake's does."""
    try:
        return int(storage.data_ptr()) if storage.device.type == "cpu" else None
    except RuntimeError:
        return None
