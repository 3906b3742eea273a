"""Resources that a compiled kernel needs, and the resulting occupancy.

Registers and stacks are reported by the assembler, shared memory by Triton. Occupancy follows from
the limits of the target.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ttools.core.compilation.disassembly import resource_usage
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.stages import Compilation, allocate_for
from ttools.core.gpus.launch_rules import GpuNeeds
from ttools.core.gpus.targets import Limits, Target
from ttools.core.triton_versions import spill_traffic


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Static resources of a kernel.

    Attributes:
        registers: Registers per thread; on AMD, vector registers.
        spilled: Bytes per thread that did not fit into registers.
        spill_instructions: Number of instructions that move spilled values.
        local: Bytes of local memory per thread: spilled values, and arrays that the code indexes,
            such as the one in the argument reduction of `sin` and `cos`.
        shared: Bytes of shared memory per block.
        warps: Number of warps per block.
        threads: Number of threads per block.
    """

    registers: int
    spilled: int
    spill_instructions: int = 0
    local: int = 0
    shared: int
    warps: int
    threads: int

    def needs(self, *, cluster: int | None = None, tensor_memory: int | None = None) -> GpuNeeds:
        """Return the requirements of a launch, for the table of launch rules.

        Args:
            cluster: Number of blocks in a cluster.
            tensor_memory: Number of tensor memory columns.
        """
        return GpuNeeds(
            threads=self.threads,
            cluster=cluster,
            shared=self.shared,
            registers=self.registers,
            tensor_memory=tensor_memory,
        )


@dataclass(frozen=True, kw_only=True)
class Occupancy:
    """The number of a kernel's blocks and warps that fit on a multiprocessor.

    Attributes:
        blocks: Resident blocks; 0 if not even one fits.
        warps: Number of resident warps.
        most_warps: The maximum number of resident warps for any kernel.
        limited_by: The limiting resource: `registers`, `shared memory`, `warps` or `blocks`.
        allowed: Number of blocks that each of these resources allows.
    """

    blocks: int
    warps: int
    most_warps: int
    limited_by: str
    allowed: dict[str, int]

    @property
    def share(self) -> float:
        """Return the resident warps as a share of the maximum, from 0 to 1."""
        return self.warps / self.most_warps


def resources_of(compilation: Compilation) -> Resources:
    """Return the resources of a compiled kernel.

    Raises:
        TtoolsError: NVIDIA's binary tools are missing.
    """
    metadata = compilation.metadata
    read = _nvidia if compilation.target.backend == "cuda" else _amd
    registers, local, spilled, instructions = read(compilation)
    warps = int(metadata["num_warps"])
    threads = threads_of(compilation.texts.get("ptx", ""), warps, compilation.target)
    return Resources(
        registers=registers,
        spilled=spilled,
        spill_instructions=instructions,
        local=local,
        shared=int(metadata["shared"]),
        warps=threads // compilation.target.threads,
        threads=threads,
    )


def allocated_needs(source: KernelSource, target: Target) -> GpuNeeds:
    """Return the memory and threads that a kernel needs, without generating machine code.

    Raises:
        CompilationError: The target's compiler rejects the kernel.
    """
    taken = allocate_for(source, target)
    return GpuNeeds(
        threads=taken.warps * target.threads, shared=taken.shared, tensor_memory=taken.tensor
    )


def threads_of(ptx: str, warps: int, target: Target) -> int:
    """Return the threads per block, including warps that warp specialisation adds."""
    asked = re.search(r"\.(?:reqntid|maxntid) (\d+)", ptx)
    return int(asked[1]) if asked else warps * target.threads


def local_memory(usage: Mapping[str, int]) -> int:
    """Return the size of a thread's local memory in bytes, from `resource_usage`."""
    return max(usage.get("STACK", 0), usage.get("LOCAL", 0))


def spilled_bytes(local: int, ptx: str, moved: int | None = None) -> int:
    """Return how many bytes of a thread's local memory hold spilled registers.

    The remaining bytes are arrays that the PTX declares. Triton 3.6 compiles the argument reduction
    of `sin` with such an array of 28 bytes, for which ptxas reserves 32.

    Args:
        local: Bytes of local memory per thread.
        ptx: The assembled PTX text.
        moved: Number of bytes that spill stores and loads move according to ptxas; None if unknown.
    """
    if not local or moved == 0:
        return 0
    arrays = sum(-(-int(size) // _FRAME_UNIT) * _FRAME_UNIT for size in _LOCAL_ARRAY.findall(ptx))
    # If ptxas keeps the arrays in registers, the whole stack frame holds spilled values.
    return local if moved and local <= arrays else max(0, local - arrays)


#: ptxas reserves local memory in multiples of this number of bytes.
_FRAME_UNIT = 16
_LOCAL_ARRAY = re.compile(r"^\s*\.local\s+(?:\.align\s+\d+\s+)?\.b8\s+\S+\[(\d+)\]", re.MULTILINE)


def _nvidia(compilation: Compilation) -> tuple[int, int, int, int]:
    usage = resource_usage(compilation.binary)
    local, ptx = local_memory(usage), compilation.texts["ptx"]
    # Without local memory nothing is spilled, so the tools need not run, which would take a second.
    moved = spill_traffic(compilation.assembled.output) if local else 0
    spilled = spilled_bytes(local, ptx, moved)
    moves = len(re.findall(r"\b(?:STL|LDL)\b", compilation.sass)) if spilled else 0
    if moved:  # STL and LDL also access arrays; each moves at least four bytes
        moves = min(moves, moved // 4)
    return usage.get("REG", 0), local, spilled, moves


def _amd(compilation: Compilation) -> tuple[int, int, int, int]:
    text = compilation.texts["amdgcn"]

    def number(name: str) -> int:
        match = re.search(rf"\.{name}:\s+(\d+)", text)
        return int(match[1]) if match else 0

    local = number("private_segment_fixed_size")
    # Local memory may contain only arrays; registers were spilled only if the spill counts say so.
    spilled = local if number("vgpr_spill_count") or number("sgpr_spill_count") else 0
    moves = len(re.findall(r"\bscratch_(?:load|store)", text)) if spilled else 0
    return number("vgpr_count"), local, spilled, moves


def occupancy(resources: Resources, limits: Limits) -> Occupancy:
    """Compute how many blocks of a kernel fit on one multiprocessor."""
    warps = resources.warps
    per_warp = resources.registers * resources.threads // max(1, warps)
    per_warp = -(-per_warp // limits.register_unit) * limits.register_unit
    by_registers = limits.registers // per_warp if per_warp else limits.warps
    allowed = {
        "registers": by_registers * limits.simds // warps,
        "shared memory": limits.shared // max(1, resources.shared + limits.shared_reserved),
        "warps": limits.warps * limits.simds // warps,
        "blocks": limits.blocks,
    }
    if resources.registers > limits.registers_per_thread:
        allowed["registers"] = 0
    if resources.shared > limits.shared_per_block:
        allowed["shared memory"] = 0
    blocks = min(allowed.values())
    # If several resources allow the same number of blocks, the last one in the list is reported:
    # the limits on warps and blocks are preferred, because they do not depend on the kernel's code.
    limited_by = [name for name, count in allowed.items() if count == blocks][-1]
    return Occupancy(
        blocks=blocks,
        warps=blocks * warps,
        most_warps=limits.warps * limits.simds,
        limited_by=limited_by,
        allowed=allowed,
    )
