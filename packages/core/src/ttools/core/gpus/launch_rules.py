"""The rules by which CUDA and Triton reject a launch, as one table that all commands use.

Sources: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability"; CUDA
driver API, `cuLaunchKernelEx` and `cuTensorMapEncodeTiled`; Triton's launchers and
`CompiledKernel._init_handles`; HIP's `hipModuleLaunchKernel`. `test_launch_rules_on_gpu.py` checks
each rule on a GPU: a launch at the limit succeeds, and one beyond it is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ttools.core.gpus.targets import (
    ARCHITECTURES,
    MAX_TENSOR_MEMORY,
    MAX_THREADS,
    Target,
    read_target,
)

#: Maximum number of programs along each axis of a grid, on all NVIDIA GPUs.
CUDA_GRID = (2**31 - 1, 65535, 65535)
#: Maximum number of programs: Triton multiplies the extents of a grid as 32-bit integers, and
#: launches nothing unless the product is positive.
MOST_PROGRAMS = 2**31 - 1
#: Maximum number of threads along an axis in HIP, which represents this number in 32 bits.
_HIP_THREADS = 2**32 - 1

#: Required alignment in bytes of a tensor descriptor's base and strides, and of a row of its block.
DESCRIPTOR_ALIGNMENT = 16
#: Exclusive upper bound of strides in bytes.
DESCRIPTOR_STRIDES_END = 1 << 40
DESCRIPTOR_DIMENSIONS = 5
DESCRIPTOR_EXTENT = 1 << 32

#: The earliest time at which a rule can be checked: at the launch, after the kernel has been
#: compiled for the GPU, or at the creation of a descriptor.
CheckedAt = Literal["launch", "compilation", "descriptor"]


@dataclass(frozen=True, kw_only=True)
class GpuLimits:
    """The limits that a launch is compared with.

    Attributes:
        gpu: Name of the GPU, or `CUDA` for the largest limits of all NVIDIA GPUs.
        grid: Programs along each axis, for clusters of one block.
        threads: Number of threads per block.
        cluster: Blocks per cluster (`num_ctas`); None if there are no clusters.
        shared: Bytes of shared memory per block; None if unknown.
        registers: Registers of all threads of a block; None if unknown.
        registers_per_thread: Limit for each thread; None if unknown.
        register_files: Number of parts of a multiprocessor, each of which has an equal share of the
            registers.
        warp: Threads per warp; all registers of a warp are in the same part.
        tensor_memory: Number of tensor memory columns.
    """

    gpu: str
    grid: tuple[int, int, int]
    threads: int = MAX_THREADS
    cluster: int | None = None
    shared: int | None = None
    registers: int | None = None
    registers_per_thread: int | None = None
    register_files: int = 4
    warp: int = 32
    tensor_memory: int = MAX_TENSOR_MEMORY


#: Largest cluster sizes in blocks. Clusters of 8 blocks are portable; Triton requests 16 on GPUs
#: that allow it.
_CLUSTERS = {"sm_90": 16, "sm_100": 16, "sm_103": 16, "sm_120": 8, "sm_121": 8}


def limits_of(target: Target, warps: int = 1) -> GpuLimits:
    """Return the launch limits of a GPU.

    Args:
        target: The architecture of the GPU.
        warps: Number of warps per program; on AMD, the limits of the grid depend on it.
    """
    limits = target.limits
    grid = CUDA_GRID
    if target.backend == "hip":
        along_x = _HIP_THREADS // (max(1, warps) * target.threads)
        grid = (min(along_x, 2**31 - 1), 2**31 - 1, 2**31 - 1)
    return GpuLimits(
        gpu=target.name,
        grid=grid,
        cluster=_CLUSTERS.get(target.name, 1) if target.backend == "cuda" else None,
        shared=None if limits is None else limits.shared_per_block,
        registers=None if limits is None else limits.registers * limits.simds,
        registers_per_thread=None if limits is None else limits.registers_per_thread,
        register_files=4 if limits is None else limits.simds,
        warp=target.threads,
    )


def _any_cuda() -> GpuLimits:
    all_limits = [
        limits_of(target)
        for target in map(read_target, ARCHITECTURES)
        if target.backend == "cuda" and target.limits is not None
    ]
    return GpuLimits(
        gpu="CUDA",
        grid=CUDA_GRID,
        cluster=max(limits.cluster or 1 for limits in all_limits),
        shared=max(limits.shared or 0 for limits in all_limits),
        registers=max(limits.registers or 0 for limits in all_limits),
        registers_per_thread=max(limits.registers_per_thread or 0 for limits in all_limits),
    )


#: The largest limits of all NVIDIA GPUs, for programs that name no GPU.
ANY_CUDA = _any_cuda()


@dataclass(frozen=True, kw_only=True)
class GpuNeeds:
    """The requirements of a launch; None for a requirement that is not known yet.

    Attributes:
        grid: Programs along up to three axes.
        threads: Number of threads per block.
        cluster: Blocks per cluster, `num_ctas`.
        shared: Bytes of shared memory per block.
        registers: Number of registers per thread.
        tensor_memory: Number of tensor memory columns.
    """

    grid: Sequence[int] | None = None
    threads: int | None = None
    cluster: int | None = None
    shared: int | None = None
    registers: int | None = None
    tensor_memory: int | None = None


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A rule that a launch breaks.

    Attributes:
        rule: Name of the rule, a key of `RULES`.
        message: Requirements of the launch, and available resources.
        help: Advice for the user.
    """

    rule: str
    message: str
    help: str


@dataclass(frozen=True, kw_only=True)
class GpuRule:
    """A rule of the table.

    Attributes:
        limit: Description of the limit.
        says: Message of CUDA or Triton when the rule is broken.
        checked_at: The time at which ttools can check it.
        help: Advice for the user.
    """

    limit: str
    says: str
    checked_at: CheckedAt
    help: str


_INVALID = "`RuntimeError: Triton Error [CUDA]: invalid argument`"
_OUT_OF = "`OutOfResources: out of resource: {}`"
_DESCRIPTOR = "`AssertionError`, or `RuntimeError: Triton Error [CUDA]: invalid argument`"

RULES: dict[str, GpuRule] = {
    "pointer_device": GpuRule(
        limit="tensors are on the current device, or in pinned host memory",
        says="`ValueError: Pointer argument cannot be accessed from Triton (cpu tensor?)`",
        checked_at="launch",
        help="move the tensor to the device of the launch, for example with `.cuda()`",
    ),
    "grid": GpuRule(
        limit="2,147,483,647 programs along axis 0, divided by `num_ctas`; 65,535 along axes 1 "
        "and 2",
        says=_INVALID,
        checked_at="launch",
        help="put the longest axis first in the grid, or let each program do more work",
    ),
    "programs": GpuRule(
        limit="2,147,483,647 programs in total",
        says="nothing: the product of 32-bit integers overflows, and nothing is launched",
        checked_at="launch",
        help="split the launch into several, or let each program do more work",
    ),
    "threads": GpuRule(
        limit="1,024 threads per block: `num_warps` is at most 32",
        says=_OUT_OF.format("threads"),
        checked_at="launch",
        help="use fewer warps (num_warps)",
    ),
    "cluster": GpuRule(
        limit="`num_ctas` is at most 16 on sm_90, sm_100 and sm_103, 8 on sm_120 and sm_121, and 1 "
        "on other GPUs",
        says="`ValueError: num_ctas > 1 requires NVIDIA SM90+`, or "
        "`RuntimeError: Triton Error [CUDA]: invalid cluster size`",
        checked_at="launch",
        help="use fewer blocks per program (num_ctas)",
    ),
    "shared_memory": GpuRule(
        limit="the shared memory of a block, for example 232,448 bytes on sm_90 and 166,912 on "
        "sm_80",
        says=_OUT_OF.format("shared memory"),
        checked_at="compilation",
        help="use smaller tiles, or reduce num_stages so that fewer tiles are buffered at once",
    ),
    "registers": GpuRule(
        limit="65,536 registers per block, 255 per thread",
        says=_OUT_OF.format("threads"),
        checked_at="compilation",
        help="use smaller tiles, or fewer warps (num_warps)",
    ),
    "tensor_memory": GpuRule(
        limit="512 columns of tensor memory",
        says=_OUT_OF.format("tensor memory"),
        checked_at="compilation",
        help="use smaller tiles, or fewer accumulators at a time",
    ),
    "descriptor_base": GpuRule(
        limit="the base of a tensor descriptor is a multiple of 16 bytes",
        says=_DESCRIPTOR,
        checked_at="descriptor",
        help="align the tensor to 16 bytes, or load it through pointers",
    ),
    "descriptor_stride": GpuRule(
        limit="the strides of a tensor descriptor except the last are multiples of 16 bytes, from "
        "0 to 2^40 - 16",
        says=_DESCRIPTOR,
        checked_at="descriptor",
        help="pad the rows of the tensor to a multiple of 16 bytes, or load it through pointers",
    ),
    "descriptor_last_stride": GpuRule(
        limit="the last stride of a tensor descriptor is 1",
        says=_DESCRIPTOR,
        checked_at="descriptor",
        help="make the last dimension contiguous: transpose the tensor, or copy it",
    ),
    "descriptor_shape": GpuRule(
        limit="a tensor descriptor has at most 5 dimensions, and extents from 1 to 2^32",
        says=_DESCRIPTOR,
        checked_at="descriptor",
        help="give the descriptor the tensor's own shape and strides",
    ),
    "descriptor_block": GpuRule(
        limit="the row size of a tensor descriptor's block is a multiple of 16 bytes",
        says="`ValueError: Descriptor block shape must have at least 16 bytes in the last "
        "dimension`",
        checked_at="descriptor",
        help="make each row of the block a multiple of 16 bytes",
    ),
}


def broken_rules(needs: GpuNeeds, limits: GpuLimits) -> list[Violation]:
    """Return the rules that a launch breaks, in the order of the table."""
    return [violation for check in _CHECKS for violation in check(needs, limits)]


def wrong_device(argument: str, device: str, current: str) -> Violation:
    """Return the violation for a tensor that a launch on a GPU cannot access.

    Args:
        argument: Name of the parameter.
        device: Device of the tensor.
        current: Device of the launch.
    """
    return _violation(
        "pointer_device",
        f"`{argument}` is a tensor on {device}, but the kernel is launched on {current}; "
        "Triton says: Pointer argument cannot be accessed from Triton (cpu tensor?)",
    )


def rules_table() -> str:
    """Return the rows of the documentation's table of launch rules."""
    return "".join(
        f"| `{name}` | {rule.limit} | {rule.says} | {rule.checked_at} |\n"
        for name, rule in RULES.items()
    )


def _violation(rule: str, message: str) -> Violation:
    return Violation(rule=rule, message=message, help=RULES[rule].help)


def _grid(needs: GpuNeeds, limits: GpuLimits) -> Iterator[Violation]:
    if needs.grid is None or 0 in needs.grid:  # Triton launches nothing for an empty grid
        return
    cluster, product = needs.cluster or 1, 1
    for axis, (extent, limit) in enumerate(zip(needs.grid, limits.grid, strict=False)):
        most = limit // cluster if axis == 0 else limit
        product *= extent
        if extent > most:
            yield _violation(
                "grid",
                f"axis {axis} of the grid has {extent:,} programs, but at most {most:,} are "
                "allowed",
            )
    if product > MOST_PROGRAMS:
        yield _violation(
            "programs",
            f"the grid has {product:,} programs in total; Triton launches nothing if there are "
            f"more than {MOST_PROGRAMS:,}",
        )


def _threads(needs: GpuNeeds, limits: GpuLimits) -> Iterator[Violation]:
    if needs.threads is not None and needs.threads > limits.threads:
        yield _violation(
            "threads",
            f"needs {needs.threads:,} threads per block, but only {limits.threads:,} are available",
        )


def _cluster(needs: GpuNeeds, limits: GpuLimits) -> Iterator[Violation]:
    if limits.cluster is not None and (needs.cluster or 1) > limits.cluster:
        yield _violation(
            "cluster",
            f"needs clusters of {needs.cluster:,} blocks, but they have at most {limits.cluster:,}",
        )


def _resources(needs: GpuNeeds, limits: GpuLimits) -> Iterator[Violation]:
    if limits.shared is not None and (needs.shared or 0) > limits.shared:
        yield _violation(
            "shared_memory",
            f"needs {needs.shared:,} bytes of shared memory, but only {limits.shared:,} are "
            "available",
        )
    per_thread, in_block = needs.registers or 0, _registers_taken(needs, limits)
    if limits.registers_per_thread is not None and per_thread > limits.registers_per_thread:
        yield _violation(
            "registers",
            f"needs {per_thread:,} registers per thread, but only "
            f"{limits.registers_per_thread:,} are available",
        )
    elif limits.registers is not None and in_block > limits.registers:
        yield _violation(
            "registers",
            f"needs {in_block:,} registers per block, but only {limits.registers:,} are available",
        )
    if (needs.tensor_memory or 0) > limits.tensor_memory:
        yield _violation(
            "tensor_memory",
            f"needs {needs.tensor_memory:,} columns of tensor memory, but only "
            f"{limits.tensor_memory:,} are available",
        )


def _registers_taken(needs: GpuNeeds, limits: GpuLimits) -> int:
    """Return the number of registers that a block allocates; each thread gets a multiple of eight.

    Warps are distributed evenly over the parts of a multiprocessor.
    """
    warps = -(-(needs.threads or 0) // limits.warp)
    warps_in_part = -(-warps // limits.register_files)
    per_thread = -(-(needs.registers or 0) // 8) * 8
    return warps_in_part * limits.register_files * limits.warp * per_thread


_Check = Callable[[GpuNeeds, GpuLimits], Iterator[Violation]]
_CHECKS: tuple[_Check, ...] = (_grid, _threads, _cluster, _resources)
