"""Architectures of GPUs by name, with the limits of their multiprocessors.

Sources: NVIDIA's CUDA C++ Programming Guide, table "Technical Specifications per Compute
Capability"; AMD's CDNA3 and CDNA4 instruction set guides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from ttools.core.errors import UsageError, did_you_mean

#: Maximum threads per block on all NVIDIA and AMD GPUs (the table named above; HIP's
#: `hipDeviceProp_t::maxThreadsPerBlock`).
MAX_THREADS = 1024
#: Columns of tensor memory from sm_100 on; Triton checks the same limit in `_init_handles`.
MAX_TENSOR_MEMORY = 512
#: Documents from which the limits in this module are taken, by Triton's name of the backend.
LIMIT_SOURCES = {
    "cuda": "NVIDIA: CUDA C++ Programming Guide, table Technical Specifications per Compute "
    "Capability",
    "hip": "AMD: CDNA3 and CDNA4 instruction set guides; HIP's hipDeviceProp_t",
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The resources of one multiprocessor (or compute unit).

    Attributes:
        simds: Number of parts, each with its own registers and warps.
        registers: Number of 32-bit registers per part.
        registers_per_thread: Maximum number of registers per thread.
        register_unit: Granularity of register allocation for a warp.
        warps: Maximum number of resident warps per part.
        blocks: Maximum number of resident blocks.
        shared: Bytes of shared memory for all blocks together.
        shared_per_block: Maximum number of bytes of shared memory per block.
        shared_reserved: Bytes that the system reserves in each block.
        unified: Bytes of shared memory and L1 cache together; 0 if they are separate.
    """

    simds: int = 4
    registers: int = 16384
    registers_per_thread: int = 255
    register_unit: int = 256
    warps: int
    blocks: int
    shared: int
    shared_per_block: int
    shared_reserved: int = 1024
    unified: int = 0


def _nvidia(shared: int, warps: int, blocks: int) -> Limits:
    kib = 1024
    return Limits(
        warps=warps // 4,
        blocks=blocks,
        shared=shared * kib,
        shared_per_block=(shared - 1) * kib,
        unified=(shared + 28) * kib,
    )


def _cdna(shared: int) -> Limits:
    # A wave has up to 512 vector registers of 64 lanes, allocated in units of eight.
    return Limits(
        registers=512 * 64,
        registers_per_thread=512,
        register_unit=8 * 64,
        warps=8,
        blocks=16,
        shared=shared * 1024,
        shared_per_block=shared * 1024,
        shared_reserved=0,
    )


#: Architectures by name; None if Triton can compile for it but its limits are unknown.
ARCHITECTURES: dict[str, Limits | None] = {
    "sm_75": Limits(
        warps=8,
        blocks=16,
        shared=65536,
        shared_per_block=65536,
        shared_reserved=0,
        unified=96 * 1024,
    ),
    "sm_80": _nvidia(shared=164, warps=64, blocks=32),
    "sm_86": _nvidia(shared=100, warps=48, blocks=16),
    "sm_87": _nvidia(shared=164, warps=48, blocks=16),
    "sm_89": _nvidia(shared=100, warps=48, blocks=24),
    "sm_90": _nvidia(shared=228, warps=64, blocks=32),
    "sm_100": _nvidia(shared=228, warps=64, blocks=32),
    "sm_103": _nvidia(shared=228, warps=64, blocks=32),
    "sm_120": _nvidia(shared=100, warps=48, blocks=24),
    "sm_121": _nvidia(shared=100, warps=48, blocks=24),
    "gfx90a": _cdna(shared=64),
    "gfx942": _cdna(shared=64),
    "gfx950": _cdna(shared=160),
    "gfx1100": None,
    "gfx1151": None,
    "gfx1200": None,
    "gfx1201": None,
    "gfx1250": None,
}


@dataclass(frozen=True)
class Target:
    """An architecture to compile for.

    Attributes:
        name: Architecture, such as `sm_90` or `gfx942`.
        backend: Triton's name of the backend.
        threads: Number of threads per warp.
    """

    name: str
    backend: Literal["cuda", "hip"]
    threads: int

    @property
    def limits(self) -> Limits | None:
        """Return the limits of its multiprocessors; None if they are unknown."""
        return ARCHITECTURES[self.name]

    def gpu_target(self) -> Any:
        """Return the `GPUTarget` of Triton's compiler."""
        from triton.backends.compiler import GPUTarget

        arch = int(self.name.removeprefix("sm_")) if self.backend == "cuda" else self.name
        return GPUTarget(self.backend, arch, self.threads)


def find_target(text: str) -> Target | None:
    """Return a target by name: `sm_90`, `sm90`, `90`, `cuda:90`, `gfx942`, `hip:gfx942`."""
    word = re.sub(r"^(cuda|hip):", "", text.strip().lower())
    word = re.sub(r"^(sm_?)?(\d+)a?$", r"sm_\2", word)
    if word not in ARCHITECTURES:
        return None
    if word.startswith("sm_"):
        return Target(word, "cuda", 32)
    return Target(word, "hip", 64 if word.startswith("gfx9") else 32)


def read_target(text: str) -> Target:
    """Return a target by name, see `find_target`.

    Raises:
        UsageError: The name is unknown; the message suggests the most similar ones.
    """
    target = find_target(text)
    if target is None:
        hint = did_you_mean(text.strip().lower(), ARCHITECTURES, 3)
        raise UsageError(
            f"there is no target `{text}`{hint or '; targets are ' + ', '.join(ARCHITECTURES)}"
        )
    return target


def target_of_machine() -> Target | None:
    """Return the first GPU of this machine; None if there is none or it is not in the table."""
    import torch

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(0)
    if torch.version.hip:  # in torch for CUDA, gcnArchName is the name of the product
        name = str(properties.gcnArchName).split(":")[0]
    else:
        name = f"sm_{properties.major}{properties.minor}"
    return read_target(name) if name in ARCHITECTURES else None
