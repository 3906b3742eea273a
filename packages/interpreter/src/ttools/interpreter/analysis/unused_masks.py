"""Masks that a kernel computes but does not use, although it has an access without a mask.

Triton removes such a mask, so it is found in the module that the front end writes, and kept in a
comment after the final module. A mask that only another specialisation of the kernel uses is not
reported: a mask is reported only if the source never reads its variable. A mask of a single lane is
not reported either, because a grid usually has exactly one program for each element of such a
kernel.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from ttools.core.errors import TtoolsError
from ttools.core.location import SourceLocation, source_lines
from ttools.core.ownership import is_triton_file
from ttools.core.syntax_trees import functions_around, read_names
from ttools.interpreter.analysis.positions import named_positions
from ttools.interpreter.analysis.ttir_comments import comment, with_comment
from ttools.ir import Block, IntegerType, Operation, Value, element_type, shape_of
from ttools.ir.dataflow import control_sources, reachable
from ttools.ir.dialects.traits import (
    ATOMIC,
    CONSTANT,
    FROM_COORDINATES,
    READS,
    STRUCTURED,
    WRITES,
)
from ttools.ir.parser import parse_module
from ttools.ir.semantics import Comparison, comparison, conjunction, lanes_of, number_of

_COMMENT = "unused masks"
#: The name of a value. Results of one operation, such as `%1#0` and `%1#1`, share a name.
_VALUE = re.compile(r"%[\w$.-]+")
#: The definition of a tensor of conditions, with the alias of its location.
_CONDITION = re.compile(
    r" *%[\w$.-]+ = (?:\"?arith\.cmpi\b.*tensor<.*|.*xi1>) loc\((#loc\d*)\)$", re.MULTILINE
)


@dataclass(frozen=True)
class UnusedMask:
    """A mask that nothing uses.

    Attributes:
        location: Position of the mask, with the name of the variable.
        access: Position of an access that has the mask's shape and indices, and either no mask or
            one that does not depend on these indices.
        kind: The kind of this access: `load`, `store` or `atomic access`.
        beside: If True, the access has another mask.
    """

    location: SourceLocation
    access: SourceLocation
    kind: str
    beside: bool = False

    @property
    def name(self) -> str:
        return self.location.name or ""


def with_unused_masks(final: str, written: str) -> str:
    """Return the module followed by a comment with the unused masks.

    Args:
        final: The module after Triton's passes.
        written: The module as the front end writes it.
    """
    return with_comment(final, _COMMENT, [_row(mask) for mask in unused_masks(written)])


def commented_masks(ttir: str) -> tuple[UnusedMask, ...]:
    """Return the masks in the comment that `with_unused_masks` appended."""
    rows: list[list[Any]] = comment(ttir, _COMMENT)
    return tuple(
        UnusedMask(SourceLocation(file, line, column, name), SourceLocation(*access), kind, beside)
        for name, (file, line, column), kind, access, beside in rows
    )


def _row(mask: UnusedMask) -> list[Any]:
    places = [(place.file, place.line, place.column) for place in (mask.location, mask.access)]
    return [mask.name, places[0], mask.kind, places[1], mask.beside]


def unused_masks(written: str) -> list[UnusedMask]:
    """Return the unused masks of a module that the front end has written, one per location."""
    if not any(_is_forgotten(location) for location in _unused_conditions(written)):
        return []
    try:
        module = parse_module(written)
    except TtoolsError:  # the module has unsupported operations, which Triton's passes remove
        return []
    masks = [mask for function in module.functions.values() for mask in _masks(function)]
    return list({mask.location: mask for mask in masks}.values())


def _unused_conditions(written: str) -> Iterator[SourceLocation]:
    """Yield the locations of conditions that nothing uses, without parsing the module."""
    unused = [
        definition[1]
        for function in written.split("tt.func ")[1:]
        for value, count in Counter(_VALUE.findall(function)).items()
        if count == 1 and (definition := _definition(value, function))
    ]
    yield from named_positions(written, unused).values()


def _definition(value: str, function: str) -> re.Match[str] | None:
    """Return the line that defines a value, if it is a tensor of conditions."""
    at = function.find(f"{value} = ")
    return None if at < 0 else _CONDITION.match(function, function.rfind("\n", 0, at) + 1)


def _is_forgotten(location: SourceLocation | None) -> bool:
    """Return whether the function around a location assigns a variable that it never reads."""
    if location is None or not location.name or location.name.startswith("_"):
        return False
    if is_triton_file(location.file):
        return False
    around = functions_around("".join(source_lines(location.file)), location.line)
    return bool(around) and location.name not in _read_names(around[-1])


# Cached, because a kernel may have many unused conditions and is compiled in several
# specialisations.
_read_names = lru_cache(maxsize=64)(read_names)


def _masks(function: Operation) -> Iterator[UnusedMask]:
    operations = list(function.walk())
    for number, op in enumerate(operations):
        for value in op.results:
            if _is_mask(value) and not value.uses and _is_forgotten(value.location):
                fitting = (other for other in operations[number:] if _lacks(other, value))
                access = next(fitting, None)
                if access is not None and access.location and value.location:
                    yield UnusedMask(
                        value.location, access.location, _noun(access), _is_masked(access)
                    )


def _is_mask(value: Value) -> bool:
    """Return whether a value is a tile of conditions with more than one lane."""
    is_boolean = value.is_tensor and element_type(value.type) == IntegerType(1)
    return is_boolean and prod(shape_of(value.type)) > 1


def _noun(access: Operation) -> str:
    return "atomic access" if access.has(ATOMIC) else "store" if access.has(WRITES) else "load"


def _is_masked(op: Operation) -> bool:
    return op.mask is not None and number_of(op.mask) != 1


def _lacks(op: Operation, mask: Value) -> bool:
    """Return whether an operation is an access that lacks the given mask.

    Such an access has no mask, or one that does not depend on the indices that the given mask
    compares.

    The given mask must have the shape of the access, apart from axes along which it is broadcast,
    and must bound indices from which the address is computed. Indices that the address contains
    only as a remainder, such as `rows % M`, need no mask.
    """
    if not op.has(READS, WRITES) or op.operand("ptr") is None:
        return False
    if _is_masked(op) and op.mask is not None and _indices(op.mask) & _indices(mask):
        return False
    extents, own = shape_of(op.address.type), shape_of(mask.type)
    if len(own) != len(extents) or any(n not in (1, m) for n, m in zip(own, extents, strict=True)):
        return False
    return _bounds(mask, _indices(op.address, wrapped=False))


def _bounds(mask: Value, indices: set[Value]) -> bool:
    """Return whether a mask compares only indices among those given, each with a scalar."""
    op = mask.defining_op
    if op is None:
        return False
    if parts := conjunction(op):
        return all(_bounds(part, indices) for part in parts)
    if len(lanes_of(mask)) == 1:
        return _bounds(op.operands[0], indices)
    compared = comparison(op)
    if compared is None or _is_negative_only(compared):
        return False
    left, right = _indices(compared.left), _indices(compared.right)
    return bool(left) != bool(right) and left | right <= indices


def _is_negative_only(compared: Comparison) -> bool:
    """Return whether a comparison holds for negative numbers only, such as `i < 0` or `i == -1`.

    Such a condition finds indices that count from the end, or entries that are no indices. It is
    not a mask, because the access would be made only where the index is out of bounds.
    """
    predicate = compared.predicate[-2:]
    limit = number_of(compared.left if predicate in ("gt", "ge") else compared.right)
    if limit is None or predicate == "ne":
        return False
    return limit < (1 if predicate in ("lt", "gt") else 0)


def _indices(value: Value, *, wrapped: bool = True) -> set[Value]:
    """Return the indices that a value is computed from.

    Args:
        value: A mask or a tile of addresses.
        wrapped: If False, operands of remainders do not count.
    """
    return set(filter(_is_index, _sources(value, wrapped=wrapped)))


def _is_index(value: Value) -> bool:
    """Return whether a value is a tile that is not computed from others, such as a range."""
    op = value.defining_op
    if op is None:
        return value.is_tensor
    return value.is_tensor and op.has(FROM_COORDINATES, READS) and not op.has(CONSTANT)


def _sources(value: Value, *, wrapped: bool) -> Iterator[Value]:
    """Yield the values that a value is computed from; loads are yielded, but not followed."""

    def following(value: Value) -> Iterable[Value]:
        op = value.defining_op
        if op is not None and not wrapped and op.declaration.python == "Mod":
            return ()
        if op is not None:
            return () if op.has(READS) else op.operands if not op.regions else _passed(value)
        return _passed(value)

    return reachable([value], following)


def _passed(value: Value) -> list[Value]:
    op = value.owner.parent_op if isinstance(value.owner, Block) else value.owner
    return control_sources(value) if op is not None and op.has(STRUCTURED) else []
