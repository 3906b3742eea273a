"""Entry point of the `ttools` command, deliberately outside the `ttools` namespace.

`ttools` is a PEP 420 namespace shared by several distributions. A regular package or module with
that name on `sys.path`, such as the unrelated `ttools` of the package index, hides all of them, and
the command would fail with a bare `ModuleNotFoundError`. This file checks for that first.
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
    """Return the file that `import ttools` would run, or None for a proper namespace.

    Args:
        spec: Import spec of `ttools`; a namespace has no file of its own.
    """
    return None if spec is None else spec.origin


def owner(origin: str) -> str | None:
    """Return the name of the installed distribution that a file belongs to, or None."""
    wanted = Path(origin).resolve()
    for distribution in distributions():
        for file in distribution.files or ():
            # Names are compared first: resolving every file of every distribution would take
            # seconds.
            if file.name == wanted.name and Path(str(file.locate())).resolve() == wanted:
                return distribution.metadata["Name"]
    return None


def shadowing_message(origin: str, distribution: str | None) -> str:
    """Return an explanation of what hides the namespace, with a remedy.

    Args:
        origin: The file that `import ttools` would run.
        distribution: The distribution that owns the file, if any.
    """
    if distribution is not None:
        offender = f"the installed distribution `{distribution}`"
        remedy = f"run `{sys.executable} -m pip uninstall {distribution}`"
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
    """Run the command line, or exit with 3 and an explanation if the namespace is shadowed."""
    # PathFinder ignores `sys.modules`, where an unrelated `ttools` may already be loaded.
    origin = shadowing_origin(PathFinder.find_spec(NAMESPACE))
    if origin is not None:
        print(shadowing_message(origin, owner(origin)), file=sys.stderr)
        raise SystemExit(EXIT_TOOL_FAILURE)
    atexit.register(_hasten_end)  # registered first, so called last
    try:
        gc.disable()  # imports create no garbage, so collections would only cost time
        from ttools.cli.app import main as run

        gc.enable()
        run()
    except KeyboardInterrupt:  # before there is anything to report, or after
        raise SystemExit(EXIT_INTERRUPTED) from None


def _hasten_end() -> None:
    ending = sys.modules.get("ttools.core.process.process_end")
    if ending is not None:
        ending.hasten_end()


if __name__ == "__main__":
    main()
