"""Shell completion: values of options, kernels, second words of commands, and files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

#: Extensions of files that commands run.
_RUN = (".py", ".ttir", ".tt")
#: Maximum number of files that are searched for kernels.
_MOST_FILES = 50


def checks(incomplete: str) -> list[str]:
    """Complete the name of a check; in a list separated by commas, complete the last name."""
    from ttools.sanitizer.checks.registry import CHECKS

    head, comma, last = incomplete.rpartition(",")
    return [head + comma + name for name in _beginning([*CHECKS, "default", "all"], last)]


def gpus(incomplete: str) -> list[str]:
    """Complete names of GPUs, such as `h100`, and of architectures, such as `sm_90`."""
    from ttools.core.gpus.products import DEVICES
    from ttools.core.gpus.targets import ARCHITECTURES

    return _beginning([*DEVICES, *ARCHITECTURES], incomplete)


def cuda_gpus(incomplete: str) -> list[str]:
    """Complete names of the GPUs and architectures that the device map can emulate."""
    from ttools.core.gpus.devices import read_gpu

    return [name for name in gpus(incomplete) if read_gpu(name).target.backend == "cuda"]


def stages(incomplete: str) -> list[str]:
    """Complete names of a compiler's stages, such as `ttgir`."""
    from ttools.core.compilation.stages import STAGES

    names = (name for listed in STAGES.values() for name in listed)
    return _beginning(dict.fromkeys(names), incomplete)


def instruments(incomplete: str) -> list[str]:
    """Complete modes of Triton's instrumentation; in a comma-separated list, the last mode."""
    from ttools.sanitizer.gpu.instrumentation import MODES

    head, comma, last = incomplete.rpartition(",")
    return [head + comma + name for name in _beginning(MODES, last)]


def device_maps(incomplete: str) -> list[str]:
    """Complete device maps, and the properties that can be set in them."""
    head, comma, last = incomplete.rpartition(",")
    names = ["capability=", "sms="] if comma else ["cuda=cpu", "off"]
    return [head + comma + name for name in _beginning(names, last)]


def kernels(incomplete: str) -> list[str]:
    """Complete names of kernels in the scripts on the command line, else in the current folder."""
    from ttools.cli.kernel_file import kernels_in

    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = [Path(word.rpartition(":")[0] or word) for word in line.split()]
    scripts = [word for word in words if word.suffix == ".py"] or sorted(Path().glob("*.py"))
    names = dict.fromkeys(name for file in scripts[:_MOST_FILES] for name in kernels_in(file))
    return _beginning(names, incomplete)


def words_or_scripts(words: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a function that completes second words of commands or files to run.

    Args:
        words: Second words of the command.
    """

    def complete(incomplete: str) -> list[str]:
        return [*_beginning(words, incomplete), *_files(incomplete)]

    return complete


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _files(incomplete: str) -> list[str]:
    """Return files and folders whose paths begin with the incomplete word."""
    head = incomplete[: incomplete.rfind("/") + 1]
    try:
        entries = sorted(Path(head or ".").iterdir())
    except OSError:
        return []
    paths = [f"{head}{entry.name}" + "/" * entry.is_dir() for entry in entries]
    shown = [path for path in paths if path.endswith((*_RUN, "/"))]
    return [path for path in _beginning(shown, incomplete) if path[len(head) :][:1] != "."]
