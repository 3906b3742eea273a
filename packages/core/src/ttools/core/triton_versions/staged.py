"""Compilation by Triton's backends, one stage after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StagedCompilation:
    """A kernel after Triton's front end, and the stages that remain.

    Attributes:
        backend: The backend of the target.
        stages: Functions of the remaining stages by name, in the order of compilation. Each
            function takes the result of the previous one, and the metadata.
        module: The module that the front end has written.
        metadata: Options of the compilation; the stages add their results.
    """

    backend: Any
    stages: Mapping[str, Callable[[Any, dict[str, Any]], Any]]
    module: Any
    metadata: dict[str, Any]


def begin_compilation(source: Any, target: Any, options: Mapping[str, Any]) -> StagedCompilation:
    """Run Triton's front end, and return the remaining stages.

    Unlike `triton.compile`, this leaves all frames in the tracebacks of errors, and uses no cache.

    Args:
        source: The kernel as Triton's `ASTSource`.
        target: The GPU as Triton's `GPUTarget`.
        options: Launch options that the backend supports.

    Raises:
        Exception: Any error of the front end.
    """
    from triton._C.libtriton import ir
    from triton.compiler import make_backend

    backend = make_backend(target)
    parsed = backend.parse_options({**dict(options), **source.parse_options()})
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, source.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions = backend.get_codegen_implementation(parsed)
    module = source.make_ir(target, parsed, functions, backend.get_module_map(), context)
    return StagedCompilation(backend, stages, module, {"target": target, **parsed.__dict__})
