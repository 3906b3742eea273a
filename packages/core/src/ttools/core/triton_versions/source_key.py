"""Cache keys that distinguish equal kernels in different files.

Triton's cache key contains a kernel's source text and first line number, but not the path of its
file, whereas the cached results contain locations with paths. If a second file contains the same
text (a copy, a worktree, another environment), its kernel would therefore get the locations of the
first file.
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
    """Return the source object for `triton.compile`; its cache key contains the kernel's file."""
    return _located_class()(function, dict(signature), dict(constants), dict(hints))


def keep_files_apart(patches: Patches) -> None:
    """Make Triton include a kernel's source file in its cache key, for all Python kernels.

    Args:
        patches: The collection to which the replacement is added, and which also undoes it.
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
