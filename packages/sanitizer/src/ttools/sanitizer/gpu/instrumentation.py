"""The modes of Triton's own instrumentation, as tools.

In these modes Triton compiles checks into the kernel, so the program runs without
compute-sanitizer. A table lists, for each mode, the corresponding check, the environment variables
that enable the mode, and the GPUs that support it.
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
    "`fpsan` reports nothing by itself: it changes floating-point operations so that equal "
    "formulas give equal bits, which a test can compare; set TRITON_INSTRUMENTATION_MODE=fpsan "
    "for that test"
)
_RUNTIME = "libclang_rt.asan-x86_64.so"
#: Patterns for the path of the address sanitizer's host runtime, relative to ROCm's folder.
_RUNTIMES = (f"lib/llvm/lib/clang/*/lib/linux/{_RUNTIME}", f"llvm/lib/clang/*/lib/linux/{_RUNTIME}")


@dataclass(frozen=True)
class TritonTool(GpuTool):
    """One mode of Triton's instrumentation.

    Attributes:
        variables: Names and values of the environment variables that enable the mode.
        vendors: Vendors of GPUs for which Triton supports the mode.
    """

    variables: tuple[tuple[str, str], ...] = ()
    vendors: tuple[Vendor, ...] = ("nvidia",)

    @property
    def title(self) -> str:
        """Name of the tool in messages."""
        return f"Triton's {self.name}"

    def environment(self) -> dict[str, str]:
        """Return the variables that the mode adds to the environment of the program.

        Raises:
            TtoolsError: The runtime of AMD's address sanitizer is not on this machine.
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
                # The instrumented code needs page-fault retry (XNACK), which is off by default.
                ("HSA_XNACK", "1"),
                # Buffer instructions drop accesses beyond their end without an error.
                ("AMDGCN_USE_BUFFER_OPS", "0"),
                # Allocators that split large blocks hide accesses beyond an allocation.
                ("HSA_DISABLE_FRAGMENT_ALLOCATOR", "1"),
                ("AMD_PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),
                ("PYTORCH_NO_HIP_MEMORY_CACHING", "1"),
                # Python does not free all of its memory before it exits.
                ("ASAN_OPTIONS", "detect_leaks=0:alloc_dealloc_mismatch=0"),
            ),
            ("amd",),
        ),
    )
}


def parse_modes(names: Iterable[str]) -> tuple[TritonTool, ...]:
    """Return modes by their names, in the order of the table.

    Args:
        names: Names of modes; each text may be a comma-separated list.

    Raises:
        UsageError: There is no such mode, or it is `fpsan`, which reports nothing by itself.
    """
    chosen = {part.strip().lower() for text in names for part in text.split(",")} - {""}
    if "fpsan" in chosen:
        raise UsageError(_FPSAN)
    for name in sorted(chosen - set(MODES)):
        raise UsageError(f"there is no instrumentation `{name}`; choose from {', '.join(MODES)}")
    return tuple(tool for name, tool in MODES.items() if name in chosen)


def vendor() -> Vendor:
    """Return the vendor of the GPUs that the installed torch is built for."""
    return "amd" if "+rocm" in (installed_version("torch") or "") else "nvidia"


def require_modes(tools: Iterable[TritonTool], whose: Vendor) -> None:
    """Raise an error if the installed Triton lacks one of the modes for GPUs of a vendor.

    Raises:
        TtoolsError: A mode is missing; the message names the first one.
    """
    from ttools.core.triton_versions import installed_triton, instrumentation_modes

    names = {"nvidia": "NVIDIA", "amd": "AMD"}
    installed = instrumentation_modes()
    for tool in tools:
        if tool.name not in installed:
            raise TtoolsError(f"triton {installed_triton()} has no `{tool.name}`")
        if whose not in tool.vendors:
            raise TtoolsError(
                f"Triton has `{tool.name}` only for {names[tool.vendors[0]]} GPUs, but torch is "
                f"built for {names[whose]} GPUs"
            )


def _asan_runtime() -> Path:
    """Return the host runtime of ROCm's address sanitizer, which the program has to preload."""
    runtime = next((path for path in _asan_candidates() if path.is_file()), None)
    if runtime is None:
        raise TtoolsError(
            f"AMD's address sanitizer needs {_RUNTIME} of ROCm's compiler, which is not on this "
            "machine: install ROCm with its ASAN packages, or set ROCM_PATH"
        )
    return runtime


def _asan_candidates() -> Iterator[Path]:
    """Yield paths of the runtime from the folder `ROCM_PATH` or, if unset, from those in `/opt`."""
    home = os.environ.get("ROCM_PATH")
    homes = [Path(home)] if home else sorted(Path("/opt").glob("rocm*"))
    for folder in homes:
        for pattern in _RUNTIMES:
            yield from sorted(folder.glob(pattern))
