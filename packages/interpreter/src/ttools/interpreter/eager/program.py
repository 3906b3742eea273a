"""`eager_program()`: runs operations of one program line by line, at a prompt or in a notebook.

The operations are called by the user's own code, not by a copy of a kernel whose globals could be
changed. Therefore the builtins and jit functions of `tl` itself are replaced while such a program
is open, and restored afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.patches import Patches
from ttools.core.triton_versions import jit_function_class
from ttools.interpreter.eager.functions import begin_launch, function_for
from ttools.interpreter.eager.language import language_modules, wrap
from ttools.interpreter.eager.launch import new_session
from ttools.interpreter.eager.memory import Memory
from ttools.interpreter.eager.session import is_active, running
from ttools.interpreter.frontend.options import codegen_implementation, parse_options

Extents = int | Sequence[int]


@contextmanager
def eager_program(pid: Extents = 0, grid: Extents | None = None) -> Iterator[None]:
    """Open a program in which `tl`'s functions can be called one by one.

    Tensors of torch stand for pointers to their first element, and operations take effect: a
    `tl.store` changes the tensor. Nothing has to be compiled or launched.

    Args:
        pid: Indices of the program, as `tl.program_id` returns them.
        grid: Number of programs along each dimension; by default, the smallest grid that contains
            `pid`.

    Raises:
        UsageError: The grid does not contain the program.

    Examples:
        >>> x = torch.arange(100.0)
        >>> with eager_program(pid=3, grid=8):
        ...     offsets = tl.program_id(0) * 4 + tl.arange(0, 4)
        ...     print(tl.load(x + offsets))
        fp32[4] [12. 13. 14. 15.]
    """
    program = _extents("pid", pid, 0)
    x, y, z = program
    extents = (x + 1, y + 1, z + 1) if grid is None else _extents("grid", grid, 1)
    if any(not 0 <= i < n for i, n in zip(program, extents, strict=True)):
        raise UsageError(f"there is no program {program} in the grid {extents}")
    options = parse_options({"debug": True})
    session = new_session("eager_program", extents, Memory(), options, codegen_implementation())
    session.program = program
    begin_launch()
    with _PATCHES, running(session):
        yield


def _extents(name: str, given: Extents, rest: int) -> tuple[int, int, int]:
    numbers = (given,) if isinstance(given, int) else tuple(given)
    if not 1 <= len(numbers) <= 3 or not all(isinstance(n, int) for n in numbers):
        raise UsageError(f"{name}={given!r}: must be one to three integers")
    x, y, z = (*numbers, rest, rest)[:3]
    return x, y, z


def _install(patches: Patches) -> None:
    for module in language_modules():
        for name, value in list(vars(module).items()):
            if getattr(value, "__triton_builtin__", False):
                patches.wrap(module, name, _here_or)
    patches.wrap(jit_function_class(), "__call__", _called_here_or)


#: The replacements in Triton while programs are open. All open programs share them, because
#: Triton's modules are global.
_PATCHES = Patches(_install)


def _here_or(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a builtin that runs in the open program, unless Triton's compiler calls it."""

    @functools.wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        if "_semantic" in named or not is_active():
            return original(*arguments, **named)
        return wrap(original)(*arguments, **named)

    return call


def _called_here_or(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        if not is_active():
            return original(self, *arguments, **named)
        return function_for(self)(*arguments, **named)

    return call
