"""`ttools inspect --triton`: the same compilations by versions of Triton in other environments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttools.cli.console import say
from ttools.core.compilation.config_matrix import SCHEMA
from ttools.core.errors import TtoolsError, UsageError
from ttools.core.reports.report import counted

#: Names of the folders that are searched for a version, besides those that the user names.
_ENVIRONMENTS = (".venv*", "venv*", ".tox/*", ".nox/*")
_ASK = (
    "import importlib.metadata as m, json, importlib.util as u\n"
    "def version(name):\n"
    "    try:\n"
    "        return m.version(name)\n"
    "    except m.PackageNotFoundError:\n"
    "        return None\n"
    "print(json.dumps([version('triton'), u.find_spec('ttools_entry') is not None]))\n"
)


@dataclass(frozen=True)
class OtherTriton:
    """A Python environment with another version of Triton.

    Attributes:
        python: Path of its interpreter.
        version: Version of Triton in the other environment.
    """

    python: Path
    version: str


def find_environment(word: str) -> OtherTriton:
    """Return the environment that a word names.

    Args:
        word: Path of an interpreter or of an environment, or a version, which is searched for in
            the environments of the current folder and next to the active one.

    Raises:
        UsageError: There is no such environment, or it lacks Triton or ttools.
    """
    path = Path(word)
    if path.is_dir() or os.sep in word:
        python = path if path.is_file() else path / "bin" / "python"
        if not python.is_file():
            raise UsageError(f"--triton {word}: there is no Python interpreter `{python}`")
        return _checked(word, python)
    for environment in _environments():
        if any(environment.glob(f"lib/python*/site-packages/triton-{word}.dist-info")):
            return _checked(word, environment / "bin" / "python")
    raise UsageError(
        f"--triton {word}: no environment with Triton {word} is in this folder or next to "
        f"{sys.prefix}; give the path of an environment or of its Python interpreter"
    )


def _environments() -> Iterator[Path]:
    for folder in dict.fromkeys((Path.cwd(), Path(sys.prefix).parent)):
        for pattern in _ENVIRONMENTS:
            yield from sorted(folder.glob(pattern))


def _checked(word: str, python: Path) -> OtherTriton:
    try:
        answer = subprocess.run(
            [str(python), "-c", _ASK], capture_output=True, text=True, check=True, timeout=120
        )
        version, has_ttools = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise UsageError(f"--triton {word}: `{python}` cannot be run: {error}") from None
    if version is None:
        raise UsageError(f"--triton {word}: Triton is not installed in `{python}`")
    if not has_ttools:
        raise UsageError(
            f"--triton {word}: `{python}` has Triton {version}, but not ttools; install it there: "
            f"{python} -m pip install triton-ttools"
        )
    return OtherTriton(python, version)


def matrix_by(other: OtherTriton, words: Sequence[str]) -> dict[str, Any]:
    """Return the matrix that another version of Triton makes, as data.

    Args:
        words: The arguments of `ttools` for the matrix as JSON.

    Raises:
        TtoolsError: The command fails in the other environment.
    """
    say("note", f"compiling with Triton {other.version} of {other.python}")
    made = subprocess.run(
        [str(other.python), "-m", "ttools_entry", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        data: dict[str, Any] = json.loads(made.stdout)
    except ValueError:
        data = {}
    if data.get("schema") != SCHEMA:
        last = made.stderr.strip().splitlines()[-1:] or [f"exit status {made.returncode}"]
        raise TtoolsError(f"Triton {other.version} of {other.python}: {last[0]}")
    return data


#: Figures that are compared, by their names in the data.
_COMPARED = {
    "registers": "registers",
    "spilled": "spilled bytes",
    "shared": "bytes of shared memory",
    "occupancy": "occupancy",
}


def differences(base: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return one sentence for each configuration and GPU whose compilation differs."""
    lines = []
    names = {gpu["gpu"]: gpu["name"] for gpu in base["gpus"]}
    for kernel, again in zip(base["kernels"], other["kernels"], strict=False):
        again_by_values = {json.dumps(c["values"], sort_keys=True): c for c in again["configs"]}
        for config in kernel["configs"]:
            same = again_by_values.get(json.dumps(config["values"], sort_keys=True))
            name = f"{kernel['kernel']}, config {config['number']}"
            if same is None:
                lines.append(f"{name}: Triton {other['triton']} has no such configuration")
                continue
            for gpu, cell in config["gpus"].items():
                changes = _changes(cell, same["gpus"][gpu])
                if changes:
                    lines.append(f"{name} on {names[gpu]}: {', '.join(changes)}")
    return lines


def _changes(cell: dict[str, Any], other: dict[str, Any]) -> list[str]:
    if cell["verdict"] != other["verdict"]:
        reason = f" ({other['reason'] or cell['reason']})"
        return [f"{_words(cell)} -> {_words(other)}{reason}"]
    return [
        f"{text} {_figure(cell[name])} -> {_figure(other[name])}"
        for name, text in _COMPARED.items()
        if cell[name] != other[name]
    ]


def _words(cell: dict[str, Any]) -> str:
    return str(cell["verdict"]).replace("_", " ")


def _figure(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:.0%}" if isinstance(value, float) else f"{value:,}"


def comparison_lines(base: dict[str, Any], other: dict[str, Any], most: int | None) -> list[str]:
    """Return the differences from another version of Triton as lines of text, with a heading.

    Args:
        most: The largest number of differences to list; None for all.
    """
    changed = differences(base, other)
    count = counted(len(changed), "difference") if changed else "no differences"
    lines = [f"Triton {base['triton']} -> {other['triton']}: {count}"]
    lines += [f"  {line}" for line in changed[:most]]
    if most is not None and len(changed) > most:
        lines.append(f"  … {len(changed) - most} more; --format json or html shows all")
    return lines
