"""Chooses the engine of a launch: native, unless the run or the kernel requires the eager one."""

from __future__ import annotations

from typing import Any

from ttools.core.errors import UnsupportedError, UsageError
from ttools.core.triton_versions import CompiledSource
from ttools.interpreter.eager.kernel_selection import hand_over, python_only
from ttools.interpreter.frontend.source_checks import first_assertion, refuse_recursion
from ttools.interpreter.frontend.triton_passes import gluon_refused
from ttools.interpreter.run.interpretation import selecting_run
from ttools.interpreter.run.notices import announce_eager_kernel

_NOT_LAUNCHED = (
    "it cannot be compiled: launch the kernel, which then runs as Python, or use tl.device_print"
)
_OBSERVED = "remove it: a kernel with it runs as Python, where it cannot be checked"


def note_assertions(source: CompiledSource, launched: Any) -> None:
    """Record for the run that assertions of a kernel are not compiled, because debug is off.

    Args:
        source: The kernel and the functions it calls.
        launched: The kernel, if Triton compiles it for a launch.
    """
    run = selecting_run(launched.fn.__name__) if launched is not None else None
    if run is not None:
        location = first_assertion(source)
        if location is not None:
            run.unchecked_assertions.setdefault(launched.fn.__name__, location)


def choose_engine(source: CompiledSource, launched: Any, codegen: Any) -> None:
    """Pass a launch to the eager engine if the run or the source of the kernel requires that.

    Args:
        source: The kernel and the functions it calls.
        launched: The kernel, if Triton compiles it for a launch.
        codegen: Functions of the code generator that the backend supplies.

    Raises:
        UsageError: The path of the kernel's file cannot be represented in TTIR.
        InvalidKernelError: The kernel calls itself.
        UnsupportedError: The kernel cannot be compiled, and it cannot run eagerly either, because
            it is compiled without a launch or because an observer must see its accesses.
    """
    _refuse_unwritable(source)
    run = selecting_run(launched.fn.__name__) if launched is not None else None
    python_construct = python_only(source)
    if python_construct is None:
        refuse_recursion(source)
    if run is not None and run.engine == "eager":
        if launched.is_gluon():
            raise gluon_refused()
        hand_over(launched, codegen)
        return
    if python_construct is None:
        return
    what, location = python_construct
    if launched is None:
        raise UnsupportedError(f"{what} in a kernel", location, help=_NOT_LAUNCHED)
    if run is not None and run.observer is not None:
        raise UnsupportedError(f"{what} in a kernel", location, help=_OBSERVED)
    announce_eager_kernel(launched.fn.__name__, what, location)
    hand_over(launched, codegen)


def _refuse_unwritable(source: CompiledSource) -> None:
    """Reject kernels in files whose names are not valid UTF-8, which Triton requires."""
    for file in source.files:
        if not file.isprintable() and any("\ud800" <= c <= "\udfff" for c in file):
            shown = file.encode(errors="backslashreplace").decode()
            raise UsageError(
                f"Triton cannot compile a kernel from {shown}, because the path is not valid "
                "UTF-8; rename the file or its folder"
            )
