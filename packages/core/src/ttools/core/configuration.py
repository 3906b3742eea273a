"""The environment variables of ttools, and those of Triton that affect it.

Every package reads its variables through this table, and `ttools doctor` prints it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ttools.core.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Variable:
    """An environment variable that changes what ttools does.

    Attributes:
        meaning: Effect of the variable in one phrase, shown by `ttools doctor`.
        choices: The allowed values; if empty, any value is allowed.
    """

    name: str
    meaning: str
    choices: tuple[str, ...] = ()


_MEANINGS = {
    "TTOOLS_BACKEND": "`off` keeps ttools from becoming Triton's driver",
    "TTOOLS_CACHE": "`off` disables the cache of compiled kernels on disk",
    "TTOOLS_CACHE_DIR": "folder of the cache of compiled kernels",
    "TTOOLS_COMPUTE_SANITIZER": "the compute-sanitizer that `--on gpu` runs",
    "TTOOLS_CPU": "the LLVM CPU to compile for, such as `x86-64-v3`",
    "TTOOLS_DEVICE_MAP": "what stands in for CUDA devices: `cuda=cpu[,capability=X.Y][,sms=N]` "
    "or `off`",
    "TTOOLS_DOT": "matrix products: as-written, exact or tensor-core",
    "TTOOLS_MAX_PARKED": "how many programs of a launch may wait at once",
    "TTOOLS_OPT": "LLVM's optimisation level, 0 to 3",
    "TTOOLS_PROGRESS": "`off` hides progress bars in terminals and progress lines in pipes",
    "TTOOLS_QUIET": "`1` hides the message that kernels run on the CPU",
    "TTOOLS_THREADS": "threads per launch; torch.get_num_threads() by default",
    "TTOOLS_UNSAFE": "`1` performs accesses outside of tensors, which are skipped by default",
    "TRITON_INTERPRET": "Triton's own interpreter, for kernels decorated while it is set; ttools "
    "commands unset it",
    "TRITON_DEFAULT_BACKEND": "name of the backend that Triton uses",
    "TRITON_CACHE_DIR": "folder of Triton's own compilation cache",
    "TRITON_DEBUG": "`1` enables `tl.device_assert`",
    "TRITON_ALWAYS_COMPILE": "`1` ignores Triton's cache",
    "TRITON_BACKENDS_IN_TREE": "`1` hides plugins from Triton, including that of ttools",
}
_CHOICES = {
    **dict.fromkeys(("TTOOLS_BACKEND", "TTOOLS_PROGRESS"), ("off", "auto")),
    "TTOOLS_UNSAFE": ("0", "1"),
}
VARIABLES = tuple(
    Variable(name=name, meaning=text, choices=_CHOICES.get(name, ()))
    for name, text in _MEANINGS.items()
)
_COMMANDS = (
    "INTERPRET",
    "REPLAY",
    "SANITIZE",
    "PROVE",
    "PROFILE",
    "TUNE",
    "INSPECT",
    "RECORD",
    "VERIFY",
    "DOCTOR",
    "LSP",
)
_BY_NAME = {variable.name: variable for variable in VARIABLES}


def read(name: str) -> str | None:
    """Return the value of a variable in the table, or None if it is unset or empty.

    Raises:
        UsageError: The value is not one of the variable's choices.
    """
    variable = _BY_NAME[name]
    value = os.environ.get(name, "").strip()
    if not value:
        return None
    if variable.choices and value.lower() not in variable.choices:
        choices = " or ".join(f"`{choice}`" for choice in variable.choices)
        raise UsageError(f"{name} is `{value}`, but must be {choices} (or unset)")
    return value.lower() if variable.choices else value


def cache_directory() -> Path:
    """Return the folder of compiled kernels: `TTOOLS_CACHE_DIR`, else the user's cache folder."""
    chosen = read("TTOOLS_CACHE_DIR")
    if chosen is not None:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("ttools"))


def relevant_environment() -> dict[str, str]:
    """Return all variables named `TTOOLS_*` or `TRITON_*` that are set, even unknown ones."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(("TTOOLS_", "TRITON_"))
    }


def meaning(name: str) -> str | None:
    """Return the effect of a variable, or None if it is not in the table."""
    variable = _BY_NAME.get(name)
    return variable.meaning if variable else None


def is_unknown(name: str) -> bool:
    """Return whether a name starts with `TTOOLS_` but is no variable of ttools, as after a typo.

    Variables that set an option of a command, such as `TTOOLS_SANITIZE_FAIL_ON`, are checked by the
    command line.
    """
    if name.startswith(tuple(f"TTOOLS_{command}_" for command in _COMMANDS)):
        return False
    return name.startswith("TTOOLS_") and name not in _BY_NAME
