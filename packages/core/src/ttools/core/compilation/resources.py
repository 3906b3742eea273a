"""What a compiled kernel takes of a multiprocessor, and how many blocks fit on one.

Registers and stacks are the assembler's word, shared memory Triton's. Occupancy follows from the
limits of the target. Must not know how any of it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ttools.core.compilation.disassembly import resource_usage
from ttools.core.compilation.stages import Compilation
from ttools.core.gpus.launch_rules import GpuNeeds
from ttools.core.gpus.targets import Limits, Target
from ttools.core.triton_versions import spill_traffic


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Static resources of a kernel.

    Attributes:
        registers: of a thread; vector registers on AMD's.
        spilled: Bytes of each thread that did not fit into registers.
        spill_instructions: Instructions that move those; 0 where nothing is spilled.
        local: Bytes of local memory of each thread: what is spilled, and arrays that the code
            indexes, such as the one in the argument reduction of `sin` and `cos`.
        shared: bytes of shared memory of a block.
        warps: of a block.
        threads: of a block.
    """

    registers: int
    spilled: int
    spill_instructions: int = 0
    local: int = 0
    shared: int
    warps: int
    threads: int

    def needs(self, *, cluster: int | None = None, tensor_memory: int | None = None) -> GpuNeeds:
        """Return what a launch of the kernel needs, for the table of launch rules.

        Args:
            cluster: Blocks of a cluster.
            tensor_memory: Columns of tensor memory.
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
    """How full a multiprocessor can be with a kernel's blocks.

    Attributes:
        blocks: resident at once; 0 if not even one fits.
        warps: resident at once.
        most_warps: that a multiprocessor holds.
        limited_by: what allows the fewest blocks: `registers`, `shared memory`, `warps`, `blocks`.
        allowed: blocks that each of these allows.
    """

    blocks: int
    warps: int
    most_warps: int
    limited_by: str
    allowed: dict[str, int]

    @property
    def share(self) -> float:
        """Share of the warps that a multiprocessor holds, 0 to 1."""
        return self.warps / self.most_warps


def resources_of(compilation: Compilation) -> Resources:
    """The resources of a compiled kernel.

    Raises:
        TtoolsError: NVIDIA's binary tools are not there.
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


def threads_of(ptx: str, warps: int, target: Target) -> int:
    """Threads of a block: warps that a specialised kernel adds for loads or products count too."""
    asked = re.search(r"\.(?:reqntid|maxntid) (\d+)", ptx)
    return int(asked[1]) if asked else warps * target.threads


def local_memory(usage: Mapping[str, int]) -> int:
    """Return the bytes of local memory of a thread, from `resource_usage`."""
    return max(usage.get("STACK", 0), usage.get("LOCAL", 0))


def spilled_bytes(local: int, ptx: str, moved: int | None = None) -> int:
    """Return how much of a thread's local memory holds spilled registers.

    The rest are arrays that the PTX declares. Triton 3.6 compiles the argument reduction of `sin`
    with such an array of 28 bytes, for which ptxas reserves 32.

    Args:
        local: Bytes of local memory of a thread.
        ptx: What was assembled.
        moved: Bytes that spill stores and loads move, as ptxas says; None if that is unknown.
    """
    if not local or moved == 0:
        return 0
    arrays = sum(-(-int(size) // _FRAME_UNIT) * _FRAME_UNIT for size in _LOCAL_ARRAY.findall(ptx))
    # ptxas keeps some arrays in registers; then all of the frame is spilled.
    return local if moved and local <= arrays else max(0, local - arrays)


#: ptxas reserves local memory in multiples of so many bytes.
_FRAME_UNIT = 16
_LOCAL_ARRAY = re.compile(r"^\s*\.local\s+(?:\.align\s+\d+\s+)?\.b8\s+\S+\[(\d+)\]", re.MULTILINE)


def _nvidia(compilation: Compilation) -> tuple[int, int, int, int]:
    usage = resource_usage(compilation.binary)
    local, ptx = local_memory(usage), compilation.texts["ptx"]
    # Without local memory nothing is spilled, and the assembler and the disassembler take a second.
    moved = spill_traffic(compilation.assembled.output) if local else 0
    spilled = spilled_bytes(local, ptx, moved)
    moves = len(re.findall(r"\b(?:STL|LDL)\b", compilation.sass)) if spilled else 0
    if moved:  # accesses to arrays are such instructions, too; one moves at least four bytes
        moves = min(moves, moved // 4)
    return usage.get("REG", 0), local, spilled, moves


def _amd(compilation: Compilation) -> tuple[int, int, int, int]:
    text = compilation.texts["amdgcn"]

    def number(name: str) -> int:
        found = re.search(rf"\.{name}:\s+(\d+)", text)
        return int(found[1]) if found else 0

    local = number("private_segment_fixed_size")
    # The compiler says how many registers it spilled; its local memory holds arrays, too.
    spilled = local if number("vgpr_spill_count") or number("sgpr_spill_count") else 0
    moves = len(re.findall(r"\bscratch_(?:load|store)", text)) if spilled else 0
    return number("vgpr_count"), local, spilled, moves


def occupancy(resources: Resources, limits: Limits) -> Occupancy:
    """How many blocks of a kernel fit on one multiprocessor."""
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
    # Of equals the one named last: warps and blocks are no fault of the kernel's.
    limited_by = [name for name, count in allowed.items() if count == blocks][-1]
    return Occupancy(
        blocks=blocks,
        warps=blocks * warps,
        most_warps=limits.warps * limits.simds,
        limited_by=limited_by,
        allowed=allowed,
    )
