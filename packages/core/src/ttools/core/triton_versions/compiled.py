"""What is known of kernels that a GPU's backend compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ttools.core.triton_versions.functions import kernel_name


def compiled_kernel_class() -> Any:
    """`triton.compiler.CompiledKernel`; launchers call its `launch_metadata(grid, stream, *args)`
    with the arguments of each launch before they make it.
    """
    from triton.compiler.compiler import CompiledKernel

    return CompiledKernel


@dataclass(frozen=True)
class CompiledKernelFacts:
    """What a `CompiledKernel` says of itself.

    Attributes:
        name: of the Python function; that of the binary if it was made of an IR file.
        function: the name it has in the binary.
        parameters: names of all its parameters, constants included.
        ctas: thread blocks that make one program.
        ttir: text of its TTIR, if it was kept.
    """

    name: str
    function: str
    parameters: tuple[str, ...]
    ctas: int
    ttir: str | None


def compiled_kernel_facts(kernel: Any) -> CompiledKernelFacts:
    """The facts of a `CompiledKernel`."""
    python = getattr(kernel.src, "fn", None)
    ttir = kernel.asm.get("ttir")
    return CompiledKernelFacts(
        name=str(kernel.name) if python is None else kernel_name(python),
        function=str(kernel.name),
        parameters=tuple(getattr(python, "arg_names", ())),
        ctas=int(getattr(kernel.metadata, "num_ctas", 1)),
        ttir=ttir if isinstance(ttir, str) else None,
    )


@dataclass(frozen=True)
class SpecialisedSource:
    """What a kernel was compiled from.

    Attributes:
        function: the `JITFunction`.
        signature: Triton's type of each parameter.
        constants: values by path of parameter indices.
        hints: Triton's attributes by path of parameter indices.
        options: of the launch that a compilation depends on.
    """

    function: Any
    signature: dict[str, Any]
    constants: dict[tuple[int, ...], Any]
    hints: dict[tuple[int, ...], Any]
    options: dict[str, Any]


def specialised_source(kernel: Any) -> SpecialisedSource | None:
    """What a `CompiledKernel` was compiled from; None if from no Python function."""
    source: Any = getattr(kernel, "src", None)
    metadata: Any = getattr(kernel, "metadata", None)
    if getattr(source, "fn", None) is None or metadata is None:
        return None
    names = ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion")
    return SpecialisedSource(
        function=source.fn,
        signature=dict(source.signature),
        constants=dict(source.constants),
        hints=dict(source.attrs),
        options={name: getattr(metadata, name) for name in names if hasattr(metadata, name)},
    )


@dataclass(frozen=True)
class LoadedResources:
    """What the driver says of a kernel that was loaded onto a GPU.

    Attributes:
        registers: of a thread.
        spilled: bytes of each thread that did not fit into registers.
        shared: bytes of shared memory of a block.
        warps: of a block, as the launch asked for them.
    """

    registers: int
    spilled: int
    shared: int
    warps: int


def loaded_resources(kernel: Any) -> LoadedResources | None:
    """The resources of a `CompiledKernel`; None if it was never loaded."""
    registers = getattr(kernel, "n_regs", None)
    if registers is None:
        return None
    words = 4  # `n_spills` counts registers
    return LoadedResources(
        registers=int(registers),
        spilled=int(kernel.n_spills) * words,
        shared=int(kernel.metadata.shared),
        warps=int(kernel.metadata.num_warps),
    )
