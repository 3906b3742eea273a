"""The work of a command: a script, module or code, a launch of a `.ttir` file, or a record.

It is read from the command line, and runs on this machine's devices or, under a device map, on the
CPU in place of CUDA devices.
"""

from __future__ import annotations

import ast
import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ttools.cli.console import say, show_error
from ttools.cli.launch_files import KernelFile, Replay, read_launch, run_launch, run_replay
from ttools.cli.targets import RECORD_SUFFIX, TTIR_SUFFIX, kernels_path, read_target
from ttools.core.configuration import read
from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.imports import after_import, import_quickly
from ttools.core.process.hidden_modules import hiding_advice, is_essential, lacking_module
from ttools.core.process.script import OnError, Target, run_target, user_location

if TYPE_CHECKING:
    from ttools.sanitizer import Sanitization

Work = KernelFile | Replay | Target
ADVICE = "`ttools sanitize` finds out-of-bounds accesses without crashing"
#: Parts of torch's error messages after an invalid memory access by a kernel.
_WILD = ("illegal memory access", "misaligned address", "address space", "unspecified launch fail")


def read_work(
    words: Sequence[str],
    *,
    module: str | None,
    code: str | None,
    grid: str | None,
    arguments: Sequence[str],
    dump_outputs: Path | None = None,
) -> Work:
    """Return the work that the command line names.

    Raises:
        UsageError: It names nothing that can be run, or gives a script the options of a launch.
    """
    named = module is None and code is None
    ttir = kernels_path(words, TTIR_SUFFIX) if named else None
    if ttir is not None:
        return read_launch(ttir, grid, arguments)
    record = kernels_path(words, RECORD_SUFFIX) if named else None
    if record is not None:
        _refuse({"--grid": grid, "--arg": arguments}, "a record has its own grids")
        return Replay(path=record)
    launch_options: dict[str, object] = {
        "--grid": grid,
        "--arg": arguments,
        "--dump-outputs": dump_outputs,
    }
    _refuse(launch_options, "a script launches its own grids")
    return read_target(words, module, code)


def _refuse(values: Mapping[str, object], why: str) -> None:
    present = [name for name, value in values.items() if value]
    if present:
        raise UsageError(f"{present[0]} is for .ttir files; {why}")


def require_source(work: Work, *options: str) -> None:
    """Reject options that need the Python source of kernels.

    Raises:
        UsageError: The work is not a program.
    """
    if options and not isinstance(work, Target):
        kind = "a record" if isinstance(work, Replay) else "a .ttir file"
        raise UsageError(f"{kind} has no Python source for {' or '.join(options)}")


def run_work(
    work: Work,
    device_map: str | None,
    dump_outputs: Path | None = None,
    quiet: bool = False,
    debug: bool = False,
    advice: str | None = ADVICE,
    on_error: OnError | None = None,
    timeout: float | None = None,
) -> int:
    """Run the work and return its exit status.

    Args:
        work: A script, a launch or a record.
        device_map: Mapping of the CUDA devices that a script names.
        dump_outputs: File for the tensors of launches from a file.
        quiet: If True, tensors that are not saved are not listed either.
        debug: If True, a script runs under the debugger.
        advice: The command that finds invalid accesses, for the message after a crash; None if they
            are found and suppressed.
        on_error: Called with an exception that a script does not catch, after it is printed.
        timeout: Time limit in seconds for a launch from a file, unless the active run has a limit;
            None for the default, 0 for no limit.
    """
    if advice is not None:
        write_crash_notes(advice)
    if isinstance(work, KernelFile):
        return run_launch(work, dump_outputs, quiet, timeout)
    if isinstance(work, Replay):
        return run_replay(work, dump_outputs, quiet, timeout)
    import_quickly("torch")

    def failed(error: BaseException) -> None:
        _note_cause(work, advice, error)
        if on_error is not None:
            on_error(error)

    with devices_for(device_map):
        if not debug:
            return run_target(work, on_error=failed, report=partial(_report_hiding, work))
        from ttools.interpreter.eager.debugging.debugger import debug_script

        return debug_script(lambda execute: run_target(work, execute))


def _report_hiding(work: Target, error: BaseException) -> bool:
    """Report a script's exception if a file that hides a module caused it; return whether it did.

    The traceback is not shown: it would lead into the script or a package, where nothing is wrong.
    """
    hiding = _hiding(work, error)
    if hiding is None or not is_essential(lacking_module(error)):
        return False
    failure = UsageError(f"{error}; {hiding}")
    failure.__cause__ = error
    if location := user_location(error):
        failure.add_during(f"running {location}")
    show_error(failure)
    return True


def _hiding(work: Target, error: BaseException) -> str | None:
    folder = Path(work.name).parent if work.kind == "script" else Path()
    return hiding_advice(folder.absolute(), error)


def _note_cause(work: Target, advice: str | None, error: BaseException) -> None:
    """After a script's traceback, print the cause of the error, or a command that finds it."""
    hiding = _hiding(work, error)
    if hiding is not None and not is_essential(lacking_module(error)):
        say("note", hiding)
    text = str(error)
    if advice == ADVICE and "CUDA error" in text and any(words in text for words in _WILD):
        say("note", "a kernel made an invalid memory access: `ttools sanitize` finds it")


def write_crash_notes(advice: str = ADVICE) -> None:
    """After a crash by an invalid access, name the kernel and the command that finds the access."""

    def write(_: object) -> None:
        from ttools.interpreter.runtime.crash_note import write_crash_note

        write_crash_note(advice)

    after_import("triton", write)


@contextmanager
def surviving(device_map: str | None) -> Iterator[Sanitization | None]:
    """Prevent invalid accesses on the CPU from crashing the process.

    Args:
        device_map: Mapping of the CUDA devices that a script names.

    Yields:
        The run that checks accesses; None on a GPU, where invalid accesses raise exceptions.
    """
    from ttools.core.device_map.mapping import VARIABLE
    from ttools.sanitizer import sanitize

    if gpu_usable() and (device_map or read(VARIABLE) or "off") == "off":
        yield None
        return
    with sanitize(checks="memcheck") as checked:
        yield checked


def take_over_from_upstream(instead: str) -> None:
    """Unset TRITON_INTERPRET and make sure that Triton can write to its cache.

    TRITON_INTERPRET is read when a kernel is decorated.

    Args:
        instead: Clause for the note that says what ttools does instead, such as `ttools
            interprets`.
    """
    if os.environ.pop("TRITON_INTERPRET", "0") not in ("", "0"):
        say("note", f"TRITON_INTERPRET is set; this run ignores it, and {instead} instead")
    _provide_cache()


def _remove(folder: str, owner: int) -> None:
    """Remove a folder when the process that made it ends, but not when one of its forks ends."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


#: Free space in bytes that Triton's cache must have; a kernel needs tens of kilobytes.
_LEAST_SPACE = 1 << 20


def _provide_cache() -> None:
    """Give Triton a temporary cache if it cannot write to its own."""
    home = os.environ.get("TRITON_HOME") or os.path.expanduser("~")  # noqa: PTH111 - as Triton
    chosen = os.environ.get("TRITON_CACHE_DIR") or os.path.join(home, ".triton", "cache")  # noqa: PTH118
    try:
        os.makedirs(chosen, exist_ok=True)  # noqa: PTH103
        with tempfile.TemporaryFile(dir=chosen) as file:
            file.write(bytes(_LEAST_SPACE))  # a full disk still accepts empty files
            return
    except (OSError, ValueError) as error:
        folder = tempfile.mkdtemp(prefix="ttools-triton-cache-")
        atexit.register(_remove, folder, os.getpid())
        os.environ["TRITON_CACHE_DIR"] = folder
        reason = getattr(error, "strerror", None) or str(error)
        say(
            "note",
            f"Triton cannot write to its cache {chosen} ({reason}): this run uses a temporary one",
        )


@contextmanager
def devices_for(choice: str | None) -> Iterator[None]:
    """Map CUDA devices to the CPU if requested, or by default if there is no GPU.

    Args:
        choice: Value of `--device-map`; by default that of `TTOOLS_DEVICE_MAP`.

    Raises:
        UsageError: The value is not a valid device map.
    """
    from ttools.core.device_map.mapping import devices_by_default

    def announce() -> None:
        say("note", "no GPU here: the CPU stands in for cuda:0 (--device-map off to disable)")

    with devices_by_default(choice, announce):
        yield


def without_statements(work: Work) -> str:
    """Return an explanation if a script cannot launch anything, to append to a note.

    For example, a JSON file is a valid Python expression, and an empty file is a valid program.
    """
    if not isinstance(work, Target) or work.kind != "script" or not Path(work.name).is_file():
        return ""
    try:
        tree = ast.parse(Path(work.name).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    if any(isinstance(node, (ast.Call, ast.Import, ast.ImportFrom)) for node in ast.walk(tree)):
        return ""
    what = "is a value, not a program" if tree.body else "is empty"
    return f": `{work.name}` {what}"
