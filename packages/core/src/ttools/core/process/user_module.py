"""Loads files that a user names, alone or as `FILE.py:NAME`, as modules.

A file is loaded as an import from its folder would load it: the folder comes first on `sys.path`,
so that the file can import other files of the folder, and an unchanged file runs only once. The
module has the name of the file unless that name belongs to another loaded module or to the standard
library. For example, a file `random.py` becomes the module `random_2`, so that `import random`
still imports Python's module.
"""

from __future__ import annotations

import importlib.util
import linecache
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from inspect import isroutine
from itertools import count
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Literal

from ttools.core.errors import UsageError
from ttools.core.ownership import is_program_file

#: Exception messages are truncated to this length, since they may contain whole arrays.
_LONGEST_TEXT = 2000

#: Digests of the files that were loaded here, by module name.
_loaded: dict[str, bytes] = {}


class _SourceLoader(SourceFileLoader):
    """Loads the current content of a file, without cached bytecode.

    Python uses cached bytecode if the size of the file and its modification time in seconds are
    unchanged, which can also be true for a file that was edited twice within a second.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the file, compiled from its source."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class LoadError(UsageError):
    """A file cannot be loaded, or lacks a requested function.

    Attributes:
        reason: The message without the file, such as "cannot be loaded: ValueError: no".
    """

    def __init__(self, file: str | Path, reason: str) -> None:
        super().__init__(f"`{file}` {reason}")
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return _load_error_again, (self.message, self.reason)


def split_word(word: str, what: Literal["function", "kernel"] = "function") -> tuple[Path, str]:
    """Split `FILE.py:NAME` into file and name; NAME may have dots.

    Args:
        what: Description of the object that the word names, for error messages.

    Raises:
        UsageError: The word does not have this form, or there is no such file.
    """
    file, _, name = word.rpartition(":")
    if not file or not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"`{word}`: write a {what} as FILE.py:{what.upper()}")
    return require_file(file), name


def require_file(file: str | Path) -> Path:
    """Return the path of an existing file.

    Raises:
        UsageError: There is no such file.
    """
    path = Path(file)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        is_file = False
    if not is_file:
        raise UsageError(f"there is no file `{file}`")
    return path


def load_file(file: str | Path) -> ModuleType:
    """Load a Python file as a module that other modules can import.

    The file runs only if it has not run before, or has changed since then.

    Raises:
        UsageError: There is no such file.
        LoadError: The file is not a Python file, or its code raises an exception or exits.
    """
    path = require_file(file).resolve()
    name = _free_name(path)
    try:
        digest = sha256(path.read_bytes()).digest()
    except OSError as error:
        raise LoadError(file, f"cannot be loaded: {describe(error)}") from error
    if name in sys.modules and _loaded.get(name, digest) == digest:
        return sys.modules[name]
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError(file, "is not a Python file")
    if isinstance(spec.loader, SourceFileLoader):
        spec.loader = _SourceLoader(name, str(path))
    replaced = sys.modules.get(name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        if replaced is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = replaced
        if not isinstance(error, (Exception, SystemExit)):
            raise
        raise LoadError(file, f"cannot be loaded: {describe(error)}") from error
    _loaded[name] = digest
    return sys.modules.get(name, module)


def load_functions(words: Sequence[str]) -> list[tuple[ModuleType, Any]]:
    """Return the module and the function that each word names.

    Args:
        words: Names as `FILE.py:NAME`, where NAME may have dots.

    Raises:
        UsageError: A word does not have this form, or there is no such file.
        LoadError: A file cannot be loaded, or has no such function.
    """
    functions = []
    for word in words:
        path, name = split_word(word)
        module = load_file(path)
        functions.append((module, function_of(module, name, path)))
    return functions


def function_of(module: ModuleType, name: str, file: str | Path) -> Any:
    """Return a function of a module by its name, which may have dots.

    Args:
        file: The file as the user named it, for error messages.

    Raises:
        LoadError: The module has no such function.
    """
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part, None)
    if not callable(value):
        names = [key for key, member in vars(module).items() if isroutine(member)]
        close = get_close_matches(name, names)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise LoadError(file, f"has no function `{name}`{hint}")
    return value


def describe(error: BaseException) -> str:
    """Describe an exception by its type, message and innermost line of the program."""
    text = str(error).strip()[:_LONGEST_TEXT]
    line = program_line(error)
    return f"{type(error).__name__}{': ' * bool(text)}{text}{' at ' * bool(line)}{line}"


def program_line(error: BaseException) -> str:
    """Return the innermost `file:line: text` of the program in an exception's traceback.

    The result is empty if the traceback contains no such line, as for a syntax error, whose message
    names the line.
    """
    frame = program_frame(error)
    if frame is None:
        return ""
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f"{Path(frame.filename).name}:{frame.lineno}: {line}"


def program_frame(error: BaseException) -> traceback.FrameSummary | None:
    """Return the program's innermost frame in an exception's traceback; None if it has none."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return next((frame for frame in frames if is_program_file(frame.filename)), None)


def _free_name(path: Path) -> str:
    """Return a name for the module of a file that does not conflict with any other module."""
    stem = path.stem.replace(".", "_")
    names = (f"{stem}_{number}" if number > 1 else stem for number in count(1))
    return next(name for name in names if _may_have(name, path))


def _may_have(name: str, path: Path) -> bool:
    if name in sys.stdlib_module_names:
        return False
    other = sys.modules.get(name)
    if other is None:
        return name not in sys.modules  # an entry with the value None forbids an import
    file = getattr(other, "__file__", None)
    return isinstance(file, str) and Path(file).resolve() == path


def _load_error_again(message: str, reason: str) -> LoadError:
    error = LoadError("", reason)
    error.message = message
    error.args = (message,)
    return error
