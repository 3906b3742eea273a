"""Computes the shared memory that a block of a kernel needs on a GPU; no GPU is required.

The exact size comes from Triton's compiler, which takes about a second per kernel. `tile_bytes`
estimates the size from the IR, so that the compiler runs only for kernels that could exceed the
limit of the GPU.
"""

from __future__ import annotations

from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.stages import allocate_for
from ttools.core.errors import TtoolsError
from ttools.core.gpus.targets import Target
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.ir import FloatType, IntegerType, Module, TensorType, Type
from ttools.ir.dialects.traits import READS


def shared_memory(launch: KernelLaunch, target: Target) -> int | None:
    """Return how many bytes of shared memory Triton's compiler allocates for a block.

    Args:
        launch: A launch of a function that Triton has compiled.
        target: The GPU that the kernel is compiled for.

    Returns:
        The size in bytes, or None if the kernel does not compile for the GPU.
    """
    source = launch.kernel.source
    options = {
        "num_warps": launch.kernel.options.warps,
        "num_stages": launch.kernel.options.stages,
        "num_ctas": launch.kernel.options.blocks,
    }
    kernel = KernelSource(
        name=launch.kernel.name,
        function=source.fn,
        signature=dict(source.signature),
        constants=dict(source.constants),
        hints=dict(source.attrs),
        options=options,
    )
    try:
        return allocate_for(kernel, target).shared
    except TtoolsError:
        return None


def tile_bytes(module: Module) -> tuple[int, int]:
    """Return the bytes for tiles that may be buffered once per stage, and for all other tiles.

    A loaded tile may have one buffer in shared memory for each stage of a pipelined loop. Operands
    of matrix products have one buffer each. The largest tile counts twice, for a conversion from
    one layout to another.
    """
    loaded = once = largest = 0
    for op in module.kernel.walk():
        for result in op.results:
            largest = max(largest, _bytes(result.type))
            loaded += _bytes(result.type) if op.has(READS) else 0
        if op.name == "tt.dot":
            once += sum(_bytes(operand.type) for operand in op.operands[:2])
    return loaded, once + 2 * largest


def _bytes(kind: Type) -> int:
    if not isinstance(kind, TensorType):
        return 0
    element = kind.element
    width = element.width if isinstance(element, (IntegerType, FloatType)) else 64
    return kind.numel * max(1, width // 8)
