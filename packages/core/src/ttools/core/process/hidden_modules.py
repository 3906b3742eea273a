"""Files of the user's that hide packages: a `torch.py` in the folder where Python looks first."""

from __future__ import annotations

import os
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path
from types import ModuleType

_MOST_NAMED = 3
#: Packages beside the standard library that no script means to replace.
_ESSENTIAL = ("numpy", "torch", "triton")


def hiding_files(folder: Path) -> dict[str, Path]:
    """Return the files of a folder that are imported in the place of installed modules.

    Args:
        folder: The folder where Python looks first: that of the script, or the current one.

    Returns:
        For each hidden module, of an installed package or of the standard library, the file that
        hides it.
    """
    try:
        names = {each.stem for each in folder.iterdir() if each.stem.isidentifier()}
    except OSError:
        return {}
    here = os.path.realpath(folder)
    others = [each for each in sys.path if os.path.realpath(each) != here]
    hidden = {}
    for name in sorted(names):
        own = PathFinder.find_spec(name, [str(folder)])
        # A folder without `__init__.py` has no origin, and comes after all packages on the path.
        if own is None or own.origin is None or PathFinder.find_spec(name, others) is None:
            continue
        # Modules that are compiled into Python come before all folders.
        if BuiltinImporter.find_spec(name) is None and FrozenImporter.find_spec(name) is None:
            hidden[name] = Path(own.origin)
    return hidden


def hiding_advice(folder: Path, error: BaseException | None = None) -> str | None:
    """Return a sentence that names the files of a folder that hide modules; None without any.

    Args:
        folder: The folder where Python looks first.
        error: If given, only a module that this exception says lacks something counts.
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
    """Return the top-level module of which an exception says that it lacks something."""
    name = None
    if isinstance(error, ImportError):
        name = error.name
    elif isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        name = error.obj.__name__
    return name and name.partition(".")[0]


def is_essential(name: str | None) -> bool:
    """Return whether no script replaces a module on purpose.

    That is clear of the standard library, torch, Triton and NumPy. A `config.py` may be meant to
    come before an installed package of that name.
    """
    return name in _ESSENTIAL or name in sys.stdlib_module_names
