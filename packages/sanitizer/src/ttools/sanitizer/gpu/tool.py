"""Finds compute-sanitizer on this machine, and checks its version and that there is a GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ttools.core import configuration
from ttools.core.environment import gpu_usable
from ttools.core.errors import TtoolsError

VARIABLE = "TTOOLS_COMPUTE_SANITIZER"
#: The oldest version with all the options that a run uses.
OLDEST = (2023, 3)
_NAME = "compute-sanitizer"
_TOOLKIT = "/usr/local/cuda"
_TIMEOUT_S = 30
_GET_IT = f"install the CUDA toolkit or `nvidia-cuda-sanitizer-api`, or set {VARIABLE} to its path"


@dataclass(frozen=True)
class Tool:
    """A compute-sanitizer that can be run.

    Attributes:
        path: Path of the program.
        version: Version that it prints, such as `2025.3.1.0`.
    """

    path: Path
    version: str


def require_gpu() -> None:
    """Raise an error if there is no GPU.

    Raises:
        TtoolsError: torch cannot use a GPU on this machine.
    """
    if not gpu_usable():
        raise TtoolsError(
            "checking on a GPU needs an NVIDIA GPU that torch can use, and there is none here "
            "(`ttools doctor` says what is missing); without `--on gpu` kernels are checked on "
            "the CPU"
        )


def find_tool() -> Tool:
    """Return the compute-sanitizer of this machine.

    Raises:
        TtoolsError: The tool is not installed, cannot be run, or is too old.
    """
    chosen = configuration.read(VARIABLE)
    if chosen is not None:
        path = Path(chosen).expanduser()
        if not path.is_file():
            raise TtoolsError(f"{VARIABLE} is `{chosen}`, but there is no such file")
        return _examined(path)
    # The Python package for CUDA 12 installs the file without the permission to execute it.
    executable = next(
        (path for path in _candidates() if path.is_file() and os.access(path, os.X_OK)), None
    )
    if executable is None:
        raise TtoolsError(f"{_NAME} was not found on this machine; {_GET_IT}")
    return _examined(executable)


def _candidates() -> Iterator[Path]:
    """Yield possible paths of the tool: on PATH, in a CUDA toolkit, in packages of this Python."""
    on_path = shutil.which(_NAME)
    if on_path is not None:
        yield Path(on_path)
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    for home in (*filter(None, homes), _TOOLKIT):
        yield Path(home) / "bin" / _NAME
        yield Path(home) / _NAME / _NAME
    for folder in dict.fromkeys(sys.path):
        yield from sorted(Path(folder).glob(f"nvidia/*/bin/{_NAME}"))


def _examined(path: Path) -> Tool:
    """Return the tool at a path, after a check of its version."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except OSError as error:
        raise TtoolsError(f"`{path}` cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise TtoolsError(f"`{path} --version` did not answer within {_TIMEOUT_S} s") from error
    match = re.search(r"^Version (\d+)\.(\d+)[\d.]*", done.stdout, re.MULTILINE)
    if match is None:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["nothing"]
        raise TtoolsError(f"`{path} --version` did not print a version of {_NAME}, but: {lines[0]}")
    if (int(match[1]), int(match[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise TtoolsError(
            f"`{path}` is {_NAME} {match[0].removeprefix('Version ')}; ttools needs {wanted} or "
            f"later: {_GET_IT}"
        )
    return Tool(path, match[0].removeprefix("Version "))
