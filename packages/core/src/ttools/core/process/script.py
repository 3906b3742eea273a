"""Runs a user's script exactly as `python` would.

This module sets `__main__`, `sys.argv` and `sys.path[0]`, and converts the end of the script to an
exit code. A target has the same forms as on Python's command line: a path, `-m MODULE` or `-c
CODE`.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import io
import linecache
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Literal

from ttools.core.errors import FailuresError, KernelError, TtoolsError, UsageError
from ttools.core.ownership import is_program_frame, owner_of_frame
from ttools.core.process.interruptible import stop_other_threads
from ttools.core.process.launch_frames import hide_launch_frames
from ttools.core.process.process_end import ScriptEnd, keep_until_end

_CODE_FILE = "<string>"
_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


@dataclass(frozen=True, kw_only=True)
class Target:
    """A program to run.

    Attributes:
        kind: Form of the target, which determines the meaning of `name`.
        name: A path (of a file, a directory or archive with `__main__.py`, or `-` for standard
            input), a module's name, or source code.
        arguments: `sys.argv[1:]` of the script.
    """

    kind: Literal["script", "module", "code"]
    name: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return {"script": self.name, "module": f"-m {self.name}", "code": "-c"}[self.kind]


@dataclass(frozen=True)
class _Program:
    """A target that is ready to execute."""

    path0: str
    argv0: str
    compile: Callable[[], CodeType]
    file: str | None = None
    spec: ModuleSpec | None = None


Execute = Callable[[CodeType, dict[str, object]], None]
OnError = Callable[[BaseException], None]
#: Function that reports an exception in place of a traceback; returns False if the traceback should
#: be printed.
Report = Callable[[BaseException], bool]


def run_target(
    target: Target,
    execute: Execute = exec,
    *,
    on_error: OnError | None = None,
    report: Report | None = None,
) -> int:
    """Run a script in this process and return the exit code that `python` would give.

    An uncaught exception is printed by `sys.excepthook`, without the frames of this module and of
    the launch machinery. Then the steps of `ScriptEnd` are taken. Finally, `__main__`, `sys.argv`,
    `sys.path` and the working directory are restored.

    Args:
        execute: Function that runs the code in the namespace of `__main__`.
        on_error: Function to call with an uncaught exception of the script after it is printed.
        report: Function to call with the exception before it is printed; it returns False if the
            traceback should be printed.

    Raises:
        UsageError: There is no such file or module.
        TtoolsError: The script raised this exception. However, `KernelError` and `FailuresError`
            count as ordinary failures of the script.
    """
    saved_path, saved_argv = list(sys.path), sys.argv
    saved_main = sys.modules["__main__"]
    folder = working_folder()
    try:
        if not getattr(sys.flags, "safe_path", False):
            # At this point, the first entry is the folder of our own entry point; under `python`,
            # it would be the script's folder.
            sys.path[0:1] = [_path0(target)]
        program = _PREPARE[target.kind](target)
        if not getattr(sys.flags, "safe_path", False):
            sys.path[0] = program.path0
        sys.argv = [program.argv0, *target.arguments]
        module = _main_module(program)
        keep_until_end(module)
        sys.modules["__main__"] = module
        with ScriptEnd() as end:
            try:
                code = _execute(program, module, execute, on_error, report)
            except TtoolsError:
                end.finish()  # the script has ended in this case, too
                raise
            try:
                end.finish()
            except KeyboardInterrupt:
                return _INTERRUPTED
        return code
    finally:
        sys.modules["__main__"] = saved_main
        sys.argv, sys.path[:] = saved_argv, saved_path
        return_to(folder)


def working_folder() -> Path | None:
    """Return the working directory, or None if it no longer exists."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def return_to(folder: Path | None) -> None:
    """Change back to a directory if it is known and still exists."""
    if folder is not None and working_folder() != folder:
        with contextlib.suppress(OSError):
            os.chdir(folder)


def _path0(target: Target) -> str:
    """Return the entry of `sys.path` that is needed to find the target."""
    return {"script": str(Path(target.name).parent), "module": str(Path.cwd()), "code": ""}[
        target.kind
    ]


def _main_module(program: _Program) -> ModuleType:
    module = ModuleType("__main__")
    # Only in `__main__` is `__builtins__` the module itself instead of its dictionary.
    module.__dict__.update(__builtins__=builtins, __annotations__={}, __spec__=program.spec)
    if program.spec is not None:
        module.__package__ = program.spec.parent
        module.__loader__ = program.spec.loader
    elif program.file is not None:
        module.__loader__ = SourceFileLoader("__main__", program.file)
    else:
        module.__loader__ = BuiltinImporter
    if program.file is not None:
        module.__file__ = program.file
        module.__dict__["__cached__"] = program.spec.cached if program.spec else None
    return module


# --- the forms of a target --------------------------------------------------------------------


def _prepare_script(target: Target) -> _Program:
    if target.name == "-":
        return _Program("", "-", lambda: _compile_text(sys.stdin.read(), "<stdin>"))
    path = Path(target.name)
    if not path.exists():
        raise UsageError(f"there is no file `{target.name}`")
    if path.is_dir() or path.suffix in (".zip", ".pyz"):
        return _prepare_container(target.name)
    # If the file is a symbolic link, Python uses the directory of the file that the link points to.
    directory = str(path.resolve().parent)
    file = os.path.join(os.getcwd(), target.name)  # noqa: PTH109, PTH118 - Python keeps `./` too
    return _Program(directory, target.name, lambda: _compile_file(file), file=file)


def _prepare_container(name: str) -> _Program:
    """Prepare a directory or archive, whose `__main__.py` Python runs as `__main__`."""
    spec = PathFinder.find_spec("__main__", [name])
    if spec is None:
        raise UsageError(f"can't find a `__main__` module in `{name}`")
    path0 = os.path.join(os.getcwd(), name)  # noqa: PTH109, PTH118
    return _Program(path0, name, lambda: _loader_code(spec), file=spec.origin, spec=spec)


def _prepare_module(target: Target) -> _Program:
    name = target.name
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{name}.__main__"
            spec = importlib.util.find_spec(name)
    except UsageError:
        raise  # raised by a parent package, which is imported to find the module
    except (ModuleNotFoundError, ValueError) as error:
        raise UsageError(f"no module named `{name}`: {error}") from error
    if spec is None:
        hint = f"; `{target.name}` is a package without `__main__`" if name != target.name else ""
        raise UsageError(f"no module named `{name}`{hint}")
    module_spec = spec
    origin = module_spec.origin or name
    return _Program(
        str(Path.cwd()),
        origin,
        lambda: _loader_code(module_spec),
        file=module_spec.origin,
        spec=module_spec,
    )


def _prepare_code(target: Target) -> _Program:
    return _Program("", "-c", lambda: _compile_text(target.name, _CODE_FILE))


_PREPARE: dict[str, Callable[[Target], _Program]] = {
    "script": _prepare_script,
    "module": _prepare_module,
    "code": _prepare_code,
}


def _compile_file(path: str) -> CodeType:
    # Like Python itself, read the script with `open_code`, which raises an audit event.
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _compile_text(source: str, name: str) -> CodeType:
    # Tracebacks and `inspect`, and therefore `@triton.jit`, read the source from linecache.
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return compile(source, name, "exec", dont_inherit=True)


def _loader_code(spec: ModuleSpec) -> CodeType:
    get_code = getattr(spec.loader, "get_code", None)
    code = get_code(spec.name) if get_code is not None else None
    if code is None:
        raise UsageError(f"no code object available for `{spec.name}`")
    return code  # type: ignore[no-any-return]


# --- running ----------------------------------------------------------------------------------


def _execute(
    program: _Program,
    module: ModuleType,
    execute: Execute,
    on_error: OnError | None,
    report: Report | None,
) -> int:
    try:
        execute(program.compile(), module.__dict__)
        code = 0
    except SystemExit as error:
        code = _exit_code(error.code)
    except (KernelError, FailuresError) as error:
        code = _report(error)
    except TtoolsError as error:
        if location := user_location(error):
            error.add_during(f"running {location}")
        raise
    except BaseException as error:  # noqa: BLE001 - the script ends here, whatever ended it
        ours = _ours_in(error)
        if ours is not None and not isinstance(ours, KernelError):
            if location := user_location(error):
                ours.add_during(f"running {location}")
            raise ours from None
        code = 1 if report is not None and report(error) else _report(error)
        if on_error is not None:
            on_error(error)
    return code


def _ours_in(error: BaseException) -> TtoolsError | None:
    """Return the error of ttools that an exception of `torch.compile` wraps, if there is one."""
    inner = getattr(error, "inner_exception", None)
    return inner if isinstance(inner, TtoolsError) else None


def _exit_code(code: object) -> int:
    """Return the exit code for `sys.exit(code)`."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)  # noqa: T201 - as Python does
    return 1


def _report(error: BaseException) -> int:
    """Print an uncaught exception as Python would and return the exit code."""
    _strip_our_frames(error)
    hide_launch_frames(error)
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as leaving:
        return _exit_code(leaving.code)
    except Exception as failure:  # noqa: BLE001 - the user's hook may raise anything
        print("Error in sys.excepthook:", file=sys.stderr)  # noqa: T201
        traceback.print_exception(failure)
        print("\nOriginal exception was:", file=sys.stderr)  # noqa: T201
        traceback.print_exception(error)
    if not isinstance(error, KeyboardInterrupt):
        return 1
    stop_other_threads()
    return _INTERRUPTED


def _strip_our_frames(error: BaseException) -> None:
    """Remove the outer frames up to this module's; as in Python, a SyntaxError then has none."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    # A failed compilation leaves frames of importlib.
    while frames is not None and _is_importlib(frames.tb_frame):
        frames = frames.tb_next
    error.__traceback__ = frames


def _is_importlib(frame: FrameType) -> bool:
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package in ("importlib", "zipimport") and owner_of_frame(frame) == "python"


def user_location(error: BaseException) -> str | None:
    """Return the innermost `file:line` of the user's program in an exception's traceback."""
    location = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_program_frame(frame):
            location = f"{frame.f_code.co_filename}:{line}"
    return location
