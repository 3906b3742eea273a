"""Finding compute-sanitizer on this machine, and whether it can be of use here.

Owns where it is looked for, the versions accepted and the sentences for what is missing. Must not
know how it is run.
"""

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
#: The first whose options are those that a run is made with.
OLDEST = (2023, 3)
_NAME = "compute-sanitizer"
_TOOLKIT = "/usr/local/cuda"
_TIMEOUT_S = 30
_GET_IT = f"install the CUDA toolkit or `nvidia-cuda-sanitizer-api`, or set {VARIABLE} to its path"


@dataclass(frozen=True)
class Tool:
    """A compute-sanitizer that can be run.

    Attributes:
        version: as it prints it: `2025.3.1.0`.
    """

    path: Path
    version: str


def require_gpu() -> None:
    """Refuses to go on without a GPU.

    Raises:
        TtoolsError: torch could not use one here.
    """
    if not gpu_usable():
        raise TtoolsError(
            "checking on a GPU needs an NVIDIA GPU that torch can use, and there is none here "
            "(`ttools doctor` says what is missing); without `--on gpu` kernels are checked on "
            "the CPU"
        )


def find_tool() -> Tool:
    """The compute-sanitizer of this machine.

    Raises:
        TtoolsError: there is none, it does not run, or it is too old.
    """
    chosen = configuration.read(VARIABLE)
    if chosen is not None:
        path = Path(chosen).expanduser()
        if not path.is_file():
            raise TtoolsError(f"{VARIABLE} is `{chosen}`, and there is no such file")
        return _examined(path)
    # The package for CUDA 12 installs it without the permission to run it.
    found = next(
        (path for path in _candidates() if path.is_file() and os.access(path, os.X_OK)), None
    )
    if found is None:
        raise TtoolsError(f"{_NAME} was not found on this machine; {_GET_IT}")
    return _examined(found)


def _candidates() -> Iterator[Path]:
    """Where it may be: on the path, in a CUDA toolkit, in the packages of this Python."""
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
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except OSError as error:
        raise TtoolsError(f"`{path}` cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise TtoolsError(f"`{path} --version` gave no answer within {_TIMEOUT_S} s") from error
    match = re.search(r"^Version (\d+)\.(\d+)[\d.]*", done.stdout, re.MULTILINE)
    if match is None:
        said = (done.stdout + done.stderr).strip().splitlines() or ["nothing"]
        raise TtoolsError(f"`{path} --version` says no version of {_NAME}, but: {said[0]}")
    if (int(match[1]), int(match[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise TtoolsError(
            f"`{path}` is {_NAME} {match[0].removeprefix('Version ')}; ttools needs {wanted} or "
            f"later: {_GET_IT}"
        )
    return Tool(path, match[0].removeprefix("Version "))
