"""What the shell completes: names of checks, GPUs and architectures, and what a command takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

#: Endings of the files that commands run.
_RUN = (".py", ".ttir", ".tt")


def checks(incomplete: str) -> list[str]:
    """Names of checks; the last one of a list that commas separate."""
    from ttools.sanitizer.checks.registry import CHECKS

    head, comma, last = incomplete.rpartition(",")
    return [head + comma + name for name in _beginning([*CHECKS, "default", "all"], last)]


def devices(incomplete: str) -> list[str]:
    """Names of GPUs."""
    from ttools.core.gpus.products import DEVICES

    return _beginning(DEVICES, incomplete)


def architectures(incomplete: str) -> list[str]:
    """Names of targets: `sm_90`, `gfx942`."""
    from ttools.core.gpus.targets import ARCHITECTURES

    return _beginning(ARCHITECTURES, incomplete)


def gpus(incomplete: str) -> list[str]:
    """Names of GPUs and of targets."""
    return [*devices(incomplete), *architectures(incomplete)]


def words_or_scripts(words: Sequence[str]) -> Callable[[str], list[str]]:
    """Return what completes second words of commands, or files that the command runs.

    Args:
        words: the second words.
    """

    def complete(incomplete: str) -> list[str]:
        return [*_beginning(words, incomplete), *_files(incomplete)]

    return complete


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _files(incomplete: str) -> list[str]:
    """Files and folders whose path begins so."""
    head = incomplete[: incomplete.rfind("/") + 1]
    try:
        found = sorted(Path(head or ".").iterdir())
    except OSError:
        return []
    paths = [f"{head}{each.name}" + "/" * each.is_dir() for each in found]
    shown = [path for path in paths if path.endswith((*_RUN, "/"))]
    return [path for path in _beginning(shown, incomplete) if path[len(head) :][:1] != "."]
