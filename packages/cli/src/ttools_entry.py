"""Entry of the `ttools` command; outside the `ttools` namespace on purpose.

`ttools` is a PEP 420 namespace shared by several distributions. A regular package or module of
that name on `sys.path`, such as the unrelated `ttools` of the package index, hides every member,
and the command would die with a bare `ModuleNotFoundError`. This file owns the check that comes
first, and knows nothing of the command it hands over to.
"""

from __future__ import annotations

import atexit
import gc
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import distributions
from pathlib import Path

EXIT_TOOL_FAILURE = 3
EXIT_INTERRUPTED = 130
NAMESPACE = "ttools"


def shadowing_origin(spec: ModuleSpec | None) -> str | None:
    """Returns the file that `import ttools` would run, or None for a sound namespace.

    Args:
        spec: what the import system finds for `ttools`; a namespace has no file of its own.
    """
    return None if spec is None else spec.origin


def owner(origin: str) -> str | None:
    """Returns the name of the installed distribution that a file belongs to, if any does."""
    wanted = Path(origin).resolve()
    for distribution in distributions():
        for file in distribution.files or ():
            # Resolving every file of every distribution would take seconds.
            if file.name == wanted.name and Path(str(file.locate())).resolve() == wanted:
                return distribution.metadata["Name"]
    return None


def shadowing_message(origin: str, stranger: str | None) -> str:
    """The sentence about what hides the namespace, and what to do.

    Args:
        origin: the file that `import ttools` would run.
        stranger: the distribution that owns the file, if any.
    """
    if stranger is not None:
        offender = f"the installed distribution `{stranger}`"
        remedy = f"run `{sys.executable} -m pip uninstall {stranger}`"
    else:
        offender = "a file that no installed distribution owns"
        remedy = "rename it, or start the command from another directory"
    return (
        f"error: {offender} hides the packages of this tool: `import ttools` runs\n"
        f"       {origin}\n"
        f"help: {remedy}.\n"
        "      This tool is made of `ttools-core`, `ttools-cli` and the other `ttools-*`\n"
        "      distributions; a distribution called plain `ttools` is unrelated to it."
    )


def main() -> None:
    """Runs the command line, or exits with 3 and a sentence when the namespace is shadowed."""
    # PathFinder, not find_spec: an already imported stranger must be recognised by its file too.
    origin = shadowing_origin(PathFinder.find_spec(NAMESPACE))
    if origin is not None:
        print(shadowing_message(origin, owner(origin)), file=sys.stderr)
        raise SystemExit(EXIT_TOOL_FAILURE)
    atexit.register(_hasten_end)  # first, so that it is called last
    try:
        gc.disable()  # nothing that is imported becomes garbage
        from ttools.cli.app import main as run

        gc.enable()
        run()
    except KeyboardInterrupt:  # before there is anything to report, or after
        raise SystemExit(EXIT_INTERRUPTED) from None


def _hasten_end() -> None:
    ending = sys.modules.get("ttools.core.process.ending")
    if ending is not None:
        ending.hasten_end()


if __name__ == "__main__":
    main()
