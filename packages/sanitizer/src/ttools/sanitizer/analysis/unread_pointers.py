"""Pointer parameters through which a kernel accesses no memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ttools.core.location import SourceLocation, user_location
from ttools.interpreter.analysis.unused_loads import has_effect
from ttools.ir import Module, PointerType, Value, element_type
from ttools.ir.dataflow import reachable
from ttools.ir.dead_code import values_needed
from ttools.ir.dialects.traits import DISPLACES, SPREADS, STRUCTURED, TERMINATOR
from ttools.sanitizer.analysis.dataflow import is_access

_AS_NUMBER = "tt.ptr_to_int"
_AS_POINTER = "tt.int_to_ptr"


def unread_pointers(module: Module) -> Mapping[int, SourceLocation | None]:
    """Return the pointer parameters through which a kernel neither reads nor writes memory.

    Returns:
        A mapping from the index of a parameter to the place where its address is converted to a
        number on which a result of the kernel depends, or to None if nothing depends on the
        parameter. Parameters whose addresses may become pointers again are left out.
    """
    kernel = module.kernel
    pointers = {
        index: value
        for index, value in enumerate(kernel.regions[0].entry.arguments)
        if isinstance(element_type(value.type), PointerType) and not _is_accessed(value)
    }
    needed = values_needed(kernel, has_effect) if pointers else set()
    unread: dict[int, SourceLocation | None] = {}
    for index, value in pointers.items():
        if value not in needed:
            unread[index] = None
        elif _is_a_number(value):
            location = value.uses[0][0].location
            unread[index] = user_location(location) or location
    return unread


def _is_accessed(value: Value) -> bool:
    """Return whether an access directly uses a pointer or the pointer plus an offset."""
    users = [user for user, _ in value.uses]
    users += [user for op in users if op.has(DISPLACES, SPREADS) for user, _ in op.result.uses]
    return any(is_access(user) for user in users)


def _is_a_number(value: Value) -> bool:
    """Return whether a pointer is only converted to numbers that never become pointers again."""
    if any(user.name != _AS_NUMBER for user, _ in value.uses):
        return False

    def derived(number: Value) -> Iterator[Value]:
        for user, _ in number.uses:
            yield from user.results

    numbers = list(reachable((user.result for user, _ in value.uses), derived))
    users = [user for number in numbers for user, _ in number.uses]
    return not any(user.name == _AS_POINTER or user.has(STRUCTURED, TERMINATOR) for user in users)
