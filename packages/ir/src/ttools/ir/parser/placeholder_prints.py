"""Marks in TTIR, which preserve information that a pass of Triton removes.

Triton rewrites tensor descriptors to pointers. `frontend.descriptors` therefore inserts a
`tt.print` operation as a mark wherever a descriptor is created. This module replaces the marks by
`ttools.descriptor` operations.
"""

from __future__ import annotations

from ttools.ir import Module

#: Prefix of the text of a `tt.print` that marks the creation of a descriptor.
DESCRIPTOR_MARK = " ttools.descriptor "


def take_marks(module: Module) -> None:
    """Replace the `tt.print` operations that mark descriptors by `ttools.descriptor`."""
    for op in module.walk():
        prefix = op.attributes.get("prefix")
        if isinstance(prefix, str) and prefix.startswith(DESCRIPTOR_MARK):
            *shape, element = prefix.removeprefix(DESCRIPTOR_MARK).split("x")
            op.rename("ttools.descriptor")
            op.attributes = {"block": tuple(map(int, shape)), "element": element}
