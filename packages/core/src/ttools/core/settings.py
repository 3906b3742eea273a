"""Settings of a project: `[tool.ttools]` of the nearest pyproject.toml that has such a table.

Its keys are the `TTOOLS_*` variables in small letters (`cache-dir`), its tables the defaults of a
command's options. Variables of the environment come before the file's; options of the command line
before both. Owns finding and reading; must not know which options a command has.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttools.core import configuration
from ttools.core.errors import UsageError, did_you_mean
from ttools.core.json_document import parse_toml

_FILE = "pyproject.toml"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a project sets.

    Attributes:
        file: that says so.
        variables: `TTOOLS_*` variables and their values; paths are relative to the file.
        commands: options by the names of commands, as they are written.
    """

    file: Path
    variables: Mapping[str, str]
    commands: Mapping[str, Mapping[str, Any]]

    def take_effect(self) -> None:
        """Sets the variables that the environment does not have."""
        for name, value in self.variables.items():
            if not os.environ.get(name, "").strip():
                os.environ[name] = value


def read_settings(start: Path | None = None) -> Settings | None:
    """The settings of the project that a folder, by default the working one, belongs to.

    Raises:
        UsageError: the table cannot be read, or sets what there is not.
    """
    folder = (start or Path.cwd()).resolve()
    for parent in (folder, *folder.parents):
        file = parent / _FILE
        table = _table(file)
        if table is not None:
            return _checked(file, table)
    return None


def _table(file: Path) -> dict[str, Any] | None:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if "ttools" not in text:  # most files: what else is wrong with them is not for us to say
        return None
    try:
        found = parse_toml(text).get("tool")
    except ValueError as error:
        raise UsageError(f"{file}: {error}") from error
    table = found.get("ttools") if isinstance(found, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{file}: `tool.ttools` must be a table")
    return table


def _checked(file: Path, table: Mapping[str, Any]) -> Settings:
    known = {
        variable.name.removeprefix("TTOOLS_").lower().replace("_", "-"): variable.name
        for variable in configuration.VARIABLES
        if variable.name.startswith("TTOOLS_")
    }
    variables, commands = {}, {}
    for key, value in table.items():
        if isinstance(value, dict):
            commands[key] = value
            continue
        name = known.get(key.replace("_", "-"))
        if name is None:
            raise UsageError(f"{file}: there is no setting `{key}`{did_you_mean(key, known)}")
        if not isinstance(value, (str, int)):
            raise UsageError(f"{file}: `{key}` must be a text, a number, true or false")
        variables[name] = _text(name, value, file)
    return Settings(file=file, variables=variables, commands=commands)


def _text(name: str, value: str | int, file: Path) -> str:
    """A value as the environment would have it."""
    if isinstance(value, bool):
        return "1" if value else "off"
    if name.endswith("_DIR"):
        return str(file.parent / Path(str(value)).expanduser())
    return str(value)
