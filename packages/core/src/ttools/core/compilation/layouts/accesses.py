"""The layouts of accesses to global memory in TTGIR, which assign elements to threads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from ttools.core.compilation.annotation import annotate
from ttools.core.compilation.layouts.ttgir import Holder, Layout, holder, layouts_of
from ttools.core.compilation.stages import Compilation
from ttools.core.location import SourceLocation

#: An operation that accesses global memory; the name of the matched group is the kind of access.
_ACCESS = re.compile(
    r"""(?:=\ |^\s*)(?:
        (?P<load>tt\.load|tt\.atomic_load|tt\.atomic_poll
           |ttg\.async_copy_global_to_local|amdg\.buffer_load(?:_to_local)?)
      | (?P<store>tt\.store|tt\.atomic_store|amdg\.buffer_store)
      | (?P<atomic>tt\.atomic_rmw|tt\.atomic_cas|amdg\.buffer_atomic_rmw)
    )\b""",
    re.VERBOSE,
)
_TILE = re.compile(r"tensor<((?:\d+x)+)(?:!tt\.ptr<[^<>]*>|[^,<>]+), (#.*)")
_SLICE = re.compile(r"#ttg\.slice<\{dim = (\d+), parent = (.*)\}>")
#: Larger tiles are skipped, because each element's position is computed individually.
_MOST_ELEMENTS = 1 << 15


@dataclass(frozen=True)
class AccessLayout:
    """The tile of an access to global memory, with its layout.

    Attributes:
        kind: `load`, `store` or `atomic`.
        shape: Extents of the tile.
        layout: The layout's text in TTGIR.
        elements: Elements of the tile by thread.
        nested: True inside a loop or a branch.
    """

    kind: str
    location: SourceLocation | None
    shape: tuple[int, ...]
    layout: str
    elements: Holder
    nested: bool


#: Indentation of operations that are not inside a loop or branch.
_INDENT = " " * 4


def access_layouts(compilation: Compilation) -> list[AccessLayout]:
    """Return the accesses to tiles with known layouts, one per kind, location, shape and layout."""
    ttgir = compilation.texts["ttgir"]
    named = {layout.name: layout for layout in layouts_of(ttgir)}
    layouts: dict[tuple[object, ...], AccessLayout] = {}
    for line in annotate("ttgir", ttgir):
        access, tile = _ACCESS.search(line.text), _TILE.search(line.text)
        if not access or not tile:
            continue
        shape = tuple(int(n) for n in tile[1].split("x") if n)
        text = _balanced(tile[2])
        # Software pipelining duplicates the accesses of a loop in the code before the loop, so an
        # access may occur both inside and outside.
        nested = line.text.startswith(_INDENT + " ")
        kind = str(access.lastgroup)
        key = (kind, line.location, shape, text)
        if key in layouts and nested:
            layouts[key] = replace(layouts[key], nested=True)
        elements = None if key in layouts else _held(text, named, shape, compilation.target.threads)
        if elements is not None:
            layouts[key] = AccessLayout(kind, line.location, shape, text, elements, nested)
    return list(layouts.values())


def _balanced(text: str) -> str:
    """Return the part of the text before the unmatched `>` that closes the tensor's type."""
    depth = 0
    for index, letter in enumerate(text):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if depth < 0:
            return text[:index]
    return text


def _held(
    text: str, named: Mapping[str, Layout], shape: tuple[int, ...], threads: int
) -> Holder | None:
    if prod(shape) > _MOST_ELEMENTS:
        return None
    if text in named:
        return holder(named[text], shape, threads)
    sliced = _SLICE.fullmatch(text)
    if not sliced:
        return None
    axis = int(sliced[1])
    parent = _held(sliced[2], named, (*shape[:axis], 1, *shape[axis:]), threads)
    if parent is None:
        return None
    at = parent.at

    def without(register: int, lane: int, warp: int) -> tuple[int, ...]:
        element = at(register, lane, warp)
        return (*element[:axis], *element[axis + 1 :])

    return Holder(shape, parent.registers, parent.lanes, parent.warps, without)
