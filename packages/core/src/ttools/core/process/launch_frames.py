"""Removes the frames of Triton and ttools that every launch goes through from tracebacks.

A user can do without the frames between two of the user's own, and without those behind the last
one where the error itself says where in the kernel it is.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ttools.core.errors import StandInError, TtoolsError
from ttools.core.ownership import Owner, owner_of_frame

_OURS: Owner = "ttools"
_TRITON: Owner = "triton"


#: How Triton refuses an argument, of which it only says the type.
_REFUSED_ARGUMENT = "failed to specialize argument of type: "


def name_argument(error: BaseException) -> None:
    """Adds the parameter to the message of an error with which Triton refuses an argument."""
    text = str(error.args[0]) if error.args else ""
    if not isinstance(error, TypeError) or not text.startswith(_REFUSED_ARGUMENT):
        return
    for entry in reversed(_entries(error)):
        given = entry.tb_frame.f_locals
        function: Any = given.get("self")
        args = given.get("args")
        if owner_of_frame(entry.tb_frame) != _TRITON or not hasattr(function, "arg_names"):
            continue
        if not isinstance(args, tuple):
            continue
        values = dict(zip(function.arg_names, args, strict=False)) | dict(given.get("kwargs") or {})
        kind = text.removeprefix(_REFUSED_ARGUMENT)
        named = [n for n in function.arg_names if type(values.get(n)).__name__ == kind]
        if named:
            names = " or ".join(f"`{name}`" for name in named)
            error.args = (f"{text}; it is passed as {names} of `{function.__name__}`",)
        return


def hide_launch_frames(error: BaseException) -> None:
    """Leaves the machinery of launches out of the traceback of an error and of its causes.

    Frames that raised an error of Python's in Triton or ttools stay: they say what went wrong.
    """
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        name_argument(each)
        entries = _entries(each)
        # Where in our code Ctrl-C was noticed says nothing.
        users_only = _says_where(each) or not isinstance(each, Exception)
        each.__traceback__ = _made_of(_shown(entries, users_only))
        cause = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        if cause is not None and _says_where(each) and not _says_where(cause) and _is_inner(cause):
            # Its text is in the message already.
            each.__cause__, each.__suppress_context__, cause = None, True, None
        each = cause


def _shown(entries: list[TracebackType], users_only: bool) -> list[TracebackType]:
    owners = _owners(entries)
    users = [n for n, owner in enumerate(owners) if owner not in (_OURS, _TRITON)]
    last = users[-1] if users else -1
    kept = [entries[n] for n in users]
    if users and users_only:
        return kept
    behind = range(last + 1, len(entries))
    raising = max((n for n in behind if owners[n] == _TRITON), default=last)
    return kept + [entries[n] for n in behind if owners[n] == _TRITON or n > raising]


def _is_inner(error: BaseException) -> bool:
    """Return whether none of an error's frames is the user's."""
    return all(owner in (_OURS, _TRITON) for owner in _owners(_entries(error)))


def _owners(entries: list[TracebackType]) -> list[Owner]:
    """Return whose frames these are; those of the standard library belong to whoever calls it."""
    owners: list[Owner] = []
    for entry in entries:
        owner = owner_of_frame(entry.tb_frame)
        owners.append(owners[-1] if owner == "python" and owners else owner)
    return owners


def _entries(error: BaseException) -> list[TracebackType]:
    entries = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    return entries


def _made_of(entries: list[TracebackType]) -> TracebackType | None:
    made: TracebackType | None = None
    for entry in reversed(entries):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def _says_where(error: BaseException) -> bool:
    """Return whether an error needs no frame below the user's own to say what is wrong."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, TtoolsError | StandInError) or "CompilationError" in kinds
