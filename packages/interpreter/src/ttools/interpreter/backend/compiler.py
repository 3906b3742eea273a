"""The compiler half of the Triton plugin: launch options, callbacks of the front end, stages.

Imported by `import triton`, so its top imports only the standard library and Triton. Must not
know how TTIR is lowered to native code: its last stage hands on the module's text, and the
launcher compiles that when it knows the launch's facts.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, fields
from functools import lru_cache
from types import ModuleType
from typing import Any

from triton.backends.compiler import BaseBackend, GPUTarget

#: The name of this backend, its target and its driver.
BACKEND_NAME = "cpu"

_FP8_TYPES = ("fp8e4b15", "fp8e4b8", "fp8e4nv", "fp8e5", "fp8e5b16")


@dataclass(frozen=True)
class CPUOptions:
    """The launch options: every one that Triton's nvidia and amd backends take in 3.6 to 3.9.

    Kernels and autotune configurations written for a GPU pass them all; those that steer a GPU's
    code generation change nothing here.

    Attributes:
        source_files: the files of the kernel and of the functions it calls. Triton's key lacks
            them, and the TTIR in its cache carries locations in the file it was made from.
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
        """Part of the key of Triton's own cache."""
        key = "_".join(f"{name}-{value}" for name, value in sorted(self.__dict__.items()))
        return hashlib.sha256(key.encode()).hexdigest()


@lru_cache(maxsize=1)
def _versions() -> str:
    """What the text of the last stage depends on besides Triton and the source."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"ttools-{version('ttools-interpreter')}-1"
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "ttools-1"


class CPUBackend(BaseBackend):  # type: ignore[misc]
    """Compiles kernels for the target `cpu` down to TTIR without tensor descriptors."""

    binary_ext = "cputtir"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether this backend compiles for `target`."""
        return bool(target.backend == BACKEND_NAME)

    def hash(self) -> str:
        """Part of the key of Triton's own cache."""
        return _versions()

    def parse_options(self, opts: dict[str, Any]) -> CPUOptions:
        """Launch options from the keyword arguments that are not the kernel's.

        Raises:
            UsageError: an option has a value that no backend takes.
            UnsupportedError: the kernel holds something that only CPython can run.
        """
        from ttools.core.triton_versions import (
            fp_fusion,
            kernel_being_compiled,
            launched_function,
        )
        from ttools.interpreter.backend.engine import choose_engine
        from ttools.interpreter.backend.front import check_options

        given = {f.name: opts[f.name] for f in fields(CPUOptions) if opts.get(f.name) is not None}
        given["enable_fp_fusion"] = fp_fusion(given.get("enable_fp_fusion"))
        given["extern_libs"] = tuple(dict(given.get("extern_libs", ())).items())
        frame = sys._getframe(1)
        source = kernel_being_compiled(frame)
        if source is not None:
            choose_engine(source, launched_function(frame), self.get_codegen_implementation(None))
            given["source_files"] = source.files
        check_options(given)
        # Options that went through JSON (`preload`, the cache) have lists for tuples.
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in given.items()
        }
        return CPUOptions(**values)

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        """What launch hooks get of the kernel's metadata."""
        return (metadata.num_warps, metadata.num_ctas, metadata.shared)

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        """What the front end leaves to the backend."""
        from ttools.interpreter.backend.fp8e4b15 import convert_fp8e4b15

        return {
            "convert_custom_types": convert_fp8e4b15,
            "min_dot_size": lambda lhs, rhs: (1, 1, 1),
        }

    def get_module_map(self) -> dict[str, ModuleType]:
        """Where `triton.language.extra.libdevice` leads."""
        from ttools.core.triton_versions import libdevice_module

        return {"triton.language.extra.libdevice": libdevice_module()}

    def load_dialects(self, ctx: Any) -> None:
        """Nothing beyond Triton's own dialects."""

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any = None) -> None:
        """Registers the stages `ttir` and the one that the launcher takes."""
        from triton import knobs

        from ttools.interpreter.backend.front import final_text, make_ttir, refuse_gluon

        refuse_gluon(language)
        stages["ttir"] = lambda module, metadata: make_ttir(module)
        stages[self.binary_ext] = lambda module, metadata: final_text(module, metadata, options)
        hook = knobs.runtime.add_stages_inspection_hook
        if hook is not None:
            hook(self, stages, options, language, None)
