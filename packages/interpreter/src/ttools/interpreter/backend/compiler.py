"""The compiler half of the Triton plugin: options, code generation callbacks, TTIR passes.

Imported by `import triton`, so its top imports only the standard library and Triton. Must not
know how the TTIR is lowered to native code: the last stage hands on the module's text.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from triton.backends.compiler import BaseBackend, GPUTarget


@dataclass(frozen=True)
class CPUOptions:
    """Launch options."""

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3


class CPUBackend(BaseBackend):  # type: ignore[misc]
    """Compiles for the target `cpu`."""

    binary_ext = "cpubin"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether this backend compiles for `target`."""
        return bool(target.backend == "cpu")

    def hash(self) -> str:
        """Part of the key of Triton's own cache."""
        return "cpu"

    def parse_options(self, options: dict[str, Any]) -> CPUOptions:
        """Launch options from keyword arguments."""
        return CPUOptions()

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any = None) -> None:
        """Registers the passes."""

    def load_dialects(self, context: Any) -> None:
        """Nothing beyond Triton's own dialects."""

    def get_module_map(self) -> dict[str, ModuleType]:
        """Where `triton.language.extra.libdevice` leads."""
        from triton.language.extra.cuda import libdevice

        return {"triton.language.extra.libdevice": libdevice}
