"""What a compiled kernel takes of a multiprocessor, and how many blocks fit on one.

Registers and stacks are the assembler's word, shared memory Triton's. Occupancy follows from the
limits of the target. Must not know how any of it is shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ttools.core.compilation.disassembly import resource_usage
from ttools.core.compilation.stages import Compilation
from ttools.core.gpus.launch_rules import LaunchNeeds
from ttools.core.gpus.targets import Limits, Target


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Static resources of a kernel.

    Attributes:
        registers: of a thread; vector registers on AMD's.
        spilled: bytes of each thread that did not fit into registers.
        spill_instructions: instructions that move those.
        shared: bytes of shared memory of a block.
        warps: of a block.
        threads: of a block.
    """

    registers: int
    spilled: int
    spill_instructions: int = 0
    shared: int
    warps: int
    threads: int

    def needs(self, *, cluster: int | None = None, tensor_memory: int | None = None) -> LaunchNeeds:
        """Return what a launch of the kernel needs, for the table of launch rules.

        Args:
            cluster: Blocks of a cluster.
            tensor_memory: Columns of tensor memory.
        """
        return LaunchNeeds(
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
    registers, spilled, instructions = read(compilation)
    warps = int(metadata["num_warps"])
    threads = threads_of(compilation.texts.get("ptx", ""), warps, compilation.target)
    return Resources(
        registers=registers,
        spilled=spilled,
        spill_instructions=instructions,
        shared=int(metadata["shared"]),
        warps=threads // compilation.target.threads,
        threads=threads,
    )


def threads_of(ptx: str, warps: int, target: Target) -> int:
    """Threads of a block: warps that a specialised kernel adds for loads or products count too."""
    asked = re.search(r"\.(?:reqntid|maxntid) (\d+)", ptx)
    return int(asked[1]) if asked else warps * target.threads


def _nvidia(compilation: Compilation) -> tuple[int, int, int]:
    usage = resource_usage(compilation.binary)
    spilled = max(usage.get("STACK", 0), usage.get("LOCAL", 0))
    # Without local memory nothing accesses it, and the disassembler takes half a second.
    moves = len(re.findall(r"\b(?:STL|LDL)\b", compilation.sass)) if spilled else 0
    return usage.get("REG", 0), spilled, moves


def _amd(compilation: Compilation) -> tuple[int, int, int]:
    text = compilation.texts["amdgcn"]

    def number(name: str) -> int:
        found = re.search(rf"\.{name}:\s+(\d+)", text)
        return int(found[1]) if found else 0

    moves = len(re.findall(r"\bscratch_(?:load|store)", text))
    return number("vgpr_count"), number("private_segment_fixed_size"), moves


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
