"""Triton's own instrumentation as tools: which modes there are, what each finds and needs.

Triton compiles the checks into the kernel, so the program runs without compute-sanitizer. Owns the
table, the environment of each mode and the sentences for what is missing. Must not know what a
mode prints.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ttools.core.environment import installed_version
from ttools.core.errors import TtoolsError, UsageError
from ttools.sanitizer.gpu.tools import GpuTool

Vendor = Literal["nvidia", "amd"]

_MODE = "TRITON_INSTRUMENTATION_MODE"
_WAITS = {"CUDA_LAUNCH_BLOCKING": "1", "HIP_LAUNCH_BLOCKING": "1", "AMD_SERIALIZE_KERNEL": "3"}
_FPSAN = (
    "`fpsan` reports nothing by itself: it makes results of floating-point operations such that "
    "equal formulas give equal bits, for a test of yours to compare; set "
    "TRITON_INSTRUMENTATION_MODE=fpsan there"
)
_RUNTIME = "libclang_rt.asan-x86_64.so"
#: Folders of ROCm's compiler with the host's part of the address sanitizer.
_RUNTIMES = (f"lib/llvm/lib/clang/*/lib/linux/{_RUNTIME}", f"llvm/lib/clang/*/lib/linux/{_RUNTIME}")


@dataclass(frozen=True)
class TritonTool(GpuTool):
    """One mode of Triton's instrumentation.

    Attributes:
        variables: of the environment that switch it on.
        vendors: on whose GPUs Triton has it.
    """

    variables: tuple[tuple[str, str], ...] = ()
    vendors: tuple[Vendor, ...] = ("nvidia",)

    @property
    def title(self) -> str:
        return f"Triton's {self.name}"

    def environment(self) -> dict[str, str]:
        """What it adds to the environment of the program.

        Raises:
            TtoolsError: something it needs is not on this machine.
        """
        added = {**_WAITS, **dict(self.variables)}
        if self.name == "asan":
            before = os.environ.get("LD_PRELOAD")
            added["LD_PRELOAD"] = ":".join(filter(None, [str(_asan_runtime()), before]))
        return added


MODES: Mapping[str, TritonTool] = {
    tool.name: tool
    for tool in (
        TritonTool("consan", "racecheck", (), ((_MODE, "consan"),), ("nvidia", "amd")),
        TritonTool("gsan", "racecheck", (), ((_MODE, "gsan"),)),
        TritonTool("iisan", "memcheck", (), ((_MODE, "iisan"),)),
        TritonTool(
            "asan",
            "memcheck",
            (),
            (
                ("TRITON_ENABLE_ASAN", "1"),
                # Compiled code wants GPUs that retry page faults, and these want to be asked.
                ("HSA_XNACK", "1"),
                # Accesses through buffer instructions are cut off at their end without a word.
                ("AMDGCN_USE_BUFFER_OPS", "0"),
                # Caches of memory hide accesses beyond what was asked for.
                ("HSA_DISABLE_FRAGMENT_ALLOCATOR", "1"),
                ("AMD_PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),
                ("PYTORCH_NO_HIP_MEMORY_CACHING", "1"),
                # Python does not free all that it allocates before it ends.
                ("ASAN_OPTIONS", "detect_leaks=0:alloc_dealloc_mismatch=0"),
            ),
            ("amd",),
        ),
    )
}


def parse_modes(names: Iterable[str]) -> tuple[TritonTool, ...]:
    """Modes by name or comma-separated list, in the order of the table.

    Raises:
        UsageError: there is no such mode, or none that finds anything.
    """
    chosen = {part.strip().lower() for text in names for part in text.split(",")} - {""}
    if "fpsan" in chosen:
        raise UsageError(_FPSAN)
    for name in sorted(chosen - set(MODES)):
        raise UsageError(f"there is no instrumentation `{name}`; choose from {', '.join(MODES)}")
    return tuple(tool for name, tool in MODES.items() if name in chosen)


def vendor() -> Vendor:
    """Whose GPUs the installed torch is built for."""
    return "amd" if "+rocm" in (installed_version("torch") or "") else "nvidia"


def require_modes(tools: Iterable[TritonTool], whose: Vendor) -> None:
    """Refuses modes that the installed Triton does not have for GPUs of a vendor.

    Raises:
        TtoolsError: naming the first.
    """
    from ttools.core.triton_versions import installed_triton, instrumentation_modes

    names = {"nvidia": "NVIDIA", "amd": "AMD"}
    installed = instrumentation_modes()
    for tool in tools:
        if tool.name not in installed:
            raise TtoolsError(f"triton {installed_triton()} has no `{tool.name}`")
        if whose not in tool.vendors:
            raise TtoolsError(
                f"Triton has `{tool.name}` for GPUs of {names[tool.vendors[0]]} only, and torch "
                f"is built for those of {names[whose]}"
            )


def _asan_runtime() -> Path:
    """The host's part of ROCm's address sanitizer, which the program has to begin with."""
    found = next((path for path in _asan_candidates() if path.is_file()), None)
    if found is None:
        raise TtoolsError(
            f"AMD's address sanitizer needs {_RUNTIME} of ROCm's compiler, which is not on this "
            "machine: install ROCm with its ASAN packages, or set ROCM_PATH"
        )
    return found


def _asan_candidates() -> Iterator[Path]:
    home = os.environ.get("ROCM_PATH")
    homes = [Path(home)] if home else sorted(Path("/opt").glob("rocm*"))
    for folder in homes:
        for pattern in _RUNTIMES:
            yield from sorted(folder.glob(pattern))
