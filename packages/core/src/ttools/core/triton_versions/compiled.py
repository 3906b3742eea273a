"""Data of kernels that a GPU backend compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ttools.core.triton_versions.functions import kernel_name


def compiled_kernel_class() -> Any:
    """Return `triton.compiler.CompiledKernel`.

    Before each launch, launchers call its method `launch_metadata(grid, stream, *args)` with the
    arguments of the launch.
    """
    from triton.compiler.compiler import CompiledKernel

    return CompiledKernel


@dataclass(frozen=True)
class CompiledKernelFacts:
    """Data of a `CompiledKernel`.

    Attributes:
        name: Name of the Python function; for a kernel from an IR file, its name in the binary.
        function: Name in the binary.
        parameters: Names of all parameters, including constants.
        ctas: Thread blocks per program.
        ttir: Text of the TTIR; None if Triton has not kept it.
    """

    name: str
    function: str
    parameters: tuple[str, ...]
    ctas: int
    ttir: str | None


def compiled_kernel_facts(kernel: Any) -> CompiledKernelFacts:
    """Return the data of a `CompiledKernel`."""
    python = getattr(kernel.src, "fn", None)
    ttir = kernel.asm.get("ttir")
    return CompiledKernelFacts(
        name=str(kernel.name) if python is None else kernel_name(python),
        function=str(kernel.name),
        parameters=tuple(getattr(python, "arg_names", ())),
        ctas=int(getattr(kernel.metadata, "num_ctas", 1)),
        ttir=ttir if isinstance(ttir, str) else None,
    )


def specialised_source(kernel: Any) -> dict[str, Any] | None:
    """Return the source of a `CompiledKernel` as fields of `KernelSource`.

    Returns:
        The fields by name; None if the kernel was not compiled from a Python function.
    """
    source: Any = getattr(kernel, "src", None)
    metadata: Any = getattr(kernel, "metadata", None)
    if getattr(source, "fn", None) is None or metadata is None:
        return None
    names = ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion")
    return {
        "name": source.fn.__name__,
        "function": source.fn,
        "signature": dict(source.signature),
        "constants": dict(source.constants),
        "hints": dict(source.attrs),
        "options": {name: getattr(metadata, name) for name in names if hasattr(metadata, name)},
    }


def loaded_resources(kernel: Any) -> tuple[int, int] | None:
    """Return registers and bytes of local memory per thread of a `CompiledKernel`.

    Local memory contains spilled registers and arrays. Triton calls their total size `n_spills`.

    Returns:
        None if no GPU driver has loaded the kernel, because the driver reports these numbers.
    """
    registers = getattr(kernel, "n_regs", None)
    if registers is None:
        return None
    word = 4  # bytes per register; `n_spills` is a number of registers
    return int(registers), int(kernel.n_spills) * word
