"""Edits of the source code that correct a finding, where the correction is certain.

If an access outside its tensor has no mask, it gets the mask of another access that is in the same
function and has the same offsets. This is certain only under these conditions: all masked accesses
with these offsets have the same mask; the offsets and the mask are computed from names that the
function assigns at most once, before the access; and a load gets the mask of another load, whose
`other` is copied, too. If no masked access has the same offsets, or if several such accesses have
different masks, there is no edit.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ttools.core.findings.findings import Finding
from ttools.core.location import SourceLocation, source_lines
from ttools.core.syntax_trees import functions_around, read_names

#: Kinds of findings that a missing mask causes.
_KINDS = ("oob_load", "oob_store", "view_oob")
#: Position of the mask among the arguments.
_MASK_AT = {"load": 1, "store": 2}


@dataclass(frozen=True, kw_only=True)
class Edit:
    """An insertion into a source file.

    Attributes:
        file: Path of the file.
        line: Line of the insertion, from 1.
        column: Column in characters, from 1, before which the text is inserted.
        text: Text that the edit inserts.
        title: What the edit does, as a title in an editor.
    """

    file: str
    line: int
    column: int
    text: str
    title: str


@dataclass(frozen=True)
class _Access:
    """A call of `tl.load` or `tl.store`.

    Attributes:
        call: The call in the syntax tree.
        kind: Name of the called function: `load` or `store`.
        offsets: Terms of the address without the pointer, as text; empty if there is no pointer.
        mask: The mask of the access, or None.
        other: For a load, the value of masked lanes, or None.
        names: Names that occur in the offsets.
    """

    call: ast.Call
    kind: str
    offsets: frozenset[str]
    mask: ast.expr | None
    other: ast.expr | None
    names: frozenset[str]


@dataclass(frozen=True)
class _Unmasked:
    """An access without a mask.

    Attributes:
        function: The function that contains it.
        own: The access without a mask.
        like: The masked accesses of the function that have the same offsets.
    """

    function: ast.FunctionDef
    own: _Access
    like: tuple[_Access, ...]


def similar_mask(location: SourceLocation) -> str | None:
    """Return advice to give an access the mask of another access with the same offsets.

    Unlike an edit, the advice can be wrong, because the variables in the mask may have other values
    at the access.

    Args:
        location: Position of an access without a mask.

    Returns:
        A sentence, or None if no masked access has the same offsets or if their masks differ.
    """
    unmasked = _unmasked(location)
    if unmasked is None or len({_arguments(access, "store") for access in unmasked.like}) != 1:
        return None
    own = unmasked.own
    model = min(unmasked.like, key=lambda access: access.kind != own.kind)
    text = _arguments(model, own.kind).removeprefix(", ")
    advice = f"mask the {own.kind} like the {model.kind} in line {model.call.lineno}: `{text}`"
    is_undefined = own.kind == "load" and model.other is None
    return f"{advice}, with `other=` for the remaining lanes" if is_undefined else advice


def edit_of(finding: Finding) -> Edit | None:
    """Return the edit that corrects a finding, or None if no correction is certain."""
    location = finding.location
    if finding.kind not in _KINDS or location is None or location.callers:
        return None
    unmasked = _unmasked(location)
    if unmasked is None:
        return None
    function, own, like = unmasked.function, unmasked.own, list(unmasked.like)
    if own.kind == "load":
        like = [access for access in like if access.kind == "load"]
    texts = {_arguments(access, own.kind) for access in like}
    if len(texts) != 1 or (own.call.keywords and own.call.keywords[-1].arg is None):
        return None
    model = like[0]
    assert model.mask is not None
    names = own.names | read_names(model.mask)
    if model.other is not None:
        names |= read_names(model.other)
    if not all(_is_settled(function, name, own.call) for name in names):
        return None
    last = max(
        (*own.call.args, *(keyword.value for keyword in own.call.keywords)),
        key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0),
    )
    line, end = last.end_lineno or location.line, last.end_col_offset or 0
    before = source_lines(location.file)[line - 1].encode()[:end].decode(errors="ignore")
    (text,) = texts
    return Edit(
        file=location.file,
        line=line,
        column=len(before) + 1,
        text=text,
        title=f"Add `{text.removeprefix(', ')}` to this {own.kind}",
    )


def _unmasked(location: SourceLocation) -> _Unmasked | None:
    """Return the access at a location; None if it has a mask, or if its offsets are unknown."""
    functions = functions_around("".join(source_lines(location.file)), location.line)
    if not functions:
        return None
    accesses = list(_accesses(functions[-1]))
    own = next((access for access in accesses if _is_at(access.call, location)), None)
    if own is None or own.mask is not None or not own.offsets:
        return None
    like = (a for a in accesses if a.offsets == own.offsets and a.mask is not None)
    return _Unmasked(functions[-1], own, tuple(like))


def _arguments(access: _Access, kind: str) -> str:
    """Return the arguments that add the mask of an access to another access of the given kind."""
    assert access.mask is not None
    text = f", mask={ast.unparse(access.mask)}"
    if kind == "load" and access.other is not None:
        text += f", other={ast.unparse(access.other)}"
    return text


def _is_at(call: ast.Call, location: SourceLocation) -> bool:
    """Return whether the operation at a location belongs to a call."""
    if location.line != call.lineno:
        return False
    return not location.column or location.column - 1 in (call.col_offset, call.func.col_offset)


def _accesses(function: ast.FunctionDef) -> Iterator[_Access]:
    """Yield the calls of load and store in a function."""
    parameters = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name not in _MASK_AT or not isinstance(owner, ast.Name) or owner.id in parameters:
            continue
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        mask = keywords.get("mask") or next(iter(node.args[_MASK_AT[name] :]), None)
        other = keywords.get("other") or next(iter(node.args[2:3] if name == "load" else ()), None)
        terms = list(_terms(node.args[0]))
        pointers = [t for t in terms if isinstance(t, ast.Name) and t.id in parameters]
        rest = [term for term in terms if term not in pointers[:1]]
        yield _Access(
            call=node,
            kind=name,
            offsets=frozenset(map(ast.dump, rest)) if pointers and rest else frozenset(),
            mask=None if isinstance(mask, ast.Constant) and mask.value is None else mask,
            other=other,
            names=frozenset().union(*map(read_names, rest)),
        )


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the terms of a sum."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _is_settled(function: ast.FunctionDef, name: str, call: ast.Call) -> bool:
    """Return whether a name is assigned at most once in a function, and only before a call.

    If a statement assigns the name, the statement must precede the call in the same block or in a
    block around it.
    """
    writes = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
    ]
    if not writes:
        return True
    if len(writes) > 1:
        return False
    for statements in _around(function, call):
        for statement in statements:
            if call in ast.walk(statement):
                break
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and writes[0] in ast.walk(
                statement
            ):
                return True
    return False


def _around(function: ast.FunctionDef, call: ast.Call) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements of a function that contain a call."""
    for node in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list) and any(call in ast.walk(s) for s in statements):
                yield statements
