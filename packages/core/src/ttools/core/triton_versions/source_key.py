"""Keys of Triton's cache that tell apart the files which hold the same kernel.

Triton's key of a source has its text and first line, but no path, while what is cached has
locations: whoever compiles the same text in another file (a copy, a worktree, a second environment)
would get those of the first. Must not know what is compiled for which target.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from ttools.core.patches import Patches
from ttools.core.triton_versions.front_end import compiled_source


def kernel_ast_source(
    function: Any, signature: Mapping[str, Any], constants: Mapping[Any, Any], hints: Any
) -> Any:
    """What `triton.compile` takes of a Python kernel; what is cached of it is of its own files."""
    return _located_class()(function, dict(signature), dict(constants), dict(hints))


def keep_files_apart(patches: Patches) -> None:
    """Has everything that Triton compiles of Python kernels cached by file too.

    Args:
        patches: undo it.
    """
    from triton.compiler import ASTSource

    patches.wrap(ASTSource, "hash", _with_files)


@functools.lru_cache(maxsize=1)
def _located_class() -> type:
    from triton.compiler import ASTSource

    return type("ASTSource", (ASTSource,), {"hash": _with_files(ASTSource.hash)})


def _with_files(original: Callable[[Any], str]) -> Callable[[Any], str]:
    def hash(self: Any) -> str:
        files = "\n".join(compiled_source(self.fn, self.constants).files)
        return hashlib.sha256(f"{original(self)}\n{files}".encode()).hexdigest()

    return hash
