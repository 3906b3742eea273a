"""Removes frames of Triton and ttools that occur in every launch from tracebacks.

Such frames contain no useful information if they are between two frames of the user's code. The
same holds for frames after the last frame of the user's code if the error message itself names the
position in the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from ttools.core.errors import StandInError, TtoolsError
from ttools.core.ownership import Owner, owner_of_frame

_OURS: Owner = "ttools"
_TRITON: Owner = "triton"


#: Triton's message for an invalid argument, which names only its type.
_REFUSED_ARGUMENT = "failed to specialize argument of type: "


def name_argument(error: BaseException) -> None:
    """Add the parameter's name to the message with which Triton rejects an argument."""
    text = str(error.args[0]) if error.args else ""
    if not isinstance(error, TypeError) or not text.startswith(_REFUSED_ARGUMENT):
        return
    for entry in reversed(entries_of(error.__traceback__)):
        frame_locals = entry.tb_frame.f_locals
        function: Any = frame_locals.get("self")
        args = frame_locals.get("args")
        if owner_of_frame(entry.tb_frame) != _TRITON or not hasattr(function, "arg_names"):
            continue
        if not isinstance(args, tuple):
            continue
        values = dict(zip(function.arg_names, args, strict=False)) | dict(
            frame_locals.get("kwargs") or {}
        )
        kind = text.removeprefix(_REFUSED_ARGUMENT)
        matching = [n for n in function.arg_names if type(values.get(n)).__name__ == kind]
        if matching:
            names = " or ".join(f"`{name}`" for name in matching)
            error.args = (f"{text}; it is passed as {names} of `{function.__name__}`",)
        return


def hide_launch_frames(error: BaseException) -> None:
    """Remove the frames of launches from the traceback of an error and of its causes.

    Frames of Triton or ttools in which Python itself raised an error stay, because they show the
    cause.
    """
    # Imported here, because only a program that fails needs to wait for this import.
    from ttools.core.compilation.compile_errors import explain_in_message

    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        name_argument(current)
        explain_in_message(current)
        entries = entries_of(current.__traceback__)
        # If Ctrl-C ended the program, the position in our own code at which it arrived is
        # irrelevant.
        users_only = _says_where(current) or not isinstance(current, Exception)
        current.__traceback__ = traceback_of(_shown(entries, users_only))
        cause = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        if (
            cause is not None
            and _says_where(current)
            and not _says_where(cause)
            and _is_inner(cause)
        ):
            # The error is shown without its cause, because the message already contains the cause's
            # text.
            current.__cause__, current.__suppress_context__, cause = None, True, None
        current = cause


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
    """Return whether the traceback of an error contains no frame of user code."""
    return all(owner in (_OURS, _TRITON) for owner in _owners(entries_of(error.__traceback__)))


def _owners(entries: list[TracebackType]) -> list[Owner]:
    """Return the owner of each frame; a standard library frame has the owner of its caller."""
    owners: list[Owner] = []
    for entry in entries:
        owner = owner_of_frame(entry.tb_frame)
        owners.append(owners[-1] if owner == "python" and owners else owner)
    return owners


def entries_of(traceback: TracebackType | None) -> list[TracebackType]:
    """Return the entries of a traceback, outermost first."""
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    return entries


def traceback_of(entries: Sequence[TracebackType]) -> TracebackType | None:
    """Return a traceback with copies of these entries."""
    made: TracebackType | None = None
    for entry in reversed(entries):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def _says_where(error: BaseException) -> bool:
    """Return whether an error's message names the position, so that further frames add nothing."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, TtoolsError | StandInError) or "CompilationError" in kinds
