"""Who holds kernels of torch's operators, and is told when others take their place.

What `torch.library.get_kernel` gives is refused by torch once another kernel was registered for the
operator, or its own registration is gone. Must not import torch.
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet


class Holder(Protocol):
    """Holds a kernel."""

    def fetch(self) -> None:
        """Takes the kernel that the operator has now."""


_holders: WeakSet[Holder] = WeakSet()


def hold(holder: Holder) -> None:
    """Has a holder fetch its kernel, now and whenever kernels are replaced, while it lives."""
    _holders.add(holder)
    holder.fetch()


def kernels_replaced() -> None:
    """Has all holders fetch their kernels again."""
    for holder in list(_holders):
        holder.fetch()
