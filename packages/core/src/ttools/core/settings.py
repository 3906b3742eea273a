"""Settings of a project: the table `[tool.ttools]` of the nearest pyproject.toml with this table.

The keys of the table are `TTOOLS_*` variables in lower case (`cache-dir`); its subtables are
defaults for the options of commands. The environment overrides the file, and the command line
overrides both.
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
    """The settings of a project.

    Attributes:
        file: The pyproject.toml that contains them.
        variables: Values of `TTOOLS_*` variables; paths have been resolved relative to the file.
        commands: Options by command, as written.
    """

    file: Path
    variables: Mapping[str, str]
    commands: Mapping[str, Mapping[str, Any]]

    def take_effect(self) -> None:
        """Set those environment variables of the settings that are not set yet."""
        for name, value in self.variables.items():
            if not os.environ.get(name, "").strip():
                os.environ[name] = value


def read_settings(start: Path | None = None) -> Settings | None:
    """Return the settings of the project that contains a folder, by default the working directory.

    Raises:
        UsageError: The table cannot be read or has an unknown key.
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
    if "ttools" not in text:  # do not report errors in files that do not configure ttools
        return None
    try:
        tools = parse_toml(text).get("tool")
    except ValueError as error:
        raise UsageError(f"{file}: {error}") from error
    table = tools.get("ttools") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{file}: `tool.ttools` must be a table")
    return table


def _checked(file: Path, table: Mapping[str, Any]) -> Settings:
    names = {
        variable.name.removeprefix("TTOOLS_").lower().replace("_", "-"): variable.name
        for variable in configuration.VARIABLES
        if variable.name.startswith("TTOOLS_")
    }
    variables, commands = {}, {}
    for key, value in table.items():
        if isinstance(value, dict):
            commands[key] = value
            continue
        name = names.get(key.replace("_", "-"))
        if name is None:
            raise UsageError(f"{file}: there is no setting `{key}`{did_you_mean(key, names)}")
        if not isinstance(value, (str, int)):
            raise UsageError(f"{file}: `{key}` must be a string, a number, true or false")
        variables[name] = _text(name, value, file)
    return Settings(file=file, variables=variables, commands=commands)


def _text(name: str, value: str | int, file: Path) -> str:
    """Return a value as it would be written in the environment."""
    if isinstance(value, bool):
        return "1" if value else "off"
    if name.endswith("_DIR"):
        return str(file.parent / Path(str(value)).expanduser())
    return str(value)
