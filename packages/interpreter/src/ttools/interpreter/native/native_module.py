"""Compiles the runtime's own LLVM text, and stores the objects in the object cache.

The text is generated from C by `tools/native_code.py`. Values that depend on the machine are
declared as external constants in C; this module defines them.
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
        machine: Values of the constants that the text declares but does not define, by name.
    """
    text = path.read_text()
    for name, value in (machine or {}).items():
        declared = f"@{name} = external constant i64"
        text = text.replace(declared, f"@{name} = internal constant i64 {value}")
    return text


def module_beside(
    file: str, exports: Sequence[str], *, name: str, machine: Mapping[str, int] | None = None
) -> jit.NativeCode:
    """Return the functions in the `.ll` file next to a Python file of the same name.

    Args:
        file: Path of the Python file.
        exports: Names of the functions.
        name: Name of the module in messages.
        machine: Values of the constants that the text declares but does not define, by name.
    """
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
            pass  # the entry is damaged, so compile the module again
    object_code = jit.compile_ir(text, name=name, opt=opt)
    if store is not None:
        store.write(key, b"", object_code)
    return jit.load(object_code, exports)
