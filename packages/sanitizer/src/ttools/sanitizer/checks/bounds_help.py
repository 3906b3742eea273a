"""Descriptions of out-of-bounds accesses, and advice on how to correct them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from ttools.core.findings.causes import Cause
from ttools.core.findings.edits import similar_mask
from ttools.core.location import source_lines
from ttools.core.reports.report import counted
from ttools.core.spec import ArgumentSpec
from ttools.core.syntax_trees import functions_around, index_text
from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.abi.region import Region
from ttools.interpreter.analysis.unused_masks import UnusedMask
from ttools.sanitizer.causes.local_masks import LocalMask

#: Regular expressions for the functions of `triton.language` and of descriptors, by kind of access.
_CALLED = {"load": "load|gather", "store": "store|scatter", "atomic": r"atomic_\w+"}
_DESCRIPTOR = "a descriptor ignores accesses outside its own shape: give it the tensor's shape"
_BLOCK = "a block pointer checks only its own shape: give it the tensor's shape"
_UNCHECKED = (
    "`boundary_check` leaves out {what}: pass `boundary_check={every}`, and give the block pointer "
    "the tensor's shape"
)
_STRIDES = "`{name}` has strides {strides}: use them, or pass `{name}.contiguous()`"
_NEGATIVE = "also mask accesses before the first element{below}"
_LOADED = "mask the {access} where the index from `{table}` is out of range, or correct `{table}`"
_LOADED_MASKED = (
    "the mask does not keep the index from `{table}` in range: compare it with the bound of this "
    "tensor, or correct `{table}`"
)
_NEGATIVE_LOADED = (
    "`{negative}` is {value}, loaded from `{source}`: a padding entry? Make the {access} only "
    "where `{negative} >= 0`"
)
_FAR_BELOW = "`{negative}` is {value}, loaded from `{source}`: correct the contents of `{table}`"
#: Smaller loaded indices are not taken for padding entries such as -1 or -100.
_LOWEST_PADDING = -(1 << 15)
_REMAINDER = (
    "`{remainder}` is negative because `%` has the sign of its left operand at run time, unlike in "
    "Python: use `(a % n + n) % n`, or keep the left operand from being negative"
)
_NEGATIVE_MASKED = "; the mask does not reject negative indices"
_FORGOTTEN_BESIDE = (
    "combine `{mask}` (line {line}), which is never used, with the mask of this {{access}}"
)
_FORGOTTEN = "pass `{mask}` (line {line}), which is never used, as the mask of this {{access}}"
_UNBOUNDED = "the mask does not bound {}: also compare it with the extent of this tensor"
_SCALAR = (
    "perform the {access} only if its index is in range, for example with `mask={index} < {bound}`"
)
_TILE = (
    "mask the {access} along each axis, for example with "
    "`mask=(rows < m)[:, None] & (columns < n)[None, :]`"
)
#: Maximum length in characters of an index that advice repeats.
_LONGEST_INDEX = 40
_LANES = "mask the {access}, for example with `mask={index} < {bound}`"


@dataclass(frozen=True, kw_only=True)
class Outside:
    """An access outside a storage or outside the elements of a view.

    Attributes:
        site: The operation in the kernel.
        address: Address of the first byte accessed.
        values: Names and values of the variables that the finding shows.
        region: The memory that the access may touch, or None if it is unknown.
        argument: The argument through which this memory was passed.
        table: Name of the argument from which an index was loaded, or None.
        index: Variable that the index was loaded into; empty if there is none.
        element: Number and value of the element of `table` from which the index was loaded, or
            None.
        cause: The mask or index that is wrong, or None if it is unknown.
        forgotten: A mask for the access that the kernel computes and never uses, or None.
        local: The mask of the access if it ignores a part of the address, or None.
        swapped: A sentence on an axis that the mask compares with the extent of another one, or
            an empty text.
        remainders: Names of the variables that the kernel assigns a remainder.
    """

    site: ProbeSite
    address: int
    values: Sequence[tuple[str, object]] = ()
    region: Region | None = None
    argument: ArgumentSpec | None = None
    table: str | None = None
    index: str = ""
    element: tuple[int, int] | None = None
    cause: Cause | None = None
    forgotten: UnusedMask | None = None
    local: LocalMask | None = None
    swapped: str = ""
    remainders: Collection[str] = ()


def distance(address: int, size: int, storage: tuple[int, int]) -> str | None:
    """Describe how far an access of `size` bytes lies outside a storage; None if it lies inside."""
    start, end = storage
    if address == end:
        return "the access begins at its end"
    if address > end:
        return f"the access is {counted(address - end, 'byte')} past its end"
    if address + size > end:
        return f"the access straddles its end by {counted(address + size - end, 'byte')}"
    if address < start:
        return f"the access is {counted(start - address, 'byte')} before its beginning"
    return None


def bounds_help(outside: Outside) -> str:
    """Return one sentence of advice on an access outside a storage."""
    return _filled(_template(outside), outside)


def view_help(outside: Outside) -> str | None:
    """Return advice on an access outside the elements of a view; None if the cause is unknown."""
    if _is_descriptor(outside.site):
        return None
    template = _named_mask(outside) or _negative_index(outside)
    if template is None and outside.cause is not None and outside.cause.kind == "mask":
        return _wide_mask_help(outside.cause, "view")
    if template is None and _negative(outside):
        template = _NEGATIVE
    return None if template is None else _filled(template, outside)


def _filled(template: str, outside: Outside) -> str:
    """Return the text of a template with the names and values of an access."""
    site, argument = outside.site, outside.argument
    index, negative = _index_name(site), _negative(outside)
    if outside.cause is not None and outside.cause.kind == "index" and site.shape:
        index = outside.cause.name or index
    return template.format(
        access=site.kind,
        index=index,
        bound="size" if "n" in re.findall(r"\w+", index) else "n",
        negative=outside.index or "index",
        remainder=_negative(outside, outside.remainders),
        value=_loaded(outside),
        source=f"{outside.table}[{outside.element[0]}]" if outside.element else outside.table,
        below=f", for example with `{negative} >= 0`"
        if negative
        else ": an index is negative there",
        table=outside.table,
        name=argument.name if argument else "",
        strides=_tuple(argument.tensor.strides) if argument and argument.tensor else "",
    )


def _template(outside: Outside) -> str:
    site, region = outside.site, outside.region
    if _is_descriptor(site):
        return _DESCRIPTOR
    if (axes := _checked_axes(site)) is not None:
        return _unchecked(site, axes)
    if (mask := _named_mask(outside)) is not None:
        return mask
    if region is not None and _is_inside_if_dense(outside, region):
        return _STRIDES
    if (negative := _negative_index(outside)) is not None:
        return negative
    if outside.table is not None and not site.masked:
        return _LOADED
    if _is_before(outside):
        return _NEGATIVE
    if site.masked:
        return _masked(outside.cause) if outside.table is None else _LOADED_MASKED
    wide = sum(extent > 1 for extent in site.shape)
    advice = similar_mask(site.location) if site.location is not None else None
    text = (_SCALAR, _LANES, _TILE)[min(wide, 2)] if advice is None else _escaped(advice)
    if outside.cause is None or not outside.cause.is_loop:
        return text
    return f"{_escaped(outside.cause.loop_help)}, or {text}"


def _named_mask(outside: Outside) -> str | None:
    """Return advice on a mask which is unused, ignores a part of the address or mixes up axes."""
    if (mask := outside.forgotten) is not None:
        template = _FORGOTTEN_BESIDE if mask.beside else _FORGOTTEN
        return template.format(mask=mask.name, line=mask.location.line)
    if outside.local is not None:
        return _escaped(outside.local.text)
    return _escaped(outside.swapped) or None


def _negative_index(outside: Outside) -> str | None:
    """Return advice on an index that was loaded or is a remainder and is negative."""
    if not _is_before(outside):
        return None
    loaded = _loaded(outside) or 0
    if outside.table is not None and loaded < _LOWEST_PADDING:
        return _FAR_BELOW
    if outside.table is not None and loaded < 0:
        return _NEGATIVE_LOADED + (_NEGATIVE_MASKED if outside.site.masked else "")
    return None if _negative(outside, outside.remainders) is None else _REMAINDER


def _is_before(outside: Outside) -> bool:
    """Return whether the access lies before the first element that was passed."""
    return outside.region is not None and outside.address < outside.region.view[0]


def _masked(cause: Cause | None) -> str:
    """Return advice for a masked access, as a template."""
    if cause is not None and cause.kind == "index":
        text = _UNBOUNDED.format(cause.phrase)
    else:
        text = _wide_mask_help(cause, "tensor")
    return _escaped(text)


def _escaped(text: str) -> str:
    """Return a template that contains a text without names to fill in."""
    return text.replace("{", "{{").replace("}", "}}")


def _wide_mask_help(cause: Cause | None, what: str) -> str:
    """Return a sentence which says that a mask admits lanes outside a tensor or a view.

    Args:
        cause: The mask, or None if it is unknown.
        what: Noun phrase for the tensor or view.
    """
    text = f"the mask is too wide for this {what}"
    if cause is None:
        return f"{text}: it admits lanes that lie outside"
    if not cause.lanes:
        return f"{text}: {cause.phrase} admits lanes that lie outside it"
    verbs = ("passes", "lies") if cause.is_one_lane else ("pass", "lie")
    return f"{text}: {cause.lanes_text} {verbs[0]} {cause.phrase} but {verbs[1]} outside it"


def _is_descriptor(site: ProbeSite) -> bool:
    """Return whether an access is a method call with a list of coordinates, as for a descriptor.

    Depending on its version, Triton locates an access at the start of the call or inside it.
    """
    location = site.location
    if location is None or site.kind not in _CALLED:
        return False
    line = "".join(source_lines(location.file)[location.line - 1 : location.line])
    calls = re.finditer(rf"[\w.\[\]]+\.(?:{_CALLED[site.kind]})\(\s*(\[)?", line)
    before = [call for call in calls if call.start() < location.column]
    return bool(before) and before[-1][1] is not None


def _checked_axes(site: ProbeSite) -> set[int] | None:
    """Return the axes in the `boundary_check` of an access; None if it has none, or it is unknown.

    Versions of Triton with block pointers locate an access at its call or at an argument.
    """
    location = site.location
    if location is None:
        return None
    at = location.line, location.column - 1
    around = functions_around("".join(source_lines(location.file)), location.line)
    for node in ast.walk(around[-1]) if around else ():
        if not isinstance(node, ast.Call) or not (node.lineno, node.col_offset) <= at:
            continue
        if at < (node.end_lineno or 0, node.end_col_offset or 0):
            for keyword in node.keywords:
                if keyword.arg == "boundary_check":
                    return _integers(keyword.value)
    return None


def _integers(node: ast.expr) -> set[int] | None:
    """Return the elements of a tuple or list of integers in the source; None for other nodes."""
    elements = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    values = [element.value for element in elements if isinstance(element, ast.Constant)]
    integers = {value for value in values if isinstance(value, int)}
    return integers if len(values) == len(elements) else None


def _unchecked(site: ProbeSite, axes: set[int]) -> str:
    """Return advice on an access through a block pointer.

    Args:
        site: The access through the block pointer.
        axes: The axes in its `boundary_check`.
    """
    missing = [axis for axis in range(len(site.shape)) if axis not in axes]
    if not missing:
        return _BLOCK
    what = f"{'axis' if len(missing) == 1 else 'axes'} {', '.join(map(str, missing))}"
    return _UNCHECKED.format(what=what, every=_tuple(tuple(range(len(site.shape)))))


def _is_inside_if_dense(outside: Outside, region: Region) -> bool:
    """Return whether a contiguous tensor of the same shape would contain the element."""
    tensor = outside.argument.tensor if outside.argument else None
    if tensor is None:
        return False
    index = (outside.address - region.view[0]) // max(1, region.item)
    return 0 <= index < prod(tensor.shape) and not tensor.is_dense


def _loaded(outside: Outside) -> int | None:
    """Return the value of a loaded index; None if it is unknown."""
    if outside.element is not None:
        return outside.element[1]
    value = dict(outside.values).get(outside.index)
    return value if isinstance(value, int) else None


def _negative(outside: Outside, among: Collection[str] | None = None) -> str | None:
    """Return the name of a negative variable if the access lies before the first element.

    Args:
        outside: The access that leaves its memory.
        among: Names of the variables that are considered; None for all.
    """
    if not _is_before(outside):
        return None
    below = (name for name, value in outside.values if isinstance(value, int) and value < 0)
    considered = (name for name in below if among is None or name in among)
    return next((name for name in considered if not name.startswith("%")), None)


def _tuple(numbers: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, numbers))})"


def _index_name(site: ProbeSite) -> str:
    """Return the name of the variable that a mask should bound.

    This is the first index that varies between lanes. For a scalar access, it is the index as it
    is written in the source, such as `first + i`, or the first variable in the index.
    """
    indices = [s for s in site.shown if s.element.startswith("i") and s.element != "i1"]
    names = [s.name for s in indices if s.width > 1 or not site.shape]
    name = next((name for name in names if not name.startswith("%")), "offsets")
    if site.shape or site.location is None:
        return name
    location = site.location
    source = "".join(source_lines(location.file))
    text = index_text(source, location.line, location.column)
    is_whole = name in re.findall(r"\w+", text) and len(text) <= _LONGEST_INDEX
    return text if is_whole else name
