"""Marks in TTIR: prints of ours that stand where something was which Triton rewrites.

Owns what they become once they are read. Who puts them there is `frontend.descriptors`.
"""

from __future__ import annotations

from ttools.ir import Module

#: What a print begins with that stands where a descriptor was made.
DESCRIPTOR_MARK = " ttools.descriptor "


def take_marks(module: Module) -> None:
    """Make `ttools.descriptor` of the prints that mark where descriptors were made."""
    for op in module.walk():
        prefix = op.attributes.get("prefix")
        if isinstance(prefix, str) and prefix.startswith(DESCRIPTOR_MARK):
            *shape, element = prefix.removeprefix(DESCRIPTOR_MARK).split("x")
            op.name = "ttools.descriptor"
            op.attributes = {"block": tuple(map(int, shape)), "element": element}
