"""What an editor may ask of the server: its settings, with words for what is wrong with them.

They come from the editor only, never from a project's `pyproject.toml`: opening a folder that
somebody else wrote must not run what is in it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from ttools.core.errors import UsageError, did_you_mean

SECTION = "ttools"
#: What stands for the file that was saved, in a line of `sanitizeOnSave`.
FILE = "${file}"
#: What an editor sends along that is its own: how it starts the server.
_EDITORS_OWN = frozenset({"command"})


class EditorSettings(msgspec.Struct, frozen=True, rename="camel"):
    """The settings under `ttools` of an editor.

    Attributes:
        reports: files of `sanitize` and `profile --format json`, shown as they change; relative
            to the workspace.
        sanitize_on_save: what follows `ttools sanitize`, a line for each run that saving a Python
            file starts; none by default.
        sanitize_options: options of the runs that the command `ttools.sanitize` starts.
        limit_seconds: after which a run is ended.
    """

    reports: tuple[str, ...] = ()
    sanitize_on_save: tuple[str, ...] = ()
    sanitize_options: tuple[str, ...] = ()
    limit_seconds: Annotated[float, msgspec.Meta(gt=0)] = 600.0

    def runs_for(self, file: str) -> list[tuple[str, ...]]:
        """The words of each run that saving a file starts."""
        return [
            tuple(file if word == FILE else word for word in shlex.split(line))
            for line in self.sanitize_on_save
        ]


def read_editor_settings(given: Any) -> EditorSettings:
    """The settings that an editor has sent: itself the section, or an object that has it.

    Raises:
        UsageError: there is no such setting, or it has another type.
    """
    if given is None:
        return EditorSettings()
    if isinstance(given, Mapping) and SECTION in given:
        given = given[SECTION] or {}
    known = [field.encode_name for field in msgspec.structs.fields(EditorSettings)]
    for name in given if isinstance(given, Mapping) else ():
        if name not in known and name not in _EDITORS_OWN:
            raise UsageError(f"there is no setting `{SECTION}.{name}`{did_you_mean(name, known)}")
    try:
        settings = msgspec.convert(given, EditorSettings)
    except ValueError as error:
        raise UsageError(f"a setting under `{SECTION}` is wrong: {error}") from error
    for line in settings.sanitize_on_save:
        try:
            shlex.split(line)
        except ValueError as error:
            raise UsageError(f"`{SECTION}.sanitizeOnSave` has `{line}`: {error}") from error
    return settings
