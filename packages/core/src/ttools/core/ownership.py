"""Determines who owns the code of a file, a frame, a function, a class or a module.

The owner is determined from the folders in which packages are installed, as Python's import system
and `sysconfig` report them. The names of parent folders are never used, because a user's project
may lie in a folder called `triton`, `ttools` or `site-packages`. Folders are compared after
symbolic links have been resolved. There are functions for different purposes:

- `owner_of_file`, `owner_of_frame`, `owner_of_function`, `owner_of_class` and `owner_of_module`
  return the owner, such as `torch` or the user;
- `is_program_frame` and `is_program_file` recognise lines that a report shows as the user's own;
- `is_library_file` recognises installed code, whoever wrote it;
- `is_triton_file` recognises Triton's own functions in the locations of a kernel, even if the
  kernel was compiled on another machine.
"""

from __future__ import annotations

import importlib.util
import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Literal

Owner = Literal["ttools", "triton", "torch", "numpy", "ml_dtypes", "python", "installed", "user"]

_ENTRY = "ttools_entry"
#: The importable packages and single modules of each owner. The members of `ttools` are listed
#: individually, because `ttools` is a namespace package, which includes every folder of that name
#: on the import path, even a user's.
_PACKAGES: dict[str, Owner] = {
    **dict.fromkeys(
        (
            *("ttools.core", "ttools.ir", "ttools.interpreter", "ttools.watch", "ttools.sanitizer"),
            *("ttools.prove", "ttools.profiler", "ttools.tuner", "ttools.fuzz", "ttools.verifier"),
            "ttools.cli",
            *("ttools_triton", _ENTRY),
        ),
        "ttools",
    ),
    "triton": "triton",
    "torch": "torch",
    "numpy": "numpy",
    "ml_dtypes": "ml_dtypes",
}
#: Owners of code that is in the call stack of a launch between the user's line and the kernel,
#: including the wrappers and executors of the standard library.
_NOT_PROGRAM: frozenset[Owner] = frozenset({"ttools", "triton", "torch", "python"})
#: TorchInductor writes modules to its cache and gives them names that begin with this prefix.
_WRITTEN_BY_INDUCTOR = "torch._inductor.runtime.compile_tasks."


def owner_of_file(file: str) -> Owner:
    """Return the owner of the code in a file.

    Args:
        file: Path of a source file, which need not exist. Any other text, such as `<string>`, is
            treated as the user's code.
    """
    return _owner_of_file(file, _loaded_packages())


def owner_of_code(code: CodeType, scope: dict[str, Any]) -> Owner:
    """Return the owner of a code object.

    Args:
        scope: The globals in which the code runs. They determine the owner if the code was compiled
            from text, as the methods of a data class are, or if the name of its file is relative.
    """
    file = code.co_filename
    if file.startswith(os.sep):
        owner = owner_of_file(file)
        is_written = str(scope.get("__name__", "")).startswith(_WRITTEN_BY_INDUCTOR)
        return "torch" if owner == "user" and is_written else owner
    if file.startswith("<frozen "):
        return "python"
    name = scope.get("__name__")
    if file.startswith("<") and not name:
        # Triton generates functions that bind arguments as text, and compiles them under the name
        # `<string>`; torch.compile uses other names for its generated code.
        return "triton" if file == "<string>" else "torch"
    module_file = scope.get("__file__")
    if module_file is None and name != "__main__":
        module_file = getattr(sys.modules.get(str(name)), "__file__", None)
    return owner_of_file(module_file if isinstance(module_file, str) else file)


def owner_of_frame(frame: FrameType) -> Owner:
    """Return the owner of the code that a frame runs."""
    return owner_of_code(frame.f_code, frame.f_globals)


def owner_of_function(function: Any) -> Owner:
    """Return the owner of a function, or of the Python function of a Triton kernel.

    Callables without Python code, such as built-in functions, belong to their module.
    """
    function = getattr(function, "fn", function)
    code = getattr(function, "__code__", None)
    if code is not None:
        return owner_of_code(code, getattr(function, "__globals__", {}))
    module = sys.modules.get(str(getattr(function, "__module__", None)))
    return "user" if module is None else owner_of_module(module)


def owner_of_module(module: ModuleType) -> Owner:
    """Return the owner of a module's code; `user` for a namespace package, which has no code."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return owner_of_file(file)
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    return "python" if origin in ("built-in", "frozen") else "user"


def owner_of_class(cls: type) -> Owner:
    """Return the owner of a class, which is the owner of the module that defines it."""
    module = sys.modules.get(cls.__module__)
    return "user" if module is None else owner_of_module(module)


def is_program_file(file: str) -> bool:
    """Return whether a report may show a file as part of the user's program.

    Installed libraries count as part of the program. ttools, Triton, torch and the standard library
    do not count, nor does code that was compiled from a string.
    """
    return not file.startswith("<") and owner_of_file(file) not in _NOT_PROGRAM


def is_program_frame(frame: FrameType) -> bool:
    """Return whether a report may show a frame as part of the user's program.

    In contrast to `is_program_file`, code that the user compiles from a string also counts, such as
    the code of `python -c`.
    """
    return owner_of_frame(frame) not in _NOT_PROGRAM


def is_library_file(file: str) -> bool:
    """Return whether a file belongs to Python, to ttools or to an installed package."""
    return file.startswith("<frozen ") or owner_of_file(file) != "user"


def is_triton_file(file: str) -> bool:
    """Return whether a file is part of Triton, on this machine or on another one.

    Records and `.ttir` files contain paths of the machine on which they were written. A path that
    does not exist on this machine counts as Triton's if the installed Triton has a file of the same
    name below `triton/language/`.
    """
    if owner_of_file(file) == "triton":
        return True
    _, _, inner = file.replace("\\", "/").rpartition("/triton/language/")
    return bool(inner) and _is_absent_file_of_triton(file, inner, _loaded_packages())


def package_folders(owner: Owner) -> tuple[str, ...]:
    """Return the real folders that hold the packages of an owner."""
    return tuple(root for root, whose in _roots(_loaded_packages()) if whose == owner)


@lru_cache(maxsize=1024)
def _is_absent_file_of_triton(file: str, inner: str, loaded: tuple[str | None, ...]) -> bool:
    roots = [root for root, owner in _roots(loaded) if owner == "triton"]
    try:
        return not Path(file).exists() and any(
            Path(root, "language", inner).is_file() for root in roots
        )
    except (OSError, ValueError):  # a name that no file can have
        return False


@lru_cache(maxsize=4096)
def _owner_of_file(file: str, loaded: tuple[str | None, ...]) -> Owner:
    if not file or file.startswith("<"):
        return "user"
    try:
        real = _real_path(file)
    except ValueError:  # a name that no file can have
        return "user"
    for root, owner in _roots(loaded):
        if real == root or real.startswith(root + os.sep):
            return owner
    return "user"


def _real_path(file: str) -> str:
    """Resolve links in a file's folder, but not in the file's name: it may link to a cache."""
    return str(Path(os.path.realpath(Path(file).parent), Path(file).name))


def _loaded_packages() -> tuple[str | None, ...]:
    """Return the files of the packages that this process has imported.

    The folders of packages are looked up again only if these files have changed.
    """
    return tuple([getattr(sys.modules.get(name), "__file__", None) for name in _PACKAGES])


@lru_cache(maxsize=16)
def _roots(loaded: tuple[str | None, ...]) -> tuple[tuple[str, Owner], ...]:
    """Return real folders and single files, each with its owner, the innermost ones first."""
    roots: dict[str, Owner] = {}
    for folder in _installation_folders():
        roots[folder] = "installed"
    for key in ("stdlib", "platstdlib"):
        roots[os.path.realpath(sysconfig.get_path(key))] = "python"
    for (name, owner), file in zip(_PACKAGES.items(), loaded, strict=True):
        origin = _origin(name) if file is None else file
        real = "" if origin is None else _real_path(origin)
        if Path(real).stem == "__init__":
            roots[str(Path(real).parent)] = owner
        elif Path(real).name == f"{_ENTRY}.py":  # a single file such as `torch.py` is the user's
            roots[real] = owner
    return tuple(sorted(roots.items(), key=lambda entry: -len(entry[0])))


def _origin(name: str) -> str | None:
    """Return the file that an import of a package would run; None if there is no such file."""
    with suppress(ImportError, ValueError, AttributeError):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.has_location:
            return spec.origin
    return None


def _installation_folders() -> Iterator[str]:
    """Yield the real folders into which packages are installed for this interpreter."""
    folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    # Old versions of virtualenv replace the module `site` with one that lacks these functions.
    for function in ("getsitepackages", "getusersitepackages"):
        with suppress(AttributeError, OSError):
            answer = getattr(site, function)()
            folders += [answer] if isinstance(answer, str) else answer
    yield from map(os.path.realpath, folders)
