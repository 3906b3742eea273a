"""Checks whether Triton's parser can safely read TTIR from an untrusted file.

MLIR's parser and Triton's passes do not validate their input: deeply nested text, a module without
a kernel, or mismatched types crash the process. The text is therefore checked first, and then
parsed in a child process.
"""

from __future__ import annotations

import re
import signal
import tempfile
from pathlib import Path

from ttools.core.errors import UsageError
from ttools.core.process.channel import Channel, WorkerSlowError
from ttools.core.process.worker import Limits, spawn_worker
from ttools.core.triton_versions.front_end import run_ttir_passes
from ttools.core.triton_versions.version import installed_triton

#: Maximum nesting of brackets. Triton writes a few dozen levels; MLIR's parser overflows its stack
#: at several thousand.
DEEPEST = 200
#: Largest accepted file in bytes; the largest kernels are a few megabytes long.
LARGEST = 1 << 28
#: Time limit of the child process in seconds.
_PATIENCE_S = 120

_WORDS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|[(\[{]|[)\]}]')
_KERNEL = re.compile(r"\btt\.func\b")
_REFUSED, _NO_KERNEL = 3, 4
_WITHOUT_KERNEL = "it has no public function (`tt.func public`) to launch"


def read_foreign_ttir(path: Path) -> str:
    """Return the text of a `.ttir` file if Triton's parser accepts it without crashing.

    Raises:
        UsageError: The file cannot be read or is not TTIR.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {path}: {reason}") from error
    if len(raw) > LARGEST:
        raise UsageError(f"{path}: the file is too large; at most {LARGEST:,} bytes are allowed")
    reason = _wrong(text)
    if reason:
        raise UsageError(f"{path}: not valid TTIR: {reason}")
    _try_in_child(path, str(path))
    return text


def refuse_damaged_ttir(text: str, name: str) -> None:
    """Check that Triton's parser accepts text without crashing.

    Args:
        name: Description of the text for the error message.

    Raises:
        UsageError: The text is not valid TTIR.
    """
    reason = _wrong(text)
    if reason:
        raise UsageError(f"{name}: not valid TTIR: {reason}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.ttir")
        path.write_text(text, "utf-8")
        _try_in_child(path, name)


def _wrong(text: str) -> str | None:
    """Return a description of a defect that can be found without parsing the text, or None."""
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        return f"line {line} contains a null byte"
    depth = 0
    for match in _WORDS.finditer(text):
        word = match[0]
        if word in "([{":
            depth += 1
            if depth > DEEPEST:
                line = text.count("\n", 0, match.start()) + 1
                return f"line {line} nests brackets deeper than {DEEPEST} levels"
        elif word in ")]}":
            depth -= 1
    if _KERNEL.search(text) is None:
        return _WITHOUT_KERNEL
    return None


def _try_in_child(path: Path, name: str) -> None:
    """Parse a file with Triton in a process that may crash."""
    version = installed_triton()
    worker = spawn_worker(f"{__name__}:read_as_triton", [str(path)], Limits(output="shown"))
    try:
        code = worker.wait(_PATIENCE_S)
    except WorkerSlowError:
        raise UsageError(
            f"{name}: Triton {version} did not finish reading it within {_PATIENCE_S} s"
        ) from None
    finally:
        worker.end()
    if code is not None and code < 0:
        died = signal.Signals(-code).name
        raise UsageError(f"{name}: not valid TTIR: Triton {version} crashes on it ({died})")
    if code == _NO_KERNEL:
        raise UsageError(f"{name}: {_WITHOUT_KERNEL}")
    if code:
        # MLIR has already printed the position and the reason.
        raise UsageError(f"{name}: not valid TTIR for Triton {version}")


def read_as_triton(_: Channel, path: str) -> int:
    """Parse a file with Triton, possibly crashing, and return the exit status for the process."""
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    try:
        module = ir.parse_mlir_module(path, context)
        module.context = context
        if not module.get_entry_func_name():
            return _NO_KERNEL
        run_ttir_passes(module)
        str(module)
    except RuntimeError:
        return _REFUSED
    return 0
