"""Compiles the runtime's own LLVM text, and keeps the objects with those of kernels.

The text is made of C (`tools/native_code.py`). What depends on the machine is declared as a
constant there, and gets its value here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ttools.interpreter.native import jit
from ttools.interpreter.native.object_store import object_store


def module_text(path: Path, machine: Mapping[str, int] | None = None) -> str:
    """Return the text of a `.ll` file.

    Args:
        path: Path of the file.
        machine: Values of the constants that the text only declares, by name.
    """
    text = path.read_text()
    for name, value in (machine or {}).items():
        declared = f"@{name} = external constant i64"
        text = text.replace(declared, f"@{name} = internal constant i64 {value}")
    return text


def module_beside(
    file: str, exports: Sequence[str], *, name: str, machine: Mapping[str, int] | None = None
) -> jit.NativeCode:
    """Return the functions of the `.ll` file beside a Python file; see the functions around."""
    text = module_text(Path(file).with_suffix(".ll"), machine)
    return native_module(text, exports, name=name, opt=2)


def native_module(text: str, exports: Sequence[str], *, name: str, opt: int) -> jit.NativeCode:
    """Return the module's functions, compiled or read from the object cache.

    Args:
        text: Text of the module in LLVM's assembly language.
        exports: Names of the functions.
        name: Name of the module in messages.
        opt: Level of optimisation, as for `jit.compile_ir`.
    """
    target = jit.host_target()
    parts = (text, jit.llvm_version(), target.cpu, target.features, str(opt))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    store = object_store()
    entry = store.read(key) if store is not None else None
    if entry is not None:
        try:
            return jit.load(entry.object_code, exports)
        except ValueError:
            pass  # damaged: compiled anew
    object_code = jit.compile_ir(text, name=name, opt=opt)
    if store is not None:
        store.write(key, b"", object_code)
    return jit.load(object_code, exports)
