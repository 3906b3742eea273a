"""Has subclasses of `torch.Tensor` make objects of tensors that Python has seen.

For `class Tile(torch.Tensor)` and `Tile(3)`, torch allocates a tensor and makes an object of `Tile`
for it. Where a function of ours sees each allocation, there is an object for it already, of another
type, and torch refuses. So subclasses without a constructor of their own get one that makes a
second tensor of the memory. `torch.Tensor.__new__` stays what it is, since Dynamo knows it by
identity; called with a subclass and sizes, it is refused still.

Must not know who sees allocations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ttools.core.patches import Patches

#: What torch says of such a tensor.
_SEEN = "already associated to a python object"
_FILE = "<constructor of a subclass of torch.Tensor>"


def let_subclasses_be_made(patches: Patches) -> None:
    """Gives all subclasses such a constructor, also those that are defined later."""
    import torch

    constructed = staticmethod(_constructed(torch.Tensor.__new__))
    for subclass in _subclasses(torch.Tensor):
        _give(patches, subclass, constructed)
    inherited = torch.Tensor.__init_subclass__

    def defined(cls: Any, /, **kwargs: Any) -> None:
        inherited(**kwargs)
        _give(patches, cls, constructed)

    patches.replace(torch.Tensor, "__init_subclass__", classmethod(defined))


def _subclasses(base: type) -> Iterator[type]:
    found: list[type] = type.__subclasses__(base)
    for subclass in found:
        yield subclass
        yield from _subclasses(subclass)


def _give(patches: Patches, subclass: Any, constructed: Any) -> None:
    import torch

    if subclass.__new__ is torch.Tensor.__new__:
        patches.replace(subclass, "__new__", constructed)


def _constructed(construct: Any) -> Any:
    import torch

    def constructed(cls: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return construct(cls, *args, **kwargs)
        except RuntimeError as error:
            if _SEEN not in str(error):
                raise
        return torch.Tensor._make_subclass(cls, construct(torch.Tensor, *args, **kwargs))

    # Dynamo skips our files by configuration, but this stands for what it traces.
    constructed.__code__ = constructed.__code__.replace(co_filename=_FILE)
    return constructed
