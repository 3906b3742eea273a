"""What is said where a kernel has broken a GPU's context, in which nothing works from then on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from ttools.cli.console import say
from ttools.core.patches import Patches

#: Of torch's errors that a kernel's access to memory causes, whichever call meets them.
_WORDS = ("illegal memory access", "misaligned address", "address space", "unspecified launch fail")
_FOUND_BY = "a kernel accessed memory that it must not: `ttools sanitize` finds where"


@contextmanager
def broken_gpu_told() -> Iterator[None]:
    """Has a note follow the traceback of a script that ends by such an error."""

    def noting(shown: Callable[..., object]) -> Callable[..., object]:
        def hook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            shown(kind, error, trace)
            text = str(error)
            if "CUDA error" in text and any(words in text for words in _WORDS):
                say("note", _FOUND_BY)

        return hook

    with Patches() as patches:
        patches.wrap(sys, "excepthook", noting)
        yield


def is_gpu_broken() -> bool:
    """Whether a kernel has broken the context of the GPU that this process uses."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
