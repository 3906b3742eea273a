"""Detection of user files that hide packages, such as a `torch.py` next to the script."""

from __future__ import annotations

import os
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path
from types import ModuleType

_MOST_NAMED = 3
#: Third-party packages that a script never replaces on purpose.
_ESSENTIAL = ("numpy", "torch", "triton")


def hiding_files(folder: Path) -> dict[str, Path]:
    """Return the files of a folder that are imported in place of installed modules.

    Args:
        folder: The first folder of `sys.path`: that of the script, or the current one.

    Returns:
        Maps the name of each hidden module (of an installed package or the standard library) to the
        file that hides it.
    """
    try:
        names = {entry.stem for entry in folder.iterdir() if entry.stem.isidentifier()}
    except OSError:
        return {}
    real_folder = os.path.realpath(folder)
    other_paths = [entry for entry in sys.path if os.path.realpath(entry) != real_folder]
    hidden = {}
    for name in sorted(names):
        spec = PathFinder.find_spec(name, [str(folder)])
        # A folder without `__init__.py` has no origin. It hides no package, because Python searches
        # the whole path for packages first.
        if spec is None or spec.origin is None or PathFinder.find_spec(name, other_paths) is None:
            continue
        # Modules that are compiled into Python take precedence over all folders.
        if BuiltinImporter.find_spec(name) is None and FrozenImporter.find_spec(name) is None:
            hidden[name] = Path(spec.origin)
    return hidden


def hiding_advice(folder: Path, error: BaseException | None = None) -> str | None:
    """Return a sentence about the files of a folder that hide modules; None if there are none.

    Args:
        folder: The first folder of `sys.path`.
        error: An exception about a name that is missing in a module. If given, the sentence is only
            about a file that hides this module.
    """
    hidden = hiding_files(folder)
    if error is not None:
        lacking = lacking_module(error)
        hidden = {name: file for name, file in hidden.items() if name == lacking}
    if not hidden:
        return None
    named = [f"`{file}` hides `{name}`" for name, file in list(hidden.items())[:_MOST_NAMED]]
    more = len(hidden) - len(named)
    named += [f"{more} more files hide modules"] if more else []
    file = "the file" if len(hidden) == 1 else "the files"
    return f"{', '.join(named)}: rename {file}"


def lacking_module(error: BaseException) -> str | None:
    """Return the top-level module that, according to an exception, lacks a name."""
    name = None
    if isinstance(error, ImportError):
        name = error.name
    elif isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        name = error.obj.__name__
    return name and name.partition(".")[0]


def is_essential(name: str | None) -> bool:
    """Return whether a file that hides a module is certainly a mistake.

    This is the case for names of the standard library, torch, Triton and NumPy. In contrast, a
    user's `config.py` may hide an installed package of that name on purpose.
    """
    return name in _ESSENTIAL or name in sys.stdlib_module_names
