"""The launch options of the Triton plugin, and properties of the backend for Triton's front end.

`import triton` imports this module, so its module-level imports are limited to the standard
library.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

#: The name of this backend, its target and its driver.
BACKEND_NAME = "cpu"

_FP8_TYPES = ("fp8e4b15", "fp8e4b8", "fp8e4nv", "fp8e5", "fp8e5b16")


@dataclass(frozen=True)
class CPUOptions:
    """The launch options of Triton's NVIDIA and AMD backends in versions 3.6 to 3.9.

    Kernels and autotune configurations for GPUs may pass any of them. Options that control code
    generation for GPUs have no effect here.

    Attributes:
        source_files: Source files of the kernel and of the functions that it calls. The cached TTIR
            contains locations in these files, so Triton's cache key must contain their names, and
            it does because they are among the options.
    """

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    warp_size: int = 32
    cluster_dims: tuple[int, ...] = (1, 1, 1)
    maxnreg: int | None = None
    ptx_version: int | None = None
    ptx_options: str | None = None
    ir_override: str | None = None
    enable_fp_fusion: bool = True
    sched4reg: bool = False
    enable_reflect_ftz: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    clc: bool = False
    min_shared_mem: int | None = None
    supported_fp8_dtypes: tuple[str, ...] = _FP8_TYPES
    deprecated_fp8_dtypes: tuple[str, ...] = ()
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    allow_fp8e4nv: bool = True
    allow_fp8e4b15: bool = True
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: tuple[str, ...] = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple[tuple[str, str], ...] = ()
    debug: bool = False
    sanitize_overflow: bool = True
    arch: str | None = None
    backend_name: str = BACKEND_NAME
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False
    waves_per_eu: int = 0
    matrix_instr_nonkdim: int = 0
    kpack: int = 1
    allow_flush_denorm: bool = False
    schedule_hint: str = ""
    instruction_sched_variant: str = ""
    llvm_fn_attrs: str = ""
    wgp_cu_mode: str = "wgp"
    source_files: tuple[str, ...] = ()

    def hash(self) -> str:
        """Return the options' part of the key of Triton's own cache."""
        key = "_".join(f"{name}-{value}" for name, value in sorted(self.__dict__.items()))
        return hashlib.sha256(key.encode()).hexdigest()


def parse_options(given: Mapping[str, Any], source_files: tuple[str, ...] = ()) -> CPUOptions:
    """Return the launch options among keyword arguments.

    Args:
        given: The keyword arguments of a launch that are not parameters of the kernel. Unknown
            names and values of None are ignored.
        source_files: Paths of the files with the kernel's source.

    Raises:
        UsageError: An option has a value that no backend takes.
    """
    from ttools.core.triton_versions import fp_fusion
    from ttools.interpreter.frontend.triton_passes import check_options

    values = {f.name: given[f.name] for f in fields(CPUOptions) if given.get(f.name) is not None}
    values["enable_fp_fusion"] = fp_fusion(values.get("enable_fp_fusion"))
    values["extern_libs"] = tuple(dict(values.get("extern_libs", ())).items())
    if source_files:
        values["source_files"] = source_files
    check_options(values)
    # `preload` and the cache store tuples as JSON, in which they become lists.
    tuples: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return CPUOptions(**tuples)


def codegen_implementation() -> dict[str, Any]:
    """Return the functions that Triton's front end expects from the backend, by name."""
    from ttools.interpreter.frontend.fp8e4b15 import convert_fp8e4b15

    return {
        "convert_custom_types": convert_fp8e4b15,
        "min_dot_size": lambda lhs, rhs: (1, 1, 1),
    }
