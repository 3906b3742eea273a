"""Modules that we wrote as LLVM text: their words are filled in, and they are compiled once.

Words in CAPITALS stand for numbers that Python knows: offsets of structures, system calls. The
objects are kept with those of kernels. Must not know what the modules do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ttools.interpreter.native import jit
from ttools.interpreter.native.object_store import object_store


def module_text(path: Path, words: Mapping[str, object]) -> str:
    """The text of a `.ll` file, each of `words` replaced by what it stands for."""
    text = path.read_text()
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, str(words[word]))
    return text


def native_module(text: str, exports: Sequence[str], *, name: str, opt: int) -> jit.NativeCode:
    """The module's functions, compiled or read from the object cache.

    Args:
        name: for messages.
        opt: as for `jit.compile_ir`.
    """
    target = jit.host_target()
    parts = (text, jit.llvm_version(), target.cpu, target.features, str(opt))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    store = object_store()
    found = store.read(key) if store is not None else None
    if found is not None:
        try:
            return jit.load(found.object_code, exports)
        except ValueError:
            pass  # damaged: compiled anew
    object_code = jit.compile_ir(text, name=name, opt=opt)
    if store is not None:
        store.write(key, b"", object_code)
    return jit.load(object_code, exports)
