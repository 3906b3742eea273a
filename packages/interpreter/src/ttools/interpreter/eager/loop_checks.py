"""What the compiler demands of loops that stay loops: names keep their types, nobody returns.

The sentences are the compiler's (`CodeGenerator._verify_loop_carried_variable`). It also looks at
iterations that are not made and at branches that are not taken; here only what happens is seen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from triton.language import core

from ttools.core.triton_versions import compilation_error
from ttools.interpreter.eager.debugging import frames
from ttools.interpreter.eager.values import EagerConstexpr, EagerTensor


def carrying(iterations: Iterable[Any], *names: str) -> Iterator[Any]:
    """The iterations of a loop; at the end of each, names must have the types they began with.

    Args:
        names: that its body assigns and that were assigned before.

    Raises:
        CompilationError: a name has another type.
    """
    frame = sys._getframe(1)
    held = frame.f_locals
    before = {name: held[name] for name in names if isinstance(held.get(name), core.base_value)}
    for counter in iterations:
        yield counter
        now = frame.f_locals
        for name, old in before.items():
            wrong = None if now.get(name) is old else _difference(name, old, now.get(name))
            if wrong is not None and frames.is_kernel_frame(frame):
                raise compilation_error(frames.location(), AssertionError(wrong))


def _difference(name: str, old: Any, new: Any) -> str | None:
    if isinstance(old, EagerConstexpr) or isinstance(new, EagerConstexpr):
        return f"cannot reassign constexpr {name} in the loop"
    if type(old) is not type(new):
        return f"Loop carried variable {name} changed type, was {type(new)} but is now {type(old)}"
    if isinstance(old, EagerTensor) and old.type != new.type:
        return (
            f"Loop-carried variable {name} has initial type {old.type} but is re-assigned to "
            f"{new.type} in loop! Please make sure that the type stays consistent."
        )
    return None


def refuse_return() -> None:
    """Refuses a `return` inside a loop.

    Raises:
        CompilationError: always.
    """
    raise compilation_error(
        frames.location(),
        TypeError("Cannot have `return` statements inside `while` or `for` statements in triton."),
    )
