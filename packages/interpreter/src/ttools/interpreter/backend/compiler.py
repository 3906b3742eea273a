"""The compiler half of the Triton plugin: callbacks of the front end, and compilation stages.

`import triton` imports this module, so at its top it imports only the standard library, Triton and
the launch options. The last stage returns the text of the TTIR module; the launcher compiles it to
native code when the arguments of a launch are known.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from types import ModuleType
from typing import Any

from triton.backends.compiler import BaseBackend, GPUTarget

from ttools.core.environment import installed_version
from ttools.interpreter.frontend.options import (
    BACKEND_NAME,
    CPUOptions,
    codegen_implementation,
    parse_options,
)


@lru_cache(maxsize=1)
def _versions() -> str:
    """Return the versions, besides Triton's, on which the result of the last stage depends.

    Increment the number at the end of the text when this result changes.
    """
    version = installed_version("ttools-interpreter")
    return f"ttools-{version}-4" if version else "ttools-4"  # a source tree is not installed


class CPUBackend(BaseBackend):  # type: ignore[misc]
    """Compiles kernels for the target `cpu` down to TTIR without tensor descriptors."""

    binary_ext = "cputtir"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Return whether this backend compiles for `target`."""
        return bool(target.backend == BACKEND_NAME)

    def hash(self) -> str:
        """Return this backend's part of the key of Triton's own cache."""
        return _versions()

    def parse_options(self, opts: dict[str, Any]) -> CPUOptions:
        """Return the launch options of a kernel.

        Args:
            opts: The keyword arguments of the launch that are not parameters of the kernel.

        Raises:
            UsageError: An option has an invalid value.
            UnsupportedError: The kernel contains a construct that only Python can run.
        """
        from ttools.core.triton_versions import kernel_being_compiled, launched_function
        from ttools.interpreter.backend.engine import choose_engine, note_assertions

        frame = sys._getframe(1)
        source = kernel_being_compiled(frame)
        if source is None:
            return parse_options(opts)
        launched = launched_function(frame)
        choose_engine(source, launched, codegen_implementation())
        if not opts.get("debug"):
            note_assertions(source, launched)
        return parse_options(opts, source.files)

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        """Return the part of the kernel's metadata that launch hooks receive."""
        return (metadata.num_warps, metadata.num_ctas, metadata.shared)

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        """Return the functions of the code generator that the backend supplies."""
        return codegen_implementation()

    def get_module_map(self) -> dict[str, ModuleType]:
        """Return the module that implements `triton.language.extra.libdevice`."""
        from ttools.core.triton_versions import libdevice_module

        return {"triton.language.extra.libdevice": libdevice_module()}

    def load_dialects(self, ctx: Any) -> None:
        """Load no dialects beyond those of Triton."""

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any = None) -> None:
        """Register the stage `ttir` and the last stage, whose result is passed to the launcher."""
        from triton import knobs

        from ttools.interpreter.frontend.triton_passes import Stages, gluon_refused

        if getattr(language, "name", "TRITON") != "TRITON":
            raise gluon_refused()
        ours = Stages()
        stages["ttir"] = ours.ttir
        stages[self.binary_ext] = ours.last
        hook = knobs.runtime.add_stages_inspection_hook
        if hook is not None:
            hook(self, stages, options, language, None)
