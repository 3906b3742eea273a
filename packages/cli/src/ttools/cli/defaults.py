"""Defaults of options from `TTOOLS_<COMMAND>_<OPTION>`, else from the project's settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ttools.core import configuration
from ttools.core.errors import UsageError, did_you_mean
from ttools.core.settings import Settings

Options = dict[str, Any]


def defaults(commands: Mapping[str, Any], settings: Settings | None) -> dict[str, Options]:
    """Return, for each command, the parameters that are set outside the command line.

    Args:
        commands: The commands of typer, by name.

    Raises:
        UsageError: A command or an option does not exist.
    """
    values_by_command: dict[str, Options] = {}
    tables = settings.commands if settings else {}
    for table, options in tables.items():
        name = table if table in commands else table.replace("-", " ")
        where = f"{settings.file if settings else ''}: [tool.ttools.{table}]"
        if name not in commands:
            raise UsageError(f"{where}: there is no such command{did_you_mean(table, commands)}")
        folder = settings.file.parent if settings else Path()
        for key, value in options.items():
            parameter = _parameter(commands[name], key, where)
            values_by_command.setdefault(name, {})[parameter.name] = _value(
                parameter, value, folder, where
            )
    for name, key, variable in variables(commands):
        parameter = _parameter(commands[name], key, variable)
        value = os.environ[variable]
        values_by_command.setdefault(name, {})[parameter.name] = (
            [value] if parameter.multiple else value
        )
    return values_by_command


def variables(commands: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield command, option and variable for each `TTOOLS_<COMMAND>_<OPTION>` that is set."""
    for variable in sorted(os.environ):
        for name in commands:
            prefix = f"TTOOLS_{name.upper().replace(' ', '_')}_"
            longer = any(other.startswith(f"{name} ") for other in commands)
            ours = variable.startswith(prefix) and configuration.meaning(variable) is None
            if ours and os.environ[variable].strip():
                key = variable.removeprefix(prefix).lower().replace("_", "-")
                if not (longer and key.startswith(_second_words(name, commands))):
                    yield name, key, variable


def _second_words(name: str, commands: Mapping[str, Any]) -> tuple[str, ...]:
    """Return prefixes of options that belong to two-word commands, such as `compare-`."""
    return tuple(
        other.removeprefix(f"{name} ") + "-" for other in commands if other.startswith(f"{name} ")
    )


def _parameter(command: Any, key: str, where: str) -> Any:
    parameters = {
        option.removeprefix("--"): parameter
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option != "--help"
    }
    name = key.replace("_", "-")
    if name not in parameters:
        raise UsageError(f"{where}: there is no option `--{name}`{did_you_mean(name, parameters)}")
    return parameters[name]


def _value(parameter: Any, value: Any, folder: Path, where: str) -> Any:
    """Return a value as the command line would give it; paths are relative to the settings file."""
    if isinstance(value, list):
        if not parameter.multiple:
            raise UsageError(f"{where}: `{parameter.opts[0]}` takes one value, not a list")
        return [_value(parameter, item, folder, where)[0] for item in value]
    if not isinstance(value, (str, int, float)):
        raise UsageError(f"{where}: `{parameter.opts[0]}` takes a string, a number, true or false")
    # Paths are recognised by their metavar, since typer's types differ between its versions.
    if (parameter.metavar or "").startswith(("FILE", "DIR")) and value != "-":
        value = str(folder / Path(str(value)).expanduser())
    if parameter.multiple:
        return [str(value)]
    return value if isinstance(value, bool) else str(value)
