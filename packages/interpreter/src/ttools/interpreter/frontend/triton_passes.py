"""The last steps of the front end: Triton's own TTIR passes, and checks of options and kernels.

The list of passes is that of the installed NVIDIA backend. Loop-invariant code motion is never
added, because it converts an invariant load into a masked load without `other`, whose masked-off
lanes are undefined.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ttools.core.errors import UnsupportedError, UsageError
from ttools.core.location import SourceLocation
from ttools.core.triton_versions import run_ttir_passes, source_file
from ttools.interpreter.analysis.unpadded_loads import with_unpadded_loads
from ttools.interpreter.analysis.unused_loads import unused_loads, with_unused_loads
from ttools.interpreter.analysis.unused_masks import with_unused_masks
from ttools.interpreter.frontend.descriptors import mark_descriptors

#: The reported size of a kernel's shared memory in bytes. Kernels use none, but programs that
#: compute the occupancy divide by this size.
REPORTED_SHARED_BYTES = 1024

_KERNEL_NAME = re.compile(r"^\s*tt\.func public @(?:\"([^\"]+)\"|([\w$.-]+))", re.MULTILINE)


class Stages:
    """The stages of one compilation; the last also compares its module to that of the front end."""

    def __init__(self) -> None:
        self._written: str | None = None

    def ttir(self, module: Any, metadata: dict[str, Any]) -> Any:
        """Run Triton's clean-up passes, which also rewrite descriptors and block pointers."""
        self._written = str(module)
        _rewrite(module, self._written)
        return module

    def last(self, module: Any, metadata: dict[str, Any]) -> bytes:
        """Return the text of the module, and set the metadata that Triton reads for each kernel."""
        text = str(module)
        if "!tt.tensordesc" in text:  # a module from a file skips the stage `ttir`
            _rewrite(module, text)
            text = str(module)
        metadata.update(
            name=kernel_name(text),
            shared=REPORTED_SHARED_BYTES,
            tmem_size=0,
            global_scratch_size=0,
            global_scratch_align=1,
            profile_scratch_size=0,
            profile_scratch_align=1,
            tensordesc_meta=[],
        )
        if self._written is not None:
            text = with_unused_loads(text, unused_loads(self._written, text))
            text = with_unpadded_loads(text, self._written)
            text = with_unused_masks(text, self._written)
        return text.encode()


def _rewrite(module: Any, text: str) -> None:
    """Mark the operations that create descriptors, and run Triton's clean-up passes."""
    if "make_tensor_descriptor" in text:
        mark_descriptors(module)
    run_ttir_passes(module)


def kernel_name(ttir: str) -> str:
    """Return the symbol of the public function of a module.

    Raises:
        UsageError: The module has none.
    """
    match = _KERNEL_NAME.search(ttir)
    if match is None:
        raise UsageError("the module has no public function (`tt.func public`) to launch")
    return match[1] or match[2]


def names_kernel(ttir: str) -> bool:
    """Return whether a module has a public function.

    A module in MLIR's generic form is not recognised.
    """
    return _KERNEL_NAME.search(ttir) is not None


def check_options(options: Mapping[str, Any]) -> None:
    """Reject options that every Triton backend rejects.

    Raises:
        UsageError: `num_warps` is not a power of two.
    """
    warps = options.get("num_warps", 4)
    if not isinstance(warps, int) or warps <= 0 or warps & (warps - 1):
        raise UsageError(f"num_warps={warps!r}: must be a power of 2")


def gluon_refused() -> UnsupportedError:
    """Return the error for Gluon kernels, whose layouts and barriers this engine cannot execute."""
    return UnsupportedError(
        "a Gluon kernel",
        help="ttools runs kernels written with @triton.jit; run Gluon kernels on a GPU",
    )


def definition_offset(function: Any) -> tuple[int, int]:
    """Return the offset in lines and columns from a jit function's dedented source to its file."""
    lines = "".join(function.raw_src).splitlines()
    start = next((i for i, line in enumerate(lines) if re.match(r"\s*def\s", line)), 0)
    indent = len(lines[start]) - len(lines[start].lstrip()) if lines else 0
    return function.starting_line_number + start - 1, indent


def location_of(function: Any, node: Any) -> SourceLocation:
    """Return the location of a node of a jit function's syntax tree in the function's file.

    Args:
        node: A node of the tree of the function's dedented source.
    """
    lines, columns = definition_offset(function)
    return SourceLocation(source_file(function), node.lineno + lines, node.col_offset + columns + 1)
