"""Lowering of TTGIR to LLVM IR, without generating machine code."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def lower_ttgir(ttgir: str, target: Any, options: Mapping[str, Any]) -> str:
    """Return the LLVM IR that Triton generates for a module in TTGIR.

    Args:
        ttgir: Text of the module.
        target: The GPU as Triton's `GPUTarget`.
        options: Launch options that the backend supports.

    Raises:
        Exception: Any error of the compiler.
    """
    from triton._C.libtriton import ir
    from triton.compiler import make_backend

    backend = make_backend(target)
    parsed = backend.parse_options(dict(options))
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, _language())
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.ttgir"
        path.write_text(ttgir, "utf-8")
        module = ir.parse_mlir_module(str(path), context)
    module.context = context
    metadata: dict[str, Any] = {"target": target, **parsed.__dict__}
    return str(stages["llir"](module, metadata))


def _language() -> Any:
    from triton.backends.compiler import Language

    return Language.TRITON
